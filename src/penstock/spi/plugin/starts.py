"""What connectors do before Spark runs tasks: they check, so that a start which cannot succeed fails at once, and
prepare what tasks need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from penstock.settings import Settings
from penstock.spi.plugin.context import Checkpoint
from penstock.spi.plugin.outputs import Output


@dataclass(frozen=True)
class StartContext:
    """What is known about a job before Spark starts. ``checkpoint`` is None where only Spark can read it. ``reached``
    has the positions after the last planned batch, by the number of the source, before which records may no longer be
    needed, since the batch may be committed, and ``done`` has those after the last batch that is known to be. They are
    empty before the first."""

    job: str
    settings: Settings
    checkpoint: Checkpoint | None
    reached: Sequence[Mapping[str, Any]] = ()
    done: Sequence[Mapping[str, Any]] = ()


@runtime_checkable
class ChecksScans(Protocol):
    """A connector's runtime that finds errors of a source without Spark."""

    def check_scan(self, spec: Any, ordinal: int, context: StartContext) -> None:
        """Raise what would stop the source of this number from starting, as far as it can be found without Spark.
        Changes nothing: the source checks again when it starts."""


@runtime_checkable
class ChecksSinks(Protocol):
    """A connector's runtime that finds errors of its sinks without Spark."""

    def check_sinks(self, outputs: Sequence[Output], context: StartContext) -> None:
        """Raise what would stop the committer of these sinks from starting, as far as it can be found without Spark and
        without the checkpoint. Takes no ownership: another run of the job may be healthy."""


@runtime_checkable
class Warmable(Protocol):
    """A connector's runtime that prepares for tasks before Spark's Python processes are forked."""

    def warm(self) -> None:
        """Import the modules of tasks, and load compiled loops. Starts no threads: forks would not have them."""
