"""As a job that reads Debezium's envelopes: the state after each change, without deletions and what is too small,
merged with what is derived of it."""

import json

from penstock.common import Types
from tests.streams.ends import environment, read, write


def after(record: str) -> str | None:
    """The row after a change."""
    found = json.loads(record).get("payload", {}).get("after")
    return None if found is None else json.dumps(found)


def large_enough(record: str) -> bool:
    """Whether the row has an area to speak of."""
    return json.loads(record).get("area", 0) >= 10


def merged(record: str) -> str:
    """The row with its density."""
    row = json.loads(record)
    row["density"] = round(row["people"] / row["area"], 2)
    return json.dumps(row, sort_keys=True)


env = environment()
rows = read(env, "in").map(after).filter(lambda record: record is not None).filter(large_enough)
write(rows.map(merged, output_type=Types.STRING()), "out")
env.execute("like_change_data")
