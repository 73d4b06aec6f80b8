"""A main output and two side outputs."""

from penstock.common import Row, Types
from penstock.datastream import OutputTag, ProcessFunction
from penstock.datastream.formats.json import JsonRowSerializationSchema
from tests.streams.ends import environment, read, write

PAIR = Types.ROW_NAMED(["text", "size"], [Types.STRING(), Types.INT()])
WRONG = OutputTag("wrong", Types.STRING())
LONG = OutputTag("long", PAIR)


class Sorted(ProcessFunction):
    """Sends each value where it belongs."""

    def process_element(self, value: str, ctx: ProcessFunction.Context):
        """Numbers doubled; what is no number, and what is long, aside."""
        if len(value) > 3:
            yield LONG, Row(value, len(value))
        try:
            yield int(value) * 2
        except ValueError as error:
            yield WRONG, str(error)


env = environment()
numbers = read(env, "in").process(Sorted(), Types.INT())
write(numbers.map(str, Types.STRING()), "numbers")
write(numbers.get_side_output(WRONG), "wrong")
schema = JsonRowSerializationSchema.builder().with_type_info(PAIR).build()
write(numbers.get_side_output(LONG), "long", schema)
env.execute("side_outputs")
