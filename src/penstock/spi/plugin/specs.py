"""Specs, which connectors make of table definitions and plans hold, and their capabilities.

Specs are frozen, picklable and compared by value. The facts that decide whether a job is correct are declared in their
capabilities, whose fields have no default where a wrong one would be harmful.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from penstock.errors import Problem
from penstock.settings import Settings
from penstock.types import DataType, RowKind, RowType

#: The row kinds of tables to which rows are only added, and of those whose rows change.
INSERTIONS = frozenset({RowKind.INSERT})
CHANGES = frozenset(RowKind)


class Guarantee(enum.Enum):
    """What a failure may do to the rows that a sink writes."""

    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, kw_only=True)
class ScanCapabilities:
    """What a scan can do. ``kinds`` are the kinds of its rows. ``bounded``: it ends by itself. ``measures``: reading
    tasks measure the event time of their rows themselves.
    ``native`` has the columns that they read in another type than the table declares, each with that type; the engine
    casts them. ``metadata`` has the columns that are not part of the rows, each with the key of what it is. With
    ``upsert_keys`` its rows are upserts and deletions by these columns: a row replaces the one with the same key, and a
    deletion has the key only. ``folder`` is where its rows are, if that is a folder of files."""

    kinds: frozenset[RowKind]
    bounded: bool
    measures: bool = False
    native: tuple[tuple[str, DataType], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    upsert_keys: tuple[str, ...] = ()
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class SinkCapabilities:
    """What a sink accepts and promises.

    It accepts rows of ``kinds``. ``guarantee`` is None where rows may be repeated and the user has not agreed to that.
    ``commits_to`` is a human-readable name of what is committed together; empty when the sink commits nothing.
    ``destinations`` distinguish tables of one name. ``transactional_id_prefix`` is that of an exactly-once sink whose
    job has a transactional id. With ``upsert_keys`` it keeps one row for each value of these columns: it needs no row
    before an update, and of a deleted row only the key. ``remedy`` tells how a table is declared that takes more kinds.
    ``overwrites`` is the folder whose files are deleted when the job's files are written.
    """

    kinds: frozenset[RowKind]
    guarantee: Guarantee | None
    commits_to: str = ""
    destinations: tuple[str, ...] = ()
    transactional_id_prefix: str = ""
    upsert_keys: tuple[str, ...] = ()
    remedy: str = ""
    overwrites: str = ""


class AnySettings:
    """The part of a spec that works with any settings of the job."""

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """None."""
        return ()


@runtime_checkable
class SinkSpec(Protocol):
    """How a table of ``schema`` is written."""

    @property
    def table(self) -> str:
        """The table's name."""

    @property
    def schema(self) -> RowType:
        """The columns that are written, in the types that the tasks expect. The engine casts to these."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """What the sink accepts and promises."""

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """The problems that the job's settings cause."""

    def describe(self) -> str:
        """A human-readable description. Secrets are masked."""


@runtime_checkable
class NeedsTimes(Protocol):
    """A :class:`ScanSpec` whose connector can handle bad records."""

    def require_times(self) -> ScanSpec:
        """The same scan, in which a record without an event time is a bad record."""


@runtime_checkable
class ScanSpec(Protocol):
    """How a table is read."""

    @property
    def capabilities(self) -> ScanCapabilities:
        """What the scan can do."""

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> SinkSpec | None:
        """The sink of records that cannot be decoded, in a job with the sinks ``others``; None when the scan has
        none."""

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """The problems that the job's settings cause."""

    def describe(self) -> str:
        """A human-readable description. Secrets are masked."""


@dataclass(frozen=True)
class RefusedRow:
    """A row of a scan that gives records as they are, which could not be read: its index, the ``part`` of the record
    that is the cause (``key`` or ``value``), the ``format`` that refused it, the reason, the field that causes it, if
    one does, and the table that the record is of; empty if it is not known."""

    index: int
    part: str
    format: str
    reason: str
    field: str = ""
    table: str = ""


@runtime_checkable
class BuildsDeadLetters(Protocol):
    """A :class:`ScanSpec` that gives records as they are, which are read later, and whose dead letters are built
    then."""

    def build_dead_letters(self, rows: pa.RecordBatch, refused: Sequence[RefusedRow]) -> pa.RecordBatch:
        """The rows of the sink of dead letters, followed by :data:`HIDDEN`. ``rows`` are of the scan."""


@runtime_checkable
class WithNotes(Protocol):
    """A spec that has remarks for the user, which are shown when its job starts: on options without effect and the
    like."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks."""
