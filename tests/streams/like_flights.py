"""As a job that unites the flights of two airlines: the clients' properties are looked up by a job of their own, and
two kinds of rows become one."""

from collections.abc import Iterator

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.streams.ends import BOOTSTRAP, PREFIX

SKY = Types.ROW_NAMED(
    ["email", "departs", "from", "price"], [Types.STRING(), Types.STRING(), Types.STRING(), Types.DOUBLE()]
)
SUN = Types.ROW_NAMED(["mail", "departure", "airport"], [Types.STRING(), Types.STRING(), Types.STRING()])
FLIGHT = Types.ROW_NAMED(
    ["email", "departs", "airport", "source"], [Types.STRING(), Types.STRING(), Types.STRING(), Types.STRING()]
)


class Properties(MapFunction):
    """Finds the properties of the clients."""

    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap

    def open(self, runtime_context: RuntimeContext) -> None:
        """Find them once."""
        self.found = {"bootstrap.servers": self.bootstrap, "client.id": "flights"}

    def map(self, value: dict) -> dict:
        """What was found."""
        return self.found


def looked_up(env: StreamExecutionEnvironment) -> dict:
    """The properties, by a job."""
    found = {}
    lookup = env.from_collection([{}]).map(Properties(BOOTSTRAP)).name("properties")
    for each in lookup.execute_and_collect():
        found.update(each)
    return found


def flights(env: StreamExecutionEnvironment, properties: dict, airline: str, kind) -> DataStream:
    """The stream of an airline."""
    source = KafkaSource.builder().set_properties({**properties, "group.id": f"{PREFIX}{airline}"})
    source.set_topics(f"{PREFIX}{airline}").set_starting_offsets(KafkaOffsetsInitializer.earliest())
    source.set_bounded(KafkaOffsetsInitializer.latest())
    source.set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(kind).build())
    return env.from_source(source.build(), WatermarkStrategy.for_monotonous_timestamps(), f"{airline}_source")


def of_sun(row: Row) -> Iterator[Row]:
    """Flights with an address."""
    if row.mail:
        yield Row(row.mail, row.departure, row.airport, "sun")


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
properties = looked_up(env)
sky = flights(env, properties, "sky", SKY).map(lambda row: Row(row.email, row.departs, row["from"], "sky"), FLIGHT)
sun = flights(env, properties, "sun", SUN).flat_map(of_sun, FLIGHT)
schema = JsonRowSerializationSchema.builder().with_type_info(FLIGHT).build()
serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}all").set_value_serialization_schema(schema)
sink = KafkaSink.builder().set_bootstrap_servers(BOOTSTRAP).set_property("linger.ms", "5")
sink.set_record_serializer(serializer.build()).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
sky.union(sun).sink_to(sink.build()).name("all_sink").uid("all_sink")
env.execute("like_flights")
