"""PyFlink's ``pyflink.datastream`` under the same names; porting a job is changing ``pyflink`` to ``penstock``."""

from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.data_stream import DataStream, DataStreamSink
from penstock.datastream.functions import FilterFunction, FlatMapFunction, MapFunction
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "CheckpointConfig",
    "CheckpointingMode",
    "DataStream",
    "DataStreamSink",
    "FilterFunction",
    "FlatMapFunction",
    "MapFunction",
    "StreamExecutionEnvironment",
]
