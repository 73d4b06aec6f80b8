"""Text from one topic to another, changed by a Python function.

A Python function is called once per record; where SQL will do, ``call_sql`` is many times faster (see flights.py).
Run with ``python examples/shout.py``; BOOTSTRAP names the brokers and TOPIC_PREFIX stands before every topic.
"""

from __future__ import annotations

import os

from penstock.common import SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")


def shout(text: str) -> str:
    """What becomes of a message."""
    return text.upper() + "!"


def main() -> None:
    """Read what there is and write it louder."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_topics(PREFIX + "words")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = KafkaRecordSerializationSchema.builder().set_topic(PREFIX + "shouts")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
    words.filter(lambda text: text != "").map(shout, output_type=Types.STRING()).sink_to(sink).name("shouts")
    env.execute("shout")


if __name__ == "__main__":
    main()
