"""Keys of Flink's planner, operators and state that tune how something is computed there, and have no effect here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.options import BOOLEAN, one_of
from penstock.settings.clusters import SPARK_DECIDES

_SWITCH = one_of("ENABLED", "DISABLED", fold=str.upper)
_ASYNC = "There are no lookup joins, models or asynchronous functions."
_PLANNER = "Plans are made in one way, which gives the same rows."

#: What applies here, with the keys: the meaning and the default of each in Flink, then, where they are not the codec of
#: the default's type and none, the codec of its values and the values that need no warning. A key that ends in ``*``
#: means all keys with that prefix.
TUNING: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    _PLANNER: {
        "table.optimizer.bushy-join-reorder-threshold": ("Most joins whose order is searched thoroughly.", "12"),
        "table.optimizer.delta-join.strategy": (
            "Whether joins look rows up in their sources instead of keeping them.",
            "AUTO",
            one_of("AUTO", "FORCE", "NONE", fold=str.upper),
            ("NONE",),
        ),
        "table.optimizer.join-reorder-enabled": ("Whether joins are put in another order.", "false", BOOLEAN, (False,)),
        "table.optimizer.multi-join.enabled": (
            "Whether several joins become one step.",
            "false",
            BOOLEAN,
            (False,),
        ),
        "table.optimizer.multiple-input-enabled": ("Whether steps with several inputs become one.", "true"),
        "table.optimizer.ptf.max-tables": ("Most tables of a process table function.", "20"),
        "table.optimizer.reuse-optimize-block-with-digest-enabled": (
            "Whether equal parts of several queries are planned once.",
            "false",
        ),
        "table.optimizer.source.report-statistics-enabled": ("Whether sources say how much they have.", "true"),
        "table.optimizer.sql2rel.project-merge.enabled": ("Whether projections become one early.", "false"),
        "table.optimizer.union-all-as-breakpoint-enabled": ("Whether queries are planned apart at UNION ALL.", "true"),
        "table.exec.disabled-operators": ("Operators that the planner of batches leaves out.", "(none)"),
        "table.exec.operator-fusion-codegen.enabled": ("Whether operators are compiled into one.", "false"),
        "table.exec.unbounded-over.version": ("The version of an operator for OVER.", "2"),
        "table.generated-code.max-length": ("Most characters of a method of generated code.", "4000"),
        "table.generated-code.max-members": ("Most members of a class of generated code.", "10000"),
        "table.plan.*": ("What compiled plans hold, and how they are restored.", "(none)"),
    },
    "Equal steps with state are planned once.": {
        "table.optimizer.reuse-sink-enabled": ("Whether one table is written once in a plan.", "true"),
        "table.optimizer.reuse-sub-plan-enabled": ("Whether equal parts of a plan are computed once.", "true"),
    },
    "Groups are combined before they are sent where that makes fewer rows.": {
        "table.optimizer.agg-phase-strategy": (
            "Whether groups are computed in one step, or in two.",
            "AUTO",
            one_of("AUTO", "ONE_PHASE", "TWO_PHASE", fold=str.upper),
        ),
        "table.exec.local-hash-agg.adaptive.*": ("When a batch leaves out the first step of groups.", "(none)"),
    },
    "Groups take the rows of a batch together.": {
        "table.optimizer.distinct-agg.split.enabled": ("Whether DISTINCT is computed in two steps.", "false"),
        "table.optimizer.distinct-agg.split.bucket-num": ("The buckets of the first of these steps.", "1024"),
        "table.optimizer.incremental-agg-enabled": ("Whether these steps share one in the middle.", "true"),
        "table.exec.window-agg.buffer-size-limit": ("Most rows that groups of windows buffer.", "100000"),
    },
    "State is read for all keys of a batch at once, from files that are mapped into memory.": {
        "table.exec.async-state.enabled": ("Whether state is read without waiting.", "false"),
        "table.exec.delta-join.cache-enabled": ("Whether rows that were looked up for a join are cached.", "true"),
        "table.exec.delta-join.left.cache-size": ("Most rows of the left side in that cache.", "10000"),
        "table.exec.delta-join.right.cache-size": ("Most rows of the right side in that cache.", "10000"),
        "table.exec.rank.topn-cache-size": ("Most keys of which first rows are cached.", "10000"),
        "execution.async-state.*": ("Buffers of reading state without waiting.", "(none)"),
        "state.backend.forst.*": ("Files and memory of the state backend ForSt.", "(none)"),
        "state.backend.rocksdb.*": ("Files and memory of the state backend RocksDB.", "(none)"),
    },
    "A step gives the net change of each batch.": {
        "table.exec.deduplicate.insert-update-after-sensitive-enabled": (
            "Whether the first of the last rows of a key is an insertion.",
            "true",
        ),
        "table.exec.deduplicate.mini-batch.compact-changes-enabled": (
            "Whether the last rows of a key give one change in a small batch.",
            "false",
        ),
    },
    "All rows of a key are kept in the order in which they came.": {
        "table.exec.sink.upsert-materialize-strategy.*": ("How rows before a table with a key are kept.", "(none)"),
    },
    "Each batch is divided into tasks by volume.": {
        "table.exec.sink.keyed-shuffle": (
            "Whether rows are sent to the tasks that write them by the key of the table.",
            "AUTO",
            one_of("NONE", "AUTO", "FORCE", fold=str.upper),
        ),
    },
    "A record has the time at which it is written, unless a column of metadata says another.": {
        "table.exec.sink.rowtime-inserter": (
            "Whether records that are written have the event time of their row.",
            "ENABLED",
            _SWITCH,
            ("DISABLED",),
        ),
    },
    "Steps are named as in docs/sql.md, state and changed queries.": {
        "pipeline.auto-generate-uids": ("Whether operators without an id get one.", "true"),
        "pipeline.vertex-description-mode": ("How descriptions of operators are written.", "TREE"),
        "pipeline.vertex-name-include-index-prefix": ("Whether names of operators have a number.", "false"),
        "table.exec.simplify-operator-name-enabled": ("Whether names of operators are short.", "true"),
        "table.exec.uid.format": ("How the ids of operators are made.", "<id>_<transformation>"),
        "table.exec.uid.generation": ("When operators have ids.", "PLAN_ONLY"),
    },
    "A join with a condition about time keeps rows until their time to live ends.": {
        "table.exec.interval-join.min-cleanup-interval": ("Least time between clearings of interval joins.", "0 ms"),
    },
    _ASYNC: {
        "table.exec.async-lookup.*": ("How lookup joins wait for their table.", "(none)"),
        "table.exec.async-ml-predict.*": ("How calls of models are waited for.", "(none)"),
        "table.exec.async-scalar.*": ("How asynchronous functions are waited for.", "(none)"),
        "table.exec.async-table.*": ("How asynchronous table functions are waited for.", "(none)"),
        "table.exec.async-vector-search.*": ("How searches of vectors are waited for.", "(none)"),
    },
    SPARK_DECIDES: {
        "execution.batch.*": ("How the tasks of batches are scheduled.", "(none)"),
        "execution.batch-shuffle-mode": ("How the tasks of a batch exchange rows.", "ALL_EXCHANGES_BLOCKING"),
        "execution.batch-state-backend.enabled": ("Whether batches have their own state backend.", "true"),
        "execution.sort-keyed-partition.memory": ("The memory in which keyed partitions are sorted.", "128 mb"),
        "execution.sort-partition.memory": ("The memory in which partitions are sorted.", "128 mb"),
        "execution.sorted-inputs.*": ("Whether the inputs of a batch are sorted.", "(none)"),
        "table.exec.resource.external-buffer-memory": ("The memory of buffers of a batch.", "10 mb"),
        "table.exec.resource.hash-agg.memory": ("The memory of the groups of a batch.", "128 mb"),
        "table.exec.resource.hash-join.memory": ("The memory of the joins of a batch.", "128 mb"),
        "table.exec.resource.sort.memory": ("The memory in which a batch is sorted.", "128 mb"),
        "table.exec.sort.async-merge-enabled": ("Whether sorted files are merged in the background.", "true"),
        "table.exec.sort.max-num-file-handles": ("Most files that are merged at a time.", "128"),
        "table.exec.spill-compression.block-size": ("The size of compressed blocks on disk.", "64 kb"),
        "table.exec.spill-compression.enabled": ("Whether rows on disk are compressed.", "true"),
        "table.optimizer.adaptive-broadcast-join.strategy": ("When a batch sends a side of a join to all.", "auto"),
        "table.optimizer.dynamic-filtering.enabled": ("Whether partitions are left out as a batch runs.", "true"),
        "table.optimizer.join.broadcast-threshold": ("Most bytes of a side that is sent to all tasks.", "1048576"),
        "table.optimizer.runtime-filter.*": ("Whether a batch filters one side of a join by the other.", "(none)"),
        "table.optimizer.skewed-join-optimization.*": ("How a batch joins keys with many rows.", "(none)"),
        "table.resources.download-dir": ("Where resources are downloaded to.", "(none)"),
    },
}
