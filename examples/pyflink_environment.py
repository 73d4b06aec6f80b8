"""The settings of an environment, as PyFlink's page about it has them. Some have no effect here, and say so.

Run with ``python examples/pyflink_environment.py``; BOOTSTRAP names the brokers and TOPIC_PREFIX stands before every
topic.
"""

from __future__ import annotations

import os
import tempfile

from penstock.common import RestartStrategies, SimpleStringSchema, Types
from penstock.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    PredefinedOptions,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")
CHECKPOINTS = os.environ.get("CHECKPOINTS", tempfile.gettempdir() + "/checkpoints")


def configured() -> StreamExecutionEnvironment:
    """An environment with settings of all kinds."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_default_kryo_serializer("com.aaa.bbb.TypeClass", "com.aaa.bbb.Serializer")
    env.register_type("com.aaa.bbb.TypeClass")
    env.register_type_with_kryo_serializer("com.aaa.bbb.TypeClass", "com.aaa.bbb.Serializer")
    env.enable_checkpointing(300000, CheckpointingMode.AT_LEAST_ONCE)
    env.set_restart_strategy(RestartStrategies.no_restart())
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)

    config = env.get_checkpoint_config()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.set_fail_on_checkpointing_errors(False)

    state_backend = RocksDBStateBackend(f"file://{CHECKPOINTS}")
    state_backend.set_predefined_options(PredefinedOptions.SPINNING_DISK_OPTIMIZED)
    env.set_state_backend(state_backend)
    return env


def main() -> None:
    """Write a few words with it."""
    env = configured()
    serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}words")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )
    words = env.from_collection(["to be", "or not"], Types.STRING())
    words.flat_map(str.split, output_type=Types.STRING()).sink_to(sink).name("words")
    env.execute(f"{PREFIX}pyflink-environment")


if __name__ == "__main__":
    main()
