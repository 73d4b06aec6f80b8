"""As a job that makes messages of positions: rows of JSON through a class into rows of another type, keyed."""

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.streams.ends import PREFIX, builder, environment, sink

POSITION = Types.ROW_NAMED(
    ["id", "latitude", "longitude", "tags"],
    [Types.INT(), Types.DOUBLE(), Types.DOUBLE(), Types.OBJECT_ARRAY(Types.STRING())],
)
MESSAGE = Types.ROW_NAMED(
    ["id", "message", "latitude", "longitude"], [Types.INT(), Types.STRING(), Types.DOUBLE(), Types.DOUBLE()]
)
PLACES = {"museum": (45.41, 11.88), "market": (45.38, 11.85)}


class ToMessage(MapFunction):
    """Names the place that is next."""

    def map(self, value: Row) -> Row:
        """The message for a position."""
        here = value.latitude, value.longitude

        def distance(place: str) -> float:
            return sum(abs(a - b) for a, b in zip(PLACES[place], here, strict=True))

        near = min(PLACES, key=distance)
        liked = near in (value.tags or [])
        return Row(id=value.id, message=f"{near}{'!' if liked else ''}", latitude=here[0], longitude=here[1])


env = environment()
source = builder("in").set_property("enable.auto.commit", "true").set_property("commit.offsets.on.checkpoint", "true")
source.set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(POSITION).build())
positions = env.from_source(source.build(), WatermarkStrategy.for_monotonous_timestamps(), "positions")
schema = JsonRowSerializationSchema.builder().with_type_info(MESSAGE).build()
serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}out")
serializer.set_key_serialization_schema(schema).set_value_serialization_schema(schema)
positions.map(ToMessage(), output_type=MESSAGE).sink_to(sink(serializer.build()))
env.execute("like_messages")
