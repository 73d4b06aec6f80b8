"""A lambda, a function and an object, one after the other."""

from penstock.common import Types
from penstock.datastream import MapFunction
from tests.streams.ends import environment, read, write


class Numbered(MapFunction):
    """Counts the values that it sees."""

    def __init__(self, first: int):
        self.number = first

    def map(self, value: str) -> tuple[int, str]:
        """The value with its number."""
        self.number += 1
        return self.number, value


def reversed_words(text: str) -> str:
    """The words from the last to the first."""
    return " ".join(reversed(text.split()))


env = environment()
texts = read(env, "in").map(lambda text: text.upper(), Types.STRING()).map(reversed_words, Types.STRING())
pairs = texts.map(Numbered(10), Types.TUPLE([Types.INT(), Types.STRING()]))
write(pairs.map(lambda pair: f"{pair[0]}: {pair[1]}", Types.STRING()), "out")
env.execute("mapped")
