"""A job before and after its upgrade from FlinkKafkaConsumer to KafkaSource: see docs/upgrading.md.

Run with ``python examples/pyflink_upgrade.py``; BOOTSTRAP names the brokers and TOPIC_PREFIX stands before every topic.
UPGRADED=1 chooses the job after the upgrade, SAVEPOINT a savepoint to begin with. It runs until it is stopped.
"""

from __future__ import annotations

import os

from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")


def before(env: StreamExecutionEnvironment) -> DataStream:
    """The former source. It has a group, and commits its offsets."""
    properties = {"bootstrap.servers": BOOTSTRAP, "group.id": f"{PREFIX}upgrade", "auto.offset.reset": "earliest"}
    consumer = FlinkKafkaConsumer(f"{PREFIX}in", SimpleStringSchema(), properties)
    consumer.set_commit_offsets_on_checkpoints(True)
    return env.add_source(consumer, "former").uid("former-source")


def after(env: StreamExecutionEnvironment) -> DataStream:
    """Today's source: the same group, from the offsets that it has, and another uid."""
    source = KafkaSource.builder().set_bootstrap_servers(BOOTSTRAP).set_topics(f"{PREFIX}in")
    source.set_group_id(f"{PREFIX}upgrade").set_value_only_deserializer(SimpleStringSchema())
    source.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST))
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "present")
    return stream.uid("present-source")


def settings(savepoint: str) -> Configuration:
    """Begins with a savepoint. What it has of the former source is left out, as with --allow-non-restored-state."""
    configuration = Configuration()
    if savepoint:
        configuration.set_string("execution.state-recovery.path", savepoint)
        configuration.set_string("execution.state-recovery.ignore-unclaimed-state", "true")
    return configuration


def main(upgraded: bool, job_name: str, savepoint: str = "") -> None:
    """Write what the source reads, in capital letters."""
    env = StreamExecutionEnvironment.get_execution_environment(settings(savepoint))
    env.enable_checkpointing(500)
    serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}out")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"{PREFIX}upgrade")
        .build()
    )
    stream = after(env) if upgraded else before(env)
    stream.map(str.upper, Types.STRING()).sink_to(sink).name("out").uid("out")
    env.execute(job_name)


if __name__ == "__main__":
    main("UPGRADED" in os.environ, f"{PREFIX}upgrade", os.environ.get("SAVEPOINT", ""))
