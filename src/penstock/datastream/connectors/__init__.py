"""PyFlink's ``pyflink.datastream.connectors``. As there, it has the main classes of its modules too."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

#: Classes by the module that has them, which is imported when one is asked for.
_MAIN = {
    "file_system": (
        "BucketAssigner",
        "FileEnumeratorProvider",
        "FileSink",
        "FileSource",
        "FileSourceBuilder",
        "FileSplitAssignerProvider",
        "OutputFileConfig",
        "RollingPolicy",
        "StreamFormat",
        "StreamingFileSink",
    ),
    "jdbc": ("JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"),
    "kafka": ("FlinkKafkaConsumer", "FlinkKafkaProducer", "KafkaSource", "Semantic"),
    "number_seq": ("NumberSequenceSource",),
    "pulsar": ("PulsarSource", "PulsarSourceBuilder", "StartCursor", "StopCursor"),
    "rabbitmq": ("RMQConnectionConfig", "RMQSink", "RMQSource"),
}
_MODULES = {name: module for module, names in _MAIN.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
