"""PyFlink's calls that set something: what each does in Flink and what it does here.

The reference is rendered from this table, and warnings quote it, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.settings.ignored import WITHOUT_EFFECT


@dataclass(frozen=True)
class Call:
    """A call that sets something. ``key`` is Flink's key for it in SET, if there is one; ``acts`` is false for a call
    without effect, which gives a warning unless it asks for what applies anyway."""

    flink: str
    here: str
    key: str = ""
    acts: bool = True


def _acts(flink: str, here: str, key: str = "") -> Call:
    return Call(flink, here, key)


def _call_for_ignored_key(key: str) -> Call:
    """A call for a key without effect."""
    known = WITHOUT_EFFECT[key]
    return Call(known.meaning, known.here, key, acts=False)


def _without_effect(flink: str, here: str) -> Call:
    return Call(flink, here, acts=False)


_KRYO = "Values are Python's and Arrow's; Kryo serializes none of them."
_OWN_TYPES = "The types of values are those of penstock, which has no other serializers."
_CLEANER = "Functions are pickled with what they use."
_TASKS = "A task of Spark's ends with its process; there is nothing to interrupt."

_GROUP = "The resources of a group of operators."
_SPARK = "Spark's own configuration decides."

#: By class and method.
CALLS: Mapping[str, Call] = {
    # StreamExecutionEnvironment
    "StreamExecutionEnvironment.add_default_kryo_serializer": _without_effect(
        "A serializer of Kryo for a class.", _KRYO
    ),
    "StreamExecutionEnvironment.add_jars": _without_effect("Jars that the job needs.", "Nothing is loaded from jars."),
    "StreamExecutionEnvironment.add_classpaths": _without_effect(
        "Addresses of classes that the job needs.", "Nothing is loaded from jars."
    ),
    "StreamExecutionEnvironment.configure": _acts(
        "Settings by their keys.", "The same keys as in SET; an unknown one is warned of, a wrong value is an error."
    ),
    "StreamExecutionEnvironment.disable_operator_chaining": _call_for_ignored_key("pipeline.operator-chaining.enabled"),
    "StreamExecutionEnvironment.enable_checkpointing": _acts(
        "Takes checkpoints at this interval, and restarts a job that fails from the latest.",
        "A batch begins at this interval; each is a checkpoint and, with exactly-once, a transaction. A job that fails "
        "restarts from the latest, after a delay that grows, unless another restart strategy is chosen.",
        "execution.checkpointing.interval",
    ),
    "StreamExecutionEnvironment.enable_changelog_state_backend": _call_for_ignored_key("state.changelog.enabled"),
    "StreamExecutionEnvironment.register_slot_sharing_group": _without_effect(_GROUP, _SPARK),
    "StreamExecutionEnvironment.register_type": _without_effect("A class for the serializers.", _OWN_TYPES),
    "StreamExecutionEnvironment.register_type_with_kryo_serializer": _without_effect(
        "A serializer of Kryo for a class.", _KRYO
    ),
    "StreamExecutionEnvironment.set_buffer_timeout": _call_for_ignored_key("execution.buffer-timeout.interval"),
    "StreamExecutionEnvironment.set_default_local_parallelism": _acts(
        "The parallelism of local environments that set none.", "The parallelism of this environment if it sets none."
    ),
    "StreamExecutionEnvironment.set_default_savepoint_directory": _acts(
        "The directory of savepoints that name none.", "The same.", "state.savepoints.dir"
    ),
    "StreamExecutionEnvironment.set_max_parallelism": _call_for_ignored_key("pipeline.max-parallelism"),
    "StreamExecutionEnvironment.set_parallelism": _acts(
        "The parallel instances of each operator.", "The tasks of a batch that run at a time.", "parallelism.default"
    ),
    "StreamExecutionEnvironment.set_restart_strategy": _acts(
        "When a failed job restarts.", "The same.", "restart-strategy.type"
    ),
    "StreamExecutionEnvironment.set_runtime_mode": _acts(
        "Whether a job is a stream or a batch.",
        "The same: BATCH computes all rows in one batch. AUTOMATIC is STREAMING.",
        "execution.runtime-mode",
    ),
    "StreamExecutionEnvironment.set_state_backend": _acts(
        "Where operators keep their state, and checkpoints theirs.",
        "Its directory of checkpoints becomes the job's. State is kept in one way, so the rest has no effect, which is "
        "warned of.",
        "state.backend.type",
    ),
    "StreamExecutionEnvironment.set_stream_time_characteristic": _acts(
        "Which timestamps records have: none, the time of reading, or their own.", "The same."
    ),
    # CheckpointConfig
    "CheckpointConfig.enable_externalized_checkpoints": _call_for_ignored_key(
        "execution.checkpointing.externalized-checkpoint-retention"
    ),
    "CheckpointConfig.set_externalized_checkpoint_cleanup": _call_for_ignored_key(
        "execution.checkpointing.externalized-checkpoint-retention"
    ),
    "CheckpointConfig.set_externalized_checkpoint_retention": _call_for_ignored_key(
        "execution.checkpointing.externalized-checkpoint-retention"
    ),
    "CheckpointConfig.enable_unaligned_checkpoints": _call_for_ignored_key("execution.checkpointing.unaligned.enabled"),
    "CheckpointConfig.disable_unaligned_checkpoints": _call_for_ignored_key(
        "execution.checkpointing.unaligned.enabled"
    ),
    "CheckpointConfig.set_force_unaligned_checkpoints": _call_for_ignored_key(
        "execution.checkpointing.unaligned.forced"
    ),
    "CheckpointConfig.set_alignment_timeout": _call_for_ignored_key(
        "execution.checkpointing.aligned-checkpoint-timeout"
    ),
    "CheckpointConfig.set_aligned_checkpoint_timeout": _call_for_ignored_key(
        "execution.checkpointing.aligned-checkpoint-timeout"
    ),
    "CheckpointConfig.set_checkpoint_interval": _acts(
        "As enable_checkpointing.", "As enable_checkpointing.", "execution.checkpointing.interval"
    ),
    "CheckpointConfig.set_checkpoint_storage": _acts(
        "Where checkpoints are kept.",
        "The storage's directory; without one, the job's default.",
        "execution.checkpointing.dir",
    ),
    "CheckpointConfig.set_checkpoint_storage_dir": _acts(
        "The directory of checkpoints.", "The same.", "execution.checkpointing.dir"
    ),
    "CheckpointConfig.set_checkpoint_timeout": _call_for_ignored_key("execution.checkpointing.timeout"),
    "CheckpointConfig.set_checkpointing_mode": _call_for_ignored_key("execution.checkpointing.mode"),
    "CheckpointConfig.disable_checkpointing": _acts(
        "Takes no checkpoints.",
        "Keeps no progress: the job starts from its beginning again. Refused with exactly-once.",
    ),
    "CheckpointConfig.set_fail_on_checkpointing_errors": _call_for_ignored_key(
        "execution.checkpointing.tolerable-failed-checkpoints"
    ),
    "CheckpointConfig.set_tolerable_checkpoint_failure_number": _call_for_ignored_key(
        "execution.checkpointing.tolerable-failed-checkpoints"
    ),
    "CheckpointConfig.set_max_concurrent_checkpoints": _call_for_ignored_key(
        "execution.checkpointing.max-concurrent-checkpoints"
    ),
    "CheckpointConfig.set_min_pause_between_checkpoints": _call_for_ignored_key("execution.checkpointing.min-pause"),
    "CheckpointConfig.set_prefer_checkpoint_for_recovery": _without_effect(
        "Whether a checkpoint is restored even where a savepoint is newer.",
        "A job begins with a savepoint that is named, and continues from its checkpoint directory.",
    ),
    # ExecutionConfig
    "ExecutionConfig.add_default_kryo_serializer": _without_effect("A serializer of Kryo for a class.", _KRYO),
    "ExecutionConfig.disable_auto_generated_uids": _acts(
        "Every operator needs its own uid.", "Every source and every sink does."
    ),
    "ExecutionConfig.disable_auto_type_registration": _without_effect("Classes are not registered with Kryo.", _KRYO),
    "ExecutionConfig.disable_closure_cleaner": _without_effect("Functions are not searched for references.", _CLEANER),
    "ExecutionConfig.disable_force_avro": _without_effect("Objects are not always serialized by Avro.", _OWN_TYPES),
    "ExecutionConfig.disable_force_kryo": _without_effect("Objects are not always serialized by Kryo.", _KRYO),
    "ExecutionConfig.disable_generic_types": _without_effect("Types that need Kryo are refused.", _KRYO),
    "ExecutionConfig.disable_object_reuse": _call_for_ignored_key("pipeline.object-reuse"),
    "ExecutionConfig.enable_auto_generated_uids": _acts(
        "Operators without a uid get one.", "A source's uid is its name; other steps need none."
    ),
    "ExecutionConfig.enable_closure_cleaner": _without_effect("Functions are searched for references.", _CLEANER),
    "ExecutionConfig.enable_force_avro": _without_effect("Objects are always serialized by Avro.", _OWN_TYPES),
    "ExecutionConfig.enable_force_kryo": _without_effect("Objects are always serialized by Kryo.", _KRYO),
    "ExecutionConfig.enable_generic_types": _without_effect("Types that need Kryo are allowed.", _KRYO),
    "ExecutionConfig.enable_object_reuse": _call_for_ignored_key("pipeline.object-reuse"),
    "ExecutionConfig.register_kryo_type": _without_effect("A class for Kryo.", _KRYO),
    "ExecutionConfig.register_pojo_type": _without_effect("A class for the serializers.", _OWN_TYPES),
    "ExecutionConfig.register_type_with_kryo_serializer": _without_effect("A serializer of Kryo for a class.", _KRYO),
    "ExecutionConfig.set_auto_watermark_interval": _call_for_ignored_key("pipeline.auto-watermark-interval"),
    "ExecutionConfig.set_default_input_dependency_constraint": _without_effect(
        "When the tasks of a batch job are scheduled.", "Spark schedules tasks in its own way."
    ),
    "ExecutionConfig.set_execution_mode": _without_effect(
        "How the operators of a batch job exchange data.", "Spark exchanges the data of a batch in its own way."
    ),
    "ExecutionConfig.set_global_job_parameters": _acts(
        "Parameters that functions find in their runtime context.", "The same."
    ),
    "ExecutionConfig.set_latency_tracking_interval": _call_for_ignored_key("metrics.latency.interval"),
    "ExecutionConfig.set_max_parallelism": _call_for_ignored_key("pipeline.max-parallelism"),
    "ExecutionConfig.set_parallelism": _acts(
        "As set_parallelism of the environment.", "The same.", "parallelism.default"
    ),
    "ExecutionConfig.set_restart_strategy": _acts("When a failed job restarts.", "The same.", "restart-strategy.type"),
    "ExecutionConfig.set_task_cancellation_interval": _without_effect("How often a task is interrupted.", _TASKS),
    "ExecutionConfig.set_task_cancellation_timeout": _without_effect(
        "When a task that does not end takes its process with it.", _TASKS
    ),
    "ExecutionConfig.set_use_snapshot_compression": _without_effect(
        "Whether the state in checkpoints is compressed.", "The files of state have one form."
    ),
    # DataStream and DataStreamSink
    "DataStream.disable_chaining": _acts(
        "The operator shares a thread with none.", "The function gets its values in a separate stage."
    ),
    "DataStream.set_buffer_timeout": _without_effect(
        "How long results wait for a buffer to fill.", "Rows are passed on in batches."
    ),
    "DataStream.set_description": _acts("A description of the operator.", "The same, in the execution plan."),
    "DataStream.set_max_parallelism": _without_effect(
        "The largest parallelism of the operator.", "Each batch is divided into tasks by volume."
    ),
    "DataStream.set_parallelism": _acts(
        "The parallel instances of the operator.",
        "Of a source of Kafka: the tasks that read at a time. Functions run in the tasks that read their rows, so that "
        "theirs has no effect, which is warned of.",
    ),
    "DataStream.set_uid_hash": _without_effect(
        "The id of the operator in a checkpoint of a former version.", "Use uid, before a job's first start."
    ),
    "DataStream.slot_sharing_group": _without_effect(_GROUP, _SPARK),
    "DataStream.partition_custom": _without_effect(
        "Which parallel instance gets a value.",
        "The partitioner is called, and may refuse a value. Tasks are cut by volume, so that it chooses none.",
    ),
    "DataStreamSink.disable_chaining": _without_effect(
        "The sink shares a thread with no operator.", "A batch's records are written by the tasks that have them."
    ),
    "DataStreamSink.set_description": _acts("A description of the sink.", "The same, in the execution plan."),
    "DataStreamSink.set_parallelism": _acts(
        "The parallel instances of the sink.",
        "Of a sink of Kafka: the tasks that write at a time. That of others has no effect, which is warned of.",
    ),
    "DataStreamSink.set_uid_hash": _without_effect(
        "The id of the sink in a checkpoint of a former version.", "A job finds its progress by its name."
    ),
    "DataStreamSink.slot_sharing_group": _without_effect(_GROUP, _SPARK),
}
