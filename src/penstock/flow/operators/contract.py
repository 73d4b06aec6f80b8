"""What an operator is: its inputs, its tables and what it does with the rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import Clock


class Combiner(Protocol):
    """Combines rows of an operator's input into fewer, before they are sent to the owners of their keys. Picklable."""

    def combined(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that an owner gets instead, with ``__weight`` and ``__hash``; None if they would hardly be fewer."""
        ...


@dataclass(frozen=True)
class Input:
    """The rows that an operator takes from one node.

    Batches have the columns of ``schema``, then ``__weight`` (with ``kinds`` instead ``__kind``, and rows of one key in
    the order of arrival), and ``__hash``, the hash of the columns ``keys``. All rows of a key come to one owner.

    With a ``combiner`` the rows are those that it made of rows of the input before this one.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    kinds: bool = False
    combiner: Combiner | None = None

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the keys, in their order."""
        return pa.schema([self.schema.field(each) for each in self.keys])

    @property
    def value_schema(self) -> pa.Schema:
        """The other columns."""
        return pa.schema([each for each in self.schema if each.name not in self.keys])


class KeepsState(Protocol):
    """A step with state: frozen and picklable, so that every batch may run it in another process.

    ``schema`` is that of its rows, without ``__weight``.
    """

    @property
    def uid(self) -> str: ...

    @property
    def inputs(self) -> tuple[Input, ...]: ...

    @property
    def tables(self) -> tuple[TableSpec, ...]: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order in which the rows of a batch arrive."""
        ...


class Operator(KeepsState, Protocol):
    """A step with state that does not depend on time."""

    def process(self, inputs: Sequence[pa.RecordBatch], state: StateStore) -> pa.RecordBatch:
        """The change of the result that the rows of one batch and owner make, with ``__weight``: no two rows that
        cancel each other out, retractions before additions. Called once per batch and part of an owner's keys, with one
        batch per input.
        """
        ...


@dataclass(frozen=True, eq=False)
class Advance:
    """The output of a timed operator: rows as in :meth:`Operator.process`, the number of late rows dropped, and the
    processing time at which it has more to emit without input (None: never)."""

    rows: pa.RecordBatch
    late: int = 0
    wake: int | None = None


@runtime_checkable
class TimedOperator(KeepsState, Protocol):
    """A step with state that depends on time. It runs in batches without rows too, when the watermark moves. If it is
    ``processing``, processing time is its watermark."""

    @property
    def processing(self) -> bool: ...

    @property
    def times(self) -> tuple[str, ...]:
        """Of each plain input, the column with the event time, or with the end of the window, that a row needs; empty
        for processing time. Rows without one are late."""
        ...

    def advance(self, inputs: Sequence[pa.RecordBatch], state: StateStore, clock: Clock) -> Advance:
        """The result of the rows of one batch and owner, and then of the time that passes. Called once per batch and
        owner."""
        ...
