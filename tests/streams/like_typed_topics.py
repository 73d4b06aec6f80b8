"""As a project whose topics are classes, each with its types, from which sources and sinks are made."""

from abc import ABC, abstractmethod

from penstock.common import Row, TypeInformation, Types, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tests.streams.ends import BOOTSTRAP, PREFIX


class TypedTopic(ABC):
    """A topic with a type."""

    def __init__(self, name: str):
        self.name = PREFIX + name

    @abstractmethod
    def type(self) -> TypeInformation:
        """That of its values."""

    def source(self) -> KafkaSource:
        """Reads it up to now."""
        schema = JsonRowDeserializationSchema.builder().type_info(self.type()).ignore_parse_errors().build()
        source = KafkaSource.builder().set_bootstrap_servers(BOOTSTRAP).set_topics(self.name)
        source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(schema)
        return source.set_bounded(KafkaOffsetsInitializer.latest()).build()

    def sink(self) -> KafkaSink:
        """Writes it."""
        schema = JsonRowSerializationSchema.builder().with_type_info(self.type()).build()
        record = KafkaRecordSerializationSchema.builder().set_topic(self.name).set_value_serialization_schema(schema)
        return KafkaSink.builder().set_bootstrap_servers(BOOTSTRAP).set_record_serializer(record.build()).build()


class Readings(TypedTopic):
    """Raw readings."""

    def type(self) -> TypeInformation:
        """A sensor's values."""
        return Types.ROW_NAMED(["sensor", "values"], [Types.STRING(), Types.OBJECT_ARRAY(Types.DOUBLE())])


class Averages(TypedTopic):
    """What is made of readings."""

    def type(self) -> TypeInformation:
        """A sensor's average and place."""
        place = Types.ROW_NAMED(["room", "floor"], [Types.STRING(), Types.INT()])
        return Types.ROW_NAMED(["sensor", "average", "place"], [Types.STRING(), Types.DOUBLE(), place])


def averaged(row: Row) -> Row:
    """The average of a reading."""
    room, _, floor = row.sensor.partition("-")
    return Row(sensor=row.sensor, average=sum(row.values) / len(row.values), place=Row(room=room, floor=int(floor)))


def pipeline(env: StreamExecutionEnvironment, given: TypedTopic, made: TypedTopic) -> DataStream:
    """From one topic to the other."""
    stream = env.from_source(given.source(), WatermarkStrategy.no_watermarks(), given.name, given.type())
    averages = stream.filter(lambda row: bool(row["values"])).map(averaged, output_type=made.type())
    averages.sink_to(made.sink())
    return averages


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pipeline(env, Readings("readings"), Averages("averages")).get_name()
env.execute("like_typed_topics")
