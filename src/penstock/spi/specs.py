"""What the plan asks of a table: specs, which connectors make of table definitions, and their capabilities.

Specs are frozen, picklable and compared by value. What decides whether a job is right is declared in their
capabilities, whose fields have no default where a wrong one would do harm.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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
    """What reading a table gives. ``kinds``: of rows. ``bounded``: whether it ends by itself. ``staged``: whether the
    tasks that read can hand their rows to a sink at once. ``native``: columns that they read in another type than the
    table declares, each with that type; the engine casts them."""

    kinds: frozenset[RowKind]
    bounded: bool
    staged: bool = False
    native: tuple[tuple[str, DataType], ...] = ()


@dataclass(frozen=True, kw_only=True)
class SinkCapabilities:
    """What writing to a table takes and promises.

    ``kinds``: of rows that it takes. ``guarantee``: None where rows may be repeated and the user has not said that this
    is meant. ``commits_to`` names what is committed together, for people; empty where nothing is. ``destinations`` tell
    tables of one name apart, and ``transactional_id_prefix`` is that of an exactly-once sink whose job has an id.
    """

    kinds: frozenset[RowKind]
    guarantee: Guarantee | None
    commits_to: str = ""
    destinations: tuple[str, ...] = ()
    transactional_id_prefix: str = ""


@runtime_checkable
class SinkSpec(Protocol):
    """How a table of ``schema`` is written."""

    @property
    def table(self) -> str:
        """The table's name."""
        ...

    @property
    def schema(self) -> RowType:
        """The columns that are written, in the types that the tasks take. The engine casts to these."""
        ...

    @property
    def capabilities(self) -> SinkCapabilities:
        """What it takes and promises."""
        ...

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """What the job's settings rule out."""
        ...

    def describe(self) -> str:
        """A few lines for people. Secrets are masked."""
        ...


@runtime_checkable
class ScanSpec(Protocol):
    """How a table is read."""

    @property
    def capabilities(self) -> ScanCapabilities:
        """What it gives."""
        ...

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> SinkSpec | None:
        """The sink of the records that cannot be decoded, in a job that has ``others``; None where they are not
        kept."""
        ...

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """What the job's settings rule out."""
        ...

    def describe(self) -> str:
        """A few lines for people. Secrets are masked."""
        ...
