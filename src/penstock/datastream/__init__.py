"""PyFlink's ``pyflink.datastream`` under the same names; porting a job is changing ``pyflink`` to ``penstock``."""

import sys
from typing import Any

from penstock.datastream.checkpoint_config import CheckpointConfig, ExternalizedCheckpointCleanup
from penstock.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.data_stream import ConnectedStreams, DataStream, DataStreamSink
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.refusals import LATER, refused
from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from penstock.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    StateBackend,
)
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.datastream.time_characteristic import TimeCharacteristic
from penstock.datastream.time_domain import TimeDomain
from penstock.datastream.timerservice import TimerService

__all__ = [
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "FsStateBackend",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "MapFunction",
    "MemorySize",
    "MemoryStateBackend",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "RocksDBStateBackend",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimerService",
]


def __getattr__(name: str) -> Any:
    """Raises UnsupportedError for planned names, and AttributeError for any other name."""
    if name in LATER:
        refused(name, LATER[name])
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name, obj=sys.modules[__name__])
