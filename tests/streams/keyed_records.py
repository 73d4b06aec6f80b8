"""Keys and values, each with a schema of its own, spread over the partitions by their keys."""

from penstock.common import Row, Types
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema
from penstock.datastream.formats.json import JsonRowSerializationSchema
from tests.streams.ends import PREFIX, environment, read, sink

ROW = Types.ROW_NAMED(["user", "number"], [Types.STRING(), Types.INT()])

env = environment()
rows = read(env, "in").map(lambda text: Row(text.split()[0], int(text.split()[1])), ROW)
schema = JsonRowSerializationSchema.builder().with_type_info(ROW).build()
serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}out")
serializer.set_key_serialization_schema(schema).set_value_serialization_schema(schema)
rows.sink_to(sink(serializer.build())).name("out")
env.execute("keyed_records")
