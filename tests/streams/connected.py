"""Two streams of different types in one function, of each of the three kinds."""

from penstock.common import Types
from penstock.datastream import CoFlatMapFunction, CoMapFunction, CoProcessFunction
from tests.streams.ends import environment, read, write


class Described(CoMapFunction):
    """Says which stream a value came from."""

    def map1(self, value: str) -> str:
        """Of the first."""
        return f"text {value}"

    def map2(self, value: int) -> str:
        """Of the second."""
        return f"number {value + 1}"


class Repeated(CoFlatMapFunction):
    """Texts twice, and numbers as often as they say."""

    def flat_map1(self, value: str):
        """Twice."""
        yield value
        yield value

    def flat_map2(self, value: int):
        """That often."""
        return [f"{value} times"] * value


class Timed(CoProcessFunction):
    """Values with their timestamps."""

    def process_element1(self, value: str, ctx: CoProcessFunction.Context):
        """With the timestamp before it."""
        yield f"{ctx.timestamp()} {value}"

    def process_element2(self, value: int, ctx: CoProcessFunction.Context):
        """With the timestamp after it."""
        yield f"{value} {ctx.timestamp()}"


env = environment()
both = read(env, "texts").connect(read(env, "numbers").map(int, Types.INT()))
write(both.map(Described(), Types.STRING()), "map")
write(both.flat_map(Repeated(), Types.STRING()), "flat_map")
write(both.process(Timed(), Types.STRING()), "process")
env.execute("connected")
