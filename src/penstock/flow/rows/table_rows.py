"""Rows of many tables: the work of a step that makes rows of any table from those of a scan.

Which tables there are, and which columns they have, is only known while the job runs. Tasks work under the present
schemas. Where these are not enough, they report what they have seen instead of rows; then the driver writes newer
versions, has the sink follow, and runs the batch again (``docs/design/batch.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock.flow.kernels.session import Session
from penstock.schemas import SchemaChange, Schemas, SchemaVersion
from penstock.spi import Output


@dataclass(frozen=True)
class TableRows:
    """Rows of a table of the sink, in the columns of a ``version`` of its schema, followed by
    :data:`penstock.spi.HIDDEN` and :data:`penstock.spi.KIND`."""

    version: SchemaVersion
    rows: pa.RecordBatch


class TablesTask(Protocol):
    """The work of one task on one batch."""

    def process(self, rows: pa.RecordBatch) -> Iterable[TableRows]:
        """The rows that rows of the scan become; none once a schema is not enough. Raises RecordError."""

    def report_schemas(self) -> bytes:
        """What the driver must know to write newer schemas; empty if these are enough. Called after all rows."""

    def take_letters(self) -> Iterable[pa.RecordBatch]:
        """The records that were refused since the last call, as rows of the sink of dead letters."""

    def report_rows(self) -> bytes:
        """What was read and refused, for the driver to count. Called after all rows."""


@dataclass(frozen=True)
class Evolution:
    """A newer version of a table's schema. ``first`` are the partition's number and the offset of the first record that
    shows it, if one does. A table of the sink follows the ``changes``. If it cannot, ``fallback`` takes the place of
    the version; without one the job ends."""

    version: SchemaVersion
    first: tuple[int, int] | None = None
    changes: tuple[SchemaChange, ...] = ()
    fallback: SchemaVersion | None = None


#: Gives the place of a record, by the number of its partition and its offset.
FindPlace: TypeAlias = Callable[[int, int], str]


@dataclass(frozen=True)
class TableCounts:
    """The rows that were read of each table in a batch, the number of all records that the job has ever left out, and
    that of those in this batch, by table; the name is empty where it is not known."""

    rows: Mapping[str, int]
    refused: int
    new: Mapping[str, int]


@dataclass(frozen=True)
class SessionTables:
    """The work of a step, and the ``session`` in which it computes."""

    work: TablesWork
    session: Session

    def open(self, schemas: Schemas) -> TablesTask:
        """The work of a task under these schemas."""
        return self.work.open(schemas, self.session)


class TablesWork(Protocol):
    """The work of a step. Picklable."""

    @property
    def calls(self) -> bool:
        """Whether it calls functions of the user, which run in Spark's Python processes only."""

    def open(self, schemas: Schemas, session: Session) -> TablesTask:
        """The work of a task."""

    @property
    def looks_ahead(self) -> int:
        """How many of the newest records of each partition are surveyed before the first batch of a job."""

    def survey(self, batches: Iterable[pa.RecordBatch], session: Session) -> Sequence[bytes]:
        """What rows of the scan show of tables, as tasks report it. Records that cannot be read show nothing."""

    def evolve(self, schemas: Schemas, reports: Sequence[bytes]) -> Sequence[Evolution]:
        """The versions that follow from the reports of all tasks; without any, those that follow from the definition of
        the job alone. The result does not depend on the order of the reports. Raises SchemaError for a change that the
        definition does not allow."""

    def count(self, reports: Sequence[bytes], refused: int, batch: int, find_place: FindPlace) -> TableCounts:
        """What tasks have read of a batch, where ``refused`` records were left out before it. Keeps the records that
        were left out now. Raises ExecutionError if they are too many."""

    def explain_unused(self, tables: Collection[str]) -> Sequence[str]:
        """What of the definition has no effect on the tables of the source, for people."""

    def output(self, version: SchemaVersion) -> Output:
        """How a version of a table of the sink is written."""
