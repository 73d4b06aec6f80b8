"""Words of lines: a generator, a function that returns a list, and filters."""

from penstock.common import Types
from penstock.datastream import FilterFunction
from tests.streams.ends import environment, read, write


class Longer(FilterFunction):
    """Keeps what is longer than some number of letters."""

    def __init__(self, letters: int):
        self.letters = letters

    def filter(self, value: str) -> bool:
        """Whether the word is long enough."""
        return len(value) > self.letters


def split(line: str):
    """The words of a line."""
    for word in line.split():
        yield word.strip(".,")


env = environment()
words = read(env, "in").flat_map(split, Types.STRING()).filter(Longer(2)).filter(lambda word: word != "the")
write(words.flat_map(lambda word: [word, word[::-1]], Types.STRING()), "out")
env.execute("words")
