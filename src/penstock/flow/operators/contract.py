"""What an operator is: its inputs, its tables and what it does with the rows of a batch."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from penstock.columns.equality import RowIndices
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import Clock, millis_of
from penstock.plan.kept_state import KeptGroups, KeptState


class Combiner(Protocol):
    """Combines rows of an operator's input into fewer, before they are sent to the owners of their keys. Picklable."""

    def combine(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that an owner gets instead, with ``WEIGHT`` and ``HASH``; None if they would hardly be fewer."""
        ...


@dataclass(frozen=True)
class Input:
    """The rows that an operator takes from one node.

    Batches have the columns of ``schema``, then ``WEIGHT`` (with ``kinds`` instead ``KIND``, and rows of one key in
    the order of arrival), and ``HASH``, the hash of the columns ``keys``. All rows of a key come to one owner.

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


class TimeDomain(enum.Enum):
    """The time on which an operator depends: the time of its rows, or the clock of the batch."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


@dataclass(eq=False)
class OperatorContext:
    """What an operator is opened with for one batch and the keys of one owner, or a part of them: the tables of its
    ``state``, and the ``clock``, whose watermark moves in an operator that depends on time. It takes what the operator
    emits and reports. ``side_outputs`` are the tags under which rows may be emitted, beside the result.
    """

    state: StateStore
    clock: Clock
    side_outputs: Collection[str] = ()
    #: The number of late rows.
    late: int = 0
    #: The processing time at which the operator has more to emit without input, in milliseconds; None: never.
    wake: int | None = None
    _emitted: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def emit(self, rows: pa.RecordBatch, tag: str = "") -> None:
        """Emit rows: the next ones of the result, or of the side output ``tag``. Raises ValueError for a side output
        that the operator does not declare."""
        if tag and tag not in self.side_outputs:
            raise ValueError(f"the operator has no side output '{tag}'")
        if rows.num_rows:
            self._emitted.setdefault(tag, []).append(rows)

    def count_late(self, rows: int) -> None:
        """Report this number of late rows."""
        self.late += rows

    def wake_at(self, time: int | None) -> None:
        """Ask for a batch at this processing time, in milliseconds, even if it has no rows; None: do not."""
        self.wake = time

    def list_emitted(self, tag: str = "") -> Sequence[pa.RecordBatch]:
        """The batches of the result, or of a side output, as they were emitted; those without rows are left out."""
        return self._emitted.get(tag, ())


class Operator(ABC):
    """A step with state: frozen and picklable, so that every batch may run it in another process.

    ``schema`` is the schema of its result, without ``WEIGHT``.
    """

    if TYPE_CHECKING:  # fields of most operators, which at run time would take properties for their defaults

        @property
        @abstractmethod
        def uid(self) -> str: ...

        @property
        @abstractmethod
        def inputs(self) -> tuple[Input, ...]: ...

        @property
        @abstractmethod
        def schema(self) -> pa.Schema: ...

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """The tables of its state."""
        return ()

    @property
    def side_outputs(self) -> Mapping[str, pa.Schema]:
        """The columns of rows that it emits under a tag, without ``WEIGHT``, by the tag."""
        return _NO_SIDE_OUTPUTS

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order in which the rows of a batch arrive."""
        return False

    @property
    def time_domain(self) -> TimeDomain | None:
        """The time on which it depends; None if it does not. With one it runs in batches without rows too, when the
        watermark moves; that of processing time is the time of the batch."""
        return None

    @property
    def times(self) -> tuple[str, ...]:
        """Of each plain input of an operator that depends on time, the column with the event time, or with the end of
        the window, that a row needs; empty for processing time. Rows without one are late."""
        return ()

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns of the result that are the keys of its input, in their order; empty if it does not have all of
        them. They tell that rows of one key are in one task already."""
        return ()

    def may_have(self, time: int) -> bool:
        """Whether its tables may have a part for this time."""
        return True

    def places_by_time(self, rows: pa.RecordBatch) -> RowIndices:
        """The places, in the order of arrival, of rows of the result of an operator that depends on time:
        :func:`places_of` the time of each row, or of its window, which is the last column of aggregates."""
        return places_of(rows.column(self.schema.names[-1]))

    @property
    def passes_rows(self) -> bool:
        """Whether rows of its inputs may be in the result as they are."""
        return True

    def keys_of(self, rows: pa.RecordBatch, given: Input) -> Sequence[pa.Array]:
        """The columns of the result that have the keys of an input."""
        return [rows.column(each) for each in given.keys]

    def is_local_to(self, partitioned: tuple[str, ...]) -> bool:
        """Whether rows of its only input that are divided among tasks by these columns (none: in another way) are where
        their keys are."""
        return bool(partitioned) and partitioned == self.inputs[0].keys

    def with_every_change(self) -> Operator:
        """This operator where the order of arrival counts behind it: with each change of a row in a batch, if it gives
        the last row of a key, instead of the net change."""
        return self

    def behind_every_change(self) -> Operator:
        """This operator behind one that gives every change."""
        return self

    @property
    def kept_groups(self) -> KeptGroups | None:
        """What it keeps of groups; None if it keeps rows."""
        return None

    def describe_state(self) -> KeptState:
        """What the meaning of its state depends on, beside the node."""
        several = (each.side for each in self.tables if each.kind == "multiset" and each.side is not None)
        return KeptState(self.kept_groups, ordered=self.ordered, several=frozenset(several))

    @property
    def timed(self) -> bool:
        """Whether it depends on time."""
        return self.time_domain is not None

    @property
    def processing(self) -> bool:
        """Whether it depends on processing time."""
        return self.time_domain is TimeDomain.PROCESSING_TIME

    @abstractmethod
    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        """Emit the change of the result that the rows of one batch make, and then the time that passes: with
        ``WEIGHT``, no two rows that cancel each other out, retractions before additions.

        Called once per batch and part of an owner's keys, with one batch per input: so rows and timers of a key, or
        both sides of a join, are looked up together.
        """


@dataclass(frozen=True)
class OneInputOperator(Operator):
    """An operator with one input."""

    uid: str
    inputs: tuple[Input]
    schema: pa.Schema


def places_of(times: pa.Array) -> RowIndices:
    """These times as places in the order of arrival: in milliseconds since the epoch, -1 for NULL."""
    moments, valid = millis_of(times)
    return np.where(valid, moments, -1)


_NO_SIDE_OUTPUTS: Mapping[str, pa.Schema] = MappingProxyType({})
