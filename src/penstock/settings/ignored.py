"""Keys of Flink that are read and checked but have no effect here, so that files need no edit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from penstock.options import BOOLEAN, DURATION, INTEGER, TEXT, Codec, one_of
from penstock.settings.clusters import CLUSTERS
from penstock.settings.tuning import TUNING


@dataclass(frozen=True)
class Ignored:
    """A key without effect: what applies here instead, and its meaning and default in Flink."""

    here: str
    meaning: str
    default: str
    codec: Codec
    #: Values, as the codec reads them, that match what applies here anyway, so that they need no warning.
    fulfilled: tuple[Any, ...] = ()

    @property
    def flink(self) -> Any:
        """The default in Flink, as the codec reads it; None for none."""
        return None if self.default == "(none)" else self.codec.parse(self.default)


#: What applies here, with the keys: the other fields of :class:`Ignored` for each. A key that ends in ``*`` means all
#: keys with that prefix.
_KEYS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "A batch is the checkpoint; there are no barriers.": {
        "execution.checkpointing.aligned-checkpoint-timeout": ("When an aligned checkpoint becomes unaligned.", "0 ms"),
        "execution.checkpointing.checkpoints-after-tasks-finish": (
            "Whether there are checkpoints after some tasks have ended.",
            "true",
            BOOLEAN,
            (True,),
        ),
        "execution.checkpointing.incremental": ("Whether a checkpoint holds only what changed.", "false"),
        "execution.checkpointing.timeout": ("When an unfinished checkpoint is aborted.", "10 min"),
        "execution.checkpointing.unaligned.enabled": (
            "Whether checkpoints overtake records.",
            "false",
            BOOLEAN,
            (False,),
        ),
        "execution.checkpointing.unaligned.interruptible-timers.enabled": (
            "Whether checkpoints interrupt timers.",
            "false",
        ),
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file": (
            "Most tasks that share a file of overtaken records.",
            "5",
        ),
        "execution.checkpointing.unaligned.forced": (
            "Whether checkpoints overtake records even where Flink advises against it.",
            "false",
            BOOLEAN,
            (False,),
        ),
    },
    "Batches follow one another, each as soon as the interval allows.": {
        "execution.checkpointing.interval-during-backlog": (
            "Time between two checkpoints while old records are read.",
            "(none)",
            DURATION,
        ),
        "execution.checkpointing.max-concurrent-checkpoints": (
            "Checkpoints that may be taken at a time.",
            "1",
            INTEGER,
            (1,),
        ),
        "execution.checkpointing.min-pause": (
            "Least time between two checkpoints.",
            "0 ms",
            DURATION,
            (timedelta(0),),
        ),
    },
    "A batch that cannot be committed is tried again, and then fails the run of the job.": {
        "execution.checkpointing.tolerable-failed-checkpoints": (
            "Checkpoints in a row that may fail.",
            "0",
            INTEGER,
            (0,),
        ),
    },
    "Checkpoints are always kept, the latest of them whole.": {
        "execution.checkpointing.externalized-checkpoint-retention": (
            "Whether the checkpoint stays when the job is cancelled.",
            "NO_EXTERNALIZED_CHECKPOINTS",
            one_of("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS", fold=str.upper),
            ("RETAIN_ON_CANCELLATION",),
        ),
        "execution.checkpointing.num-retained": ("Checkpoints that are kept.", "1", INTEGER, (1,)),
        "execution.checkpointing.storage": ("Where checkpoints are kept.", "jobmanager"),
        "execution.state-recovery.claim-mode": (
            "Whether a job may delete the savepoint that it starts from.",
            "NO_CLAIM",
            one_of("CLAIM", "NO_CLAIM", "LEGACY", fold=str.upper),
            ("NO_CLAIM",),
        ),
    },
    "A checkpoint is files of Arrow and JSON, which are read from their directory.": {
        "execution.checkpointing.cleaner.parallel-mode": ("Whether files are deleted in parallel.", "true"),
        "execution.checkpointing.create-subdir": (
            "Whether each job has its own folder.",
            "true",
            BOOLEAN,
            (True,),
        ),
        "execution.checkpointing.data-inline-threshold": ("Least size of a file of state.", "20 kb"),
        "execution.checkpointing.file-merging.*": ("Whether small files become large ones.", "(none)"),
        "execution.checkpointing.local-backup.*": ("Whether tasks keep copies of their state.", "(none)"),
        "execution.checkpointing.snapshot-compression": ("Whether state is compressed.", "false"),
        "execution.checkpointing.write-buffer-size": ("Bytes that are written at a time.", "4096"),
        "execution.state-recovery.approximate-local-recovery": ("Whether single tasks may restart.", "false"),
        "execution.state-recovery.from-local": ("Whether tasks restart from copies of their state.", "false"),
        "execution.state-recovery.without-channel-state.checkpoint-id": (
            "The checkpoint from which records in flight are left out.",
            "-1",
        ),
    },
    "State is kept in files of the checkpoint, each with the changes of some batches.": {
        "state.backend.type": ("Where operators keep their state.", "hashmap"),
        "state.changelog.enabled": ("Whether changes of state are logged between checkpoints.", "false"),
        "state.changelog.*": ("How changes of state are logged.", "(none)"),
        "state.latency-track.*": ("Whether the times of access to state are measured.", "(none)"),
        "state.size-track.*": ("Whether the sizes of values in state are measured.", "(none)"),
    },
    "Operators see the rows of a batch together.": {
        "table.exec.mini-batch.allow-latency": ("How long rows are collected before an operator sees them.", "0 ms"),
        "table.exec.mini-batch.enabled": ("Whether operators see rows in small batches.", "false"),
        "table.exec.mini-batch.size": ("Most rows of a small batch.", "-1"),
    },
    "Each batch is divided into tasks by volume.": {
        "parallelism.max": ("Most parallel instances of an operator.", "(none)"),
        "pipeline.jobvertex-parallelism-overrides": ("Parallel instances of single operators.", "(none)"),
        "pipeline.max-parallelism": ("Most parallel instances of an operator.", "-1"),
        "table.exec.resource.default-parallelism": ("Parallel instances of the operators of a query.", "-1"),
    },
    "Rows are passed on in batches.": {
        "execution.buffer-timeout.enabled": (
            "Whether records are sent on before a buffer is full.",
            "true",
            BOOLEAN,
            (False, True),
        ),
        "execution.buffer-timeout.interval": ("How long records wait for a buffer to fill.", "100 ms"),
        "metrics.latency.interval": ("How often the latency of records is measured; 0: never.", "0 ms"),
        "pipeline.object-reuse": ("Whether operators pass objects on without a copy.", "false", BOOLEAN, (False, True)),
        "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": (
            "Whether operators share a thread if their largest parallelism differs.",
            "true",
        ),
        "pipeline.operator-chaining.enabled": ("Whether operators share a thread.", "true", BOOLEAN, (True,)),
    },
    "The watermark moves with every batch.": {
        "pipeline.auto-watermark-interval": ("How often watermarks are sent.", "200 ms"),
        "pipeline.watermark-alignment.allow-unaligned-source-splits": (
            "Whether partitions of one task may read further than the watermark of others allows.",
            "false",
        ),
    },
    "Each source of a job is read once.": {
        "table.optimizer.reuse-source-enabled": ("Whether one table is read once in a plan.", "true"),
    },
    "The language is Flink SQL.": {"table.sql-dialect": ("The dialect of statements.", "default")},
    "Nothing is loaded from jars.": {
        "classloader.*": ("How classes are found.", "(none)"),
        "pipeline.classpaths": ("More places of classes that a job needs.", "(none)"),
        "pipeline.jars": ("The jars that a job needs.", "(none)"),
    },
    "Functions run in the Python of penstock, with the packages that it has.": {
        "python.*": ("The Python of functions: what is installed in it, and how it is called.", "(none)"),
    },
    "Functions open files where they are.": {
        "pipeline.cached-files": ("Files that are copied to all machines.", "(none)"),
    },
    "Programs give them with `set_global_job_parameters`.": {
        "pipeline.global-job-parameters": ("Parameters that functions of a job find.", "(none)"),
    },
    "Rows are columns of Arrow, whatever their types.": {
        "pipeline.closure-cleaner-level": ("What is left out of functions that are sent to tasks.", "RECURSIVE"),
        "pipeline.force-avro": ("Whether plain objects are written as Avro.", "false"),
        "pipeline.force-kryo": ("Whether plain objects are written by Kryo.", "false"),
        "pipeline.force-kryo-avro": ("Whether Kryo writes types of Avro by the library of Avro.", "(none)"),
        "pipeline.generic-types": ("Whether values of any class are taken, which Kryo writes.", "true"),
        "pipeline.serialization-config": ("The serializers of types.", "(none)"),
    },
    "Connectors have their own options.": {
        "sink.committer.retries": ("How often a sink tries to commit.", "10"),
        "source.reader.*": ("Queues of sources.", "(none)"),
    },
    "A job has the tables of its file.": {
        "table.catalog-modification.listeners": ("Classes that are notified of changes of catalogs.", "(none)"),
        "table.catalog-store.*": ("Where catalogs are kept.", "(none)"),
        "table.rtas-ctas.atomicity-enabled": ("Whether CREATE TABLE AS makes a table and its rows at once.", "false"),
    },
    "`penstock run` shows results in its own way.": {
        "sql-client.display.max-column-width": ("Most characters of a column in the SQL client.", "30"),
        "sql-client.execution.result-mode": ("How the SQL client shows results.", "TABLE"),
        "sql-client.verbose": ("Whether the SQL client prints stack traces.", "false"),
        "table.display.max-column-width": ("Most characters of a column that is printed.", "30"),
    },
    "Every batch counts once; the guarantee of each sink is an option of its table.": {
        "execution.checkpointing.mode": (
            "What a failure may do to the state of operators.",
            "EXACTLY_ONCE",
            one_of("exactly_once", "at_least_once", fold=str.lower),
            ("exactly_once",),
        ),
    },
    "The jobs of a file run at the same time.": {
        "table.dml-sync": ("Whether an INSERT waits for the one before it.", "false"),
    },
}


#: Former names of keys.
_FORMER = {
    "execution.buffer-timeout": "execution.buffer-timeout.interval",
    "execution.checkpointing.alignment-timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (
        "execution.checkpointing.checkpoints-after-tasks-finish"
    ),
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "execution.savepoint-restore-mode": "execution.state-recovery.claim-mode",
    "pipeline.operator-chaining": "pipeline.operator-chaining.enabled",
    "state.backend": "state.backend.type",
    "state.backend.changelog.*": "state.changelog.*",
    "state.backend.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "state.backend.fs.write-buffer-size": "execution.checkpointing.write-buffer-size",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.backend.latency-track.*": "state.latency-track.*",
    "state.backend.local-recovery": "execution.state-recovery.from-local",
    "state.checkpoint-storage": "execution.checkpointing.storage",
    "state.checkpoint.cleaner.parallel-mode": "execution.checkpointing.cleaner.parallel-mode",
    "state.checkpoints.create-subdir": "execution.checkpointing.create-subdir",
    "state.checkpoints.num-retained": "execution.checkpointing.num-retained",
    "state.storage.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "state.storage.fs.write-buffer-size": "execution.checkpointing.write-buffer-size",
}


def _declare_ignored(
    here: str, meaning: str, default: str, codec: Codec | None = None, fulfilled: tuple[Any, ...] = ()
) -> Ignored:
    """A key, which has the type of its default unless another is given."""
    if codec is None:
        types = {"(true|false)": BOOLEAN, r"-?\d+": INTEGER, r"\d+ (ms|s|min)": DURATION}
        codec = next((each for pattern, each in types.items() if re.fullmatch(pattern, default)), TEXT)
    return Ignored(here, meaning, default, codec, fulfilled)


def _find_ignored() -> Mapping[str, Ignored]:
    groups = (*_KEYS.items(), *TUNING.items(), *CLUSTERS.items())
    found = {key: _declare_ignored(here, *fields) for here, keys in groups for key, fields in keys.items()}
    former = {old: replace(found[key], meaning=f"Former name of `{key}`.") for old, key in _FORMER.items()}
    return dict(sorted({**found, **former}.items()))


#: The keys, sorted. One that ends in ``*`` means all keys with that prefix.
WITHOUT_EFFECT: Mapping[str, Ignored] = _find_ignored()
_FAMILIES = tuple(key.removesuffix("*") for key in WITHOUT_EFFECT if key.endswith("*"))


def ignored_key(key: str) -> Ignored | None:
    """What is known of a key without effect; None for other keys."""
    if "*" in key:
        return None
    family = next((each for each in _FAMILIES if key.startswith(each)), "")
    return WITHOUT_EFFECT.get(key) or WITHOUT_EFFECT.get(f"{family}*")
