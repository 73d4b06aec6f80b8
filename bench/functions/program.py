"""The program that is measured, by the names that PyFlink and penstock share: strings from a topic, a function on each,
and strings to another topic."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from typing import Any


def upper(text: str) -> str:
    """One simple expression."""
    return text.upper()


def execute(library: str, task: Mapping[str, Any], call: Any = upper) -> float:
    """Run the program by ``library``, ``pyflink`` or ``penstock``, with the function ``call``, and return the seconds
    that it took from its start to its end."""
    common = importlib.import_module(f"{library}.common")
    kafka = importlib.import_module(f"{library}.datastream.connectors.kafka")
    guarantees = importlib.import_module(f"{library}.datastream.connectors.base").DeliveryGuarantee
    datastream = importlib.import_module(f"{library}.datastream")

    configuration = common.Configuration()
    for key, value in task["settings"].items():
        configuration.set_string(key, value)
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    strings = common.SimpleStringSchema()
    source = kafka.KafkaSource.builder().set_bootstrap_servers(task["bootstrap"]).set_topics(task["source"])
    source.set_starting_offsets(kafka.KafkaOffsetsInitializer.earliest())
    source.set_bounded(kafka.KafkaOffsetsInitializer.latest()).set_value_only_deserializer(strings)
    serializer = kafka.KafkaRecordSerializationSchema.builder().set_topic(task["target"])
    serializer.set_value_serialization_schema(strings)
    sink = kafka.KafkaSink.builder().set_bootstrap_servers(task["bootstrap"])
    sink.set_record_serializer(serializer.build()).set_delivery_guarantee(guarantees.AT_LEAST_ONCE)
    for key, value in task["producer"].items():
        sink.set_property(key, value)
    stream = env.from_source(source.build(), common.WatermarkStrategy.no_watermarks(), "source")
    stream.map(call, common.Types.STRING()).sink_to(sink.build())
    begun = time.perf_counter()
    env.execute("functions")
    return time.perf_counter() - begun
