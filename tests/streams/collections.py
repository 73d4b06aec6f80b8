"""Values of the program itself, as rows, tuples and texts. They have no timestamps."""

from penstock.common import Row, Types
from penstock.datastream import ProcessFunction
from penstock.datastream.formats.json import JsonRowSerializationSchema
from tests.streams.ends import environment, write

PAIR = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.INT()])


class Timed(ProcessFunction):
    """Says what the timestamp of a value is."""

    def process_element(self, value: str, ctx: ProcessFunction.Context):
        """The value with its timestamp."""
        yield f"{value} {ctx.timestamp() is None or ctx.timestamp() < 0}"


env = environment()
schema = JsonRowSerializationSchema.builder().with_type_info(PAIR).build()
write(env.from_collection([Row("a", 1), ("b", 2), Row("c", None)], PAIR), "rows", schema)
write(env.from_collection(["x", "y"], Types.STRING()).process(Timed(), Types.STRING()), "texts")
pairs = env.from_collection([(1, "one"), (2, "two")])
write(pairs.map(lambda pair: f"{pair[0]}={pair[1]}", Types.STRING()), "pairs")
env.execute("collections")
