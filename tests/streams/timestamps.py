"""The timestamps of records, as a process function sees them."""

from penstock.common import Types
from penstock.datastream import ProcessFunction
from tests.streams.ends import environment, read, write


class Timed(ProcessFunction):
    """Says when a value was made."""

    def process_element(self, value: str, ctx: ProcessFunction.Context):
        """The value with its timestamp, once for each letter."""
        for letter in value:
            yield f"{letter} at {ctx.timestamp()}"


env = environment()
write(read(env, "in").process(Timed(), Types.STRING()), "out")
env.execute("timestamps")
