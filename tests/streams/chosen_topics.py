"""A function chooses the topic of each value."""

from penstock.common import Row, Types
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema
from penstock.datastream.formats.json import JsonRowSerializationSchema
from tests.streams.ends import PREFIX, environment, read, sink

ROW = Types.ROW_NAMED(["topic", "text"], [Types.STRING(), Types.STRING()])

env = environment()
rows = read(env, "in").map(lambda text: Row(PREFIX + ("long" if len(text) > 5 else "short"), text), ROW)
serializer = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda row: row[0])
serializer.set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(ROW).build())
rows.sink_to(sink(serializer.build())).name("out")
env.execute("chosen_topics")
