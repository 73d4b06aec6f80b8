"""Functions that are opened and closed, and ask about their task."""

from penstock.common import Types
from penstock.datastream import FlatMapFunction, MapFunction, RuntimeContext
from tests.streams.ends import environment, read, write


class Rules(MapFunction):
    """Looks words up in a table that is made when the task begins."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Make the table."""
        self.words = {"one": 1, "two": 2}
        self.task = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: str) -> str:
        """The word with its number, and the task's."""
        return f"{value} {self.words.get(value)} {self.task}"


class Twice(FlatMapFunction):
    """Remembers how often it was opened."""

    opened = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Count."""
        self.opened += 1

    def flat_map(self, value: str):
        """The value, as often as the function was opened, and once more."""
        return [value] * (self.opened + 1)


env = environment()
write(read(env, "in").map(Rules(), Types.STRING()).flat_map(Twice(), Types.STRING()), "out")
env.execute("opened")
