"""What a connector's ``runtime`` implements to write."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from penstock.errors import PluginError
from penstock.schemas import SchemaChange
from penstock.spi.plugin.batches import Batch, CommitStatus, Published
from penstock.spi.plugin.context import JobContext
from penstock.spi.plugin.outputs import FoundOutputs, Output
from penstock.spi.plugin.writers import WriterFactory, WriteTasks


class Committer(Protocol):
    """All sinks of a job that are written, and committed, together."""

    #: Whether it commits the reference to a job's state with its output.
    keeps_state: bool = False

    def writers(self) -> WriterFactory:
        """What writes the rows in tasks. Called after :meth:`open`."""

    def instructions(self, batch: Batch) -> str:
        """What writers must know that write the rows of a batch where they are computed, before :meth:`publish` is
        called: in a job with state. Not asked of a committer whose writers pass rows on
        (:attr:`WriterFactory.publish`)."""
        return ""

    def check(self) -> None:
        """Raise all errors that must stop a start and can be found without taking ownership: another run of the job may
        be healthy. All committers of a job are checked before one of them is opened."""
        return

    def open(self) -> None:
        """Take ownership, finish the work of a former owner, and read what was committed. Called after :meth:`check`,
        and before the query starts."""
        return

    def use_tables(self, tables: FoundOutputs) -> None:
        """Take the tables that the job finds while it runs, which change with each batch. Called once, after
        :meth:`open` and before the first batch. For sinks of many tables (:class:`penstock.spi.WritesTables`)."""
        return

    def prepare_changes(self, outputs: Sequence[Output]) -> None:
        """Do at once what :meth:`apply_changes` would do for each of several tables, which is called for all of them
        after that. What fails here fails there again. For sinks of many tables."""
        return

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Change a table of the system as its schema changes, which is written as ``output`` after that. Called before
        rows with these columns are written, outside of any transaction, and again where a run ended in between: what is
        done already is not an error. Raises a PenstockError where the system cannot follow. For sinks of many
        tables (:class:`penstock.spi.WritesTables`)."""
        raise PluginError(f"{type(self).__name__} cannot write tables that are found while a job runs")

    def can_commit_offsets(self, consumed: Any) -> bool:
        """Whether it commits ``consumed``, the result of a source's ``find_consumed``, with its output. Called after
        :meth:`open`."""
        return False

    def commit_status(self, batch: Batch) -> CommitStatus:
        """What it has committed, when a batch of a job with state begins. Writes nothing. Raises what :meth:`publish`
        would raise. For committers with ``keeps_state``."""
        return CommitStatus(False, None)

    def state(self, upcoming: int) -> str:
        """The reference to the state that its progress holds after the batch ``upcoming``, with which the checkpoint
        continues, or the one before it; empty if it holds none, and if it is behind: files of that state may be gone.
        Called after :meth:`open`. For committers with ``keeps_state``."""
        return ""

    def check_owner(self) -> None:
        """Raise FencedError when another run has taken over, which explains another error better."""
        return

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Write the batch and commit it, atomically; write nothing when it was committed before. ``tasks`` have the
        rows."""

    def close(self) -> None:
        """Abort an open transaction and release connections. May be called twice, and while ``publish`` runs in
        another thread."""
        return


class SinkRuntime(Protocol):
    """The class that a connector's ``runtime`` names when its tables can be written."""

    def commit_group(self, spec: Any) -> Hashable:
        """Sinks with equal keys are written together by one committer."""

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that writes these sinks."""
