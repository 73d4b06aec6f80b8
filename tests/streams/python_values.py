"""What a function sees of each type, in words, and what is written of what it returns."""

from penstock.common import Row, Types
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.streams.ends import environment, read, write

KINDS = {
    "b": Types.BOOLEAN(),
    "t": Types.BYTE(),
    "s": Types.SHORT(),
    "i": Types.INT(),
    "l": Types.LONG(),
    "f": Types.FLOAT(),
    "d": Types.DOUBLE(),
    "n": Types.BIG_DEC(),
    "x": Types.STRING(),
    "day": Types.SQL_DATE(),
    "time": Types.SQL_TIME(),
    "at": Types.SQL_TIMESTAMP(),
    "list": Types.OBJECT_ARRAY(Types.INT()),
    "map": Types.MAP(Types.STRING(), Types.DOUBLE()),
    "row": Types.ROW_NAMED(["p", "q"], [Types.INT(), Types.STRING()]),
}
NAMES = list(KINDS)
ROW = Types.ROW_NAMED(NAMES, list(KINDS.values()))


def seen(row: Row) -> str:
    """The values of a row as Python shows them, decimals without zeros at their ends."""
    values = {name: getattr(row, name) for name in NAMES}
    if values["n"] is not None:
        values["n"] = values["n"].normalize()
    return " ".join(f"{name}={value!r}" for name, value in values.items())


env = environment()
rows = read(env, "in", JsonRowDeserializationSchema.builder().type_info(ROW).build())
write(rows.map(seen, Types.STRING()), "seen")
write(rows.map(lambda row: row, ROW), "out", JsonRowSerializationSchema.builder().with_type_info(ROW).build())
env.execute("python_values")
