"""A job with checkpoints that writes by transactions."""

from penstock.common import SimpleStringSchema, Types
from penstock.datastream import CheckpointingMode
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema
from tests.streams.ends import PREFIX, environment, read, sink

env = environment()
env.enable_checkpointing(500, CheckpointingMode.EXACTLY_ONCE)
env.get_checkpoint_config().set_max_concurrent_checkpoints(1)
serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}out")
serializer.set_value_serialization_schema(SimpleStringSchema())
texts = read(env, "in").map(lambda text: f"<{text}>", Types.STRING()).uid("bracketed")
texts.sink_to(sink(serializer.build(), DeliveryGuarantee.EXACTLY_ONCE)).name("out").uid("out")
env.execute("exactly_once")
