"""All topics whose names match, from what the group has read, which is nothing yet."""

import re

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream.connectors.kafka import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from tests.streams.ends import PREFIX, builder, environment, write

env = environment()
source = builder().set_topic_pattern(f"{re.escape(PREFIX)}in-[0-9]").set_value_only_deserializer(SimpleStringSchema())
source.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST))
stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "by pattern")
write(stream, "out")
env.execute("patterns")
