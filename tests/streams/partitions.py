"""Chosen partitions from a point in time, and others between two offsets."""

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from tests.streams.ends import PREFIX, builder, environment, write

env = environment()
first, second = (KafkaTopicPartition(f"{PREFIX}in", number) for number in (0, 1))
since = builder().set_partitions({first}).set_value_only_deserializer(SimpleStringSchema())
since.set_starting_offsets(KafkaOffsetsInitializer.timestamp(1700000002000))
write(env.from_source(since.build(), WatermarkStrategy.no_watermarks(), "since"), "since")

between = builder().set_partitions({second}).set_value_only_deserializer(SimpleStringSchema())
between.set_starting_offsets(KafkaOffsetsInitializer.offsets({second: 1}, KafkaOffsetResetStrategy.EARLIEST))
between.set_bounded(KafkaOffsetsInitializer.offsets({second: 3}))
write(env.from_source(between.build(), WatermarkStrategy.no_watermarks(), "between"), "between")
env.execute("partitions")
