"""The names of PyFlink's streams that are refused: planned ones, and those with an alternative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from penstock.errors import Problem, UnsupportedError

_KEYED = (
    "SQL has GROUP BY, windows, joins and the first or last row of a key, in a .sql file that `penstock run` runs; "
    "there are no keyed functions and no timers in Python yet"
)
_RULES = "read the rules in the open method of a function"
_ASYNC = "call the service in a map function"
_RETRY = "try again in the function"
_CONNECT = "write to a topic or read from one, which Kafka Connect has a connector for"
_FILES = "use the connector filesystem in SQL, or give the file's rows to from_collection"
_JAVA = "it wraps an object of Java's, and there is none"
_INNER = "it is an inner class of PyFlink's, which programs do not need"


_MODULES = (
    "async_data_stream async_retry_predicates async_retry_strategies checkpoint_config checkpoint_storage "
    "checkpointing_mode connectors.base connectors.cassandra connectors.elasticsearch connectors.file_system "
    "connectors.hybrid_source connectors.jdbc connectors.kafka connectors.kinesis connectors.number_seq "
    "connectors.pulsar connectors.rabbitmq data_stream execution_mode externalized_checkpoint_retention formats.avro "
    "formats.csv formats.json formats.orc formats.parquet functions output_tag slot_sharing_group state state_backend "
    "stream_execution_environment time_domain timerservice utils window"
)
#: The modules of ``pyflink.datastream`` 2.2 with public classes.
STREAM_MODULES = tuple(_MODULES.split())


@dataclass(frozen=True)
class Absent:
    """Names of a module of ``pyflink.datastream`` that are refused, with spaces between them. ``later``: they are
    planned."""

    module: str
    text: str
    hint: str
    later: bool = False

    @property
    def names(self) -> list[str]:
        """The names."""
        return self.text.split()


ABSENT = (
    Absent("async_data_stream", "AsyncDataStream", _ASYNC, later=True),
    Absent(
        "async_retry_predicates",
        "empty_result_predicate has_exception_predicate exception_type_predicate",
        _RETRY,
        later=True,
    ),
    Absent(
        "async_retry_strategies",
        "RetryPredicate NoRetryStrategy FixedDelayRetryStrategy ExponentialBackoffDelayRetryStrategy",
        _RETRY,
        later=True,
    ),
    Absent("connectors.base", "StreamTransformer SupportsPreprocessing", _JAVA),
    Absent(
        "connectors.cassandra",
        "ConsistencyLevel MapperOptions ClusterBuilder CassandraCommitter CassandraFailureHandler CassandraSink",
        _CONNECT,
    ),
    Absent(
        "connectors.elasticsearch",
        "FlushBackoffType ElasticsearchEmitter ElasticsearchSinkBuilderBase Elasticsearch6SinkBuilder "
        "Elasticsearch7SinkBuilder ElasticsearchSink",
        _CONNECT,
    ),
    Absent(
        "connectors.file_system",
        "FileEnumeratorProvider FileSplitAssignerProvider StreamFormat BulkFormat FileSourceBuilder FileSource "
        "BucketAssigner RollingPolicy DefaultRollingPolicy OnCheckpointRollingPolicy OutputFileConfig "
        "FileCompactStrategy FileCompactor FileSink StreamingFileSink",
        _FILES,
    ),
    Absent(
        "connectors.hybrid_source",
        "HybridSource HybridSourceBuilder",
        "run a job over the first source, and then one over the second",
    ),
    Absent(
        "connectors.jdbc",
        "JdbcSink JdbcConnectionOptions JdbcExecutionOptions",
        "write by SQL to a table of the connector postgres, or to a topic",
    ),
    Absent(
        "connectors.kinesis",
        "KinesisShardAssigner KinesisDeserializationSchema WatermarkTracker FlinkKinesisConsumer PartitionKeyGenerator "
        "KinesisStreamsSink KinesisStreamsSinkBuilder KinesisFirehoseSink KinesisFirehoseSinkBuilder",
        _CONNECT,
    ),
    Absent(
        "connectors.pulsar",
        "StartCursor StopCursor RangeGenerator PulsarSource PulsarSourceBuilder TopicRoutingMode MessageDelayer "
        "PulsarSink PulsarSinkBuilder",
        _CONNECT,
    ),
    Absent("connectors.rabbitmq", "RMQConnectionConfig RMQSource RMQSink", _CONNECT),
    Absent("data_stream", "KeyedStream WindowedStream AllWindowedStream", _KEYED, later=True),
    Absent("data_stream", "BroadcastStream BroadcastConnectedStream", _RULES, later=True),
    Absent("data_stream", "CachedDataStream", "write the stream to a topic, and read that"),
    Absent("formats.avro", "AvroSchema GenericRecordAvroTypeInfo AvroInputFormat AvroBulkWriters", _FILES),
    Absent("formats.csv", "CsvSchema CsvSchemaBuilder CsvReaderFormat CsvBulkWriters", _FILES),
    Absent("formats.orc", "OrcBulkWriters", _FILES),
    Absent(
        "formats.parquet",
        "AvroParquetReaders AvroParquetWriters ParquetColumnarRowInputFormat ParquetBulkWriters",
        _FILES,
    ),
    Absent(
        "functions",
        "KeyedStateStore ReduceFunction AggregateFunction KeyedProcessFunction KeyedCoProcessFunction WindowFunction "
        "AllWindowFunction ProcessWindowFunction ProcessAllWindowFunction PassThroughWindowFunction "
        "PassThroughAllWindowFunction KeyedBroadcastProcessFunction",
        _KEYED,
        later=True,
    ),
    Absent("functions", "AsyncRetryPredicate AsyncRetryStrategy AsyncFunction", _ASYNC, later=True),
    Absent("functions", "BaseBroadcastProcessFunction BroadcastProcessFunction", _RULES, later=True),
    Absent(
        "functions",
        "NullByteKeySelector FunctionWrapper ReduceFunctionWrapper JavaFunctionWrapper AsyncFunctionDescriptor "
        "InternalWindowFunction InternalSingleValueWindowFunction InternalSingleValueAllWindowFunction "
        "InternalIterableWindowFunction InternalIterableAllWindowFunction InternalProcessWindowContext "
        "InternalProcessAllWindowContext InternalSingleValueProcessWindowFunction "
        "InternalSingleValueProcessAllWindowFunction InternalIterableProcessWindowFunction "
        "InternalIterableProcessAllWindowFunction",
        _INNER,
    ),
    Absent(
        "state",
        "OperatorStateStore State ValueState AppendingState MergingState ReducingState AggregatingState ListState "
        "MapState ReadOnlyBroadcastState BroadcastState StateDescriptor ValueStateDescriptor ListStateDescriptor "
        "MapStateDescriptor ReducingStateDescriptor AggregatingStateDescriptor StateTtlConfig",
        _KEYED,
        later=True,
    ),
    Absent("utils", "ResultTypeQueryable", _INNER),
    Absent(
        "window",
        "Window TimeWindow CountWindow GlobalWindow TimeWindowSerializer CountWindowSerializer GlobalWindowSerializer "
        "TriggerResult Trigger WindowAssigner MergingWindowAssigner WindowOperationDescriptor "
        "SessionWindowTimeGapExtractor EventTimeTrigger ContinuousEventTimeTrigger Min ProcessingTimeTrigger "
        "ContinuousProcessingTimeTrigger PurgingTrigger CountTrigger NeverTrigger CountTumblingWindowAssigner "
        "CountSlidingWindowAssigner TumblingProcessingTimeWindows TumblingEventTimeWindows "
        "SlidingProcessingTimeWindows SlidingEventTimeWindows ProcessingTimeSessionWindows EventTimeSessionWindows "
        "DynamicProcessingTimeSessionWindows DynamicEventTimeSessionWindows GlobalWindows",
        _KEYED,
        later=True,
    ),
)

#: The names that ``pyflink.datastream`` itself exports, and penstock does not have yet, with an alternative.
LATER = {
    name: each.hint
    for each in ABSENT
    for name in each.names
    if name
    in {
        "AggregateFunction", "AsyncDataStream", "AsyncFunction", "AsyncRetryPredicate", "AsyncRetryStrategy",
        "BroadcastConnectedStream", "BroadcastProcessFunction", "BroadcastStream", "CountWindow", "GlobalWindow",
        "KeyedBroadcastProcessFunction", "KeyedCoProcessFunction", "KeyedProcessFunction", "KeyedStream",
        "MergingWindowAssigner", "ProcessWindowFunction", "ReduceFunction", "TimeWindow", "Trigger", "TriggerResult",
        "Window", "WindowAssigner", "WindowFunction", "WindowedStream",
    }
}  # fmt: skip


def refused(name: str, hint: str = _KEYED) -> NoReturn:
    """Raises the UnsupportedError of a planned feature."""
    raise UnsupportedError((Problem("is not supported yet", name, hint=hint),))


def lookup(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module: raises UnsupportedError for the names of :data:`ABSENT`, AttributeError for any
    other."""
    known = {name: each for each in ABSENT if each.module == module for name in each.names}

    def getattr_of_module(name: str) -> Any:
        if name in known:
            each = known[name]
            reason = "is not supported yet" if each.later else "is not supported"
            raise UnsupportedError((Problem(reason, f"{module}.{name}", hint=each.hint),))
        raise AttributeError(f"module 'penstock.datastream.{module}' has no attribute '{name}'")

    return getattr_of_module
