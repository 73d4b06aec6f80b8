"""Functions without types: values of any kind go from one to the next."""

import json

from penstock.common import Types
from tests.streams.ends import environment, read, write


def tagged(document: dict) -> tuple:
    """A document with the set of its keys."""
    return document, frozenset(document)


env = environment()
documents = read(env, "in").map(json.loads).map(tagged).filter(lambda pair: "id" in pair[1])
lines = documents.flat_map(lambda pair: [(key, pair[0][key]) for key in sorted(pair[1])])
write(lines.map(lambda pair: f"{pair[0]}: {pair[1]!r}", Types.STRING()), "out")
env.execute("untyped")
