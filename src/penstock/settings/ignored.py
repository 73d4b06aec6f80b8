"""Keys of Flink that are read and checked but have no effect here, so that files need no edit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.options import BOOLEAN, DURATION, INTEGER, TEXT, Codec, one_of


@dataclass(frozen=True)
class Ignored:
    """A key without effect: what applies here instead, and its meaning and default in Flink."""

    here: str
    meaning: str
    default: str
    codec: Codec
    #: Values, as the codec reads them, that ask for what applies here anyway, so that they need no warning.
    fulfilled: tuple[Any, ...] = ()

    @property
    def flink(self) -> Any:
        """The default in Flink, as the codec reads it; None for none."""
        return None if self.default == "(none)" else self.codec.parse(self.default)


#: What applies here, with the keys: the other fields of :class:`Ignored` for each.
_KEYS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "A batch is the checkpoint; there are no barriers.": {
        "execution.checkpointing.aligned-checkpoint-timeout": ("When an aligned checkpoint becomes unaligned.", "0 ms"),
        "execution.checkpointing.incremental": ("Whether a checkpoint holds only what changed.", "false"),
        "execution.checkpointing.timeout": ("When a checkpoint that is not done is given up.", "10 min"),
        "execution.checkpointing.unaligned.enabled": (
            "Whether checkpoints overtake records.",
            "false",
            BOOLEAN,
            (False,),
        ),
        "execution.checkpointing.unaligned.forced": (
            "Whether checkpoints overtake records even where Flink advises against it.",
            "false",
            BOOLEAN,
            (False,),
        ),
    },
    "Batches follow one another, each as soon as the interval allows.": {
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
    },
    "State is kept in files of the checkpoint, each with what batches have changed.": {
        "state.backend": ("Where operators keep their state.", "hashmap"),
        "state.backend.incremental": ("Whether checkpoints of state hold only what changed.", "false"),
        "state.backend.type": ("Where operators keep their state.", "hashmap"),
        "state.changelog.enabled": ("Whether changes of state are logged between checkpoints.", "false"),
    },
    "Operators see the rows of a batch together.": {
        "table.exec.mini-batch.allow-latency": ("How long rows are collected before an operator sees them.", "0 ms"),
        "table.exec.mini-batch.enabled": ("Whether operators see rows in small batches.", "false"),
        "table.exec.mini-batch.size": ("Most rows of a small batch.", "-1"),
    },
    "Tasks are cut by volume in each batch.": {
        "parallelism.max": ("Most parallel instances of an operator.", "(none)"),
        "pipeline.max-parallelism": ("Most parallel instances of an operator.", "-1"),
        "table.exec.resource.default-parallelism": ("Parallel instances of the operators of a query.", "-1"),
    },
    "Rows are handed on in batches.": {
        "execution.buffer-timeout.enabled": (
            "Whether records are sent on before a buffer is full.",
            "true",
            BOOLEAN,
            (False, True),
        ),
        "execution.buffer-timeout.interval": ("How long records wait for a buffer to fill.", "100 ms"),
        "metrics.latency.interval": ("How often the latency of records is measured; 0: never.", "0 ms"),
        "pipeline.object-reuse": ("Whether operators pass objects on without a copy.", "false", BOOLEAN, (False, True)),
        "pipeline.operator-chaining.enabled": ("Whether operators share a thread.", "true", BOOLEAN, (True,)),
    },
    "The watermark moves with every batch.": {
        "pipeline.auto-watermark-interval": ("How often watermarks are sent.", "200 ms"),
    },
    "Each source of a job is read once.": {
        "table.optimizer.reuse-source-enabled": ("Whether one table is read once in a plan.", "true"),
    },
    "The language is Flink SQL.": {"table.sql-dialect": ("The dialect of statements.", "default")},
    "Nothing is loaded from jars.": {"pipeline.jars": ("The jars that a job needs.", "(none)")},
    "Spark's own configuration decides.": {
        "execution.target": ("Where a job runs.", "(none)"),
        "rest.address": ("The address of the JobManager.", "(none)"),
        "rest.port": ("The port of the JobManager.", "8081"),
        "taskmanager.memory.process.size": ("The memory of a TaskManager.", "(none)"),
        "taskmanager.numberOfTaskSlots": ("The slots of a TaskManager.", "1"),
    },
    "`penstock run` shows results in its own way.": {
        "sql-client.display.max-column-width": ("Most characters of a column in the SQL client.", "30"),
        "sql-client.execution.result-mode": ("How the SQL client shows results.", "TABLE"),
        "sql-client.verbose": ("Whether the SQL client prints stack traces.", "false"),
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


def _ignored(
    here: str, meaning: str, default: str, codec: Codec | None = None, fulfilled: tuple[Any, ...] = ()
) -> Ignored:
    """A key, whose type is that of its default unless it is given."""
    if codec is None:
        types = {"(true|false)": BOOLEAN, r"-?\d+": INTEGER, r"\d+ (ms|s|min)": DURATION}
        codec = next((each for pattern, each in types.items() if re.fullmatch(pattern, default)), TEXT)
    return Ignored(here, meaning, default, codec, fulfilled)


#: The keys, sorted.
WITHOUT_EFFECT: Mapping[str, Ignored] = dict(
    sorted((key, _ignored(here, *fields)) for here, keys in _KEYS.items() for key, fields in keys.items())
)
