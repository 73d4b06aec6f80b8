"""Rows to Avro and back."""

from penstock.common import Row, Types
from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tests.streams.ends import environment, read, write

SCHEMA = """{"type": "record", "name": "Person", "fields": [
    {"name": "name", "type": ["null", "string"]}, {"name": "age", "type": "int"},
    {"name": "size", "type": "double"}]}"""
PERSON = Types.ROW_NAMED(["name", "age", "size"], [Types.STRING(), Types.INT(), Types.DOUBLE()])


def parsed(text: str) -> Row:
    """The person of a line."""
    name, age, size = text.split()
    return Row(None if name == "-" else name, int(age), float(size))


env = environment()
write(read(env, "in").map(parsed, PERSON), "people", AvroRowSerializationSchema(avro_schema_string=SCHEMA))
env.execute("avro_rows write")

people = read(env, "people", AvroRowDeserializationSchema(avro_schema_string=SCHEMA))
write(people.map(lambda row: f"{row[0]} is {row[1]} and {row[2]}", Types.STRING()), "out")
env.execute("avro_rows read")
