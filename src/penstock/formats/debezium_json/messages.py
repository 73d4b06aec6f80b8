"""Messages of a batch, with the places of what is in those that have the usual form: one change, its rows, its source.

One compiled pass finds the places, before the messages are divided by table. What is read later, the columns of rows
among them, is read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.debezium_json.connect_types import ConnectColumn
from penstock.formats.debezium_json.decode import OPERATIONS
from penstock.formats.debezium_json.schema_groups import SCHEMA, SchemaNumbers
from penstock.formats.json.spans import TextSpans
from penstock.loops import chars
from penstock.loops.record_status import READ
from penstock.types import RowKind

_FIELDS = ("before", "after", "source", "op")
_BEFORE, _AFTER, _SOURCE, _OP = range(4)
#: The action of a change by the one character that ``op`` is; -1 for others.
_ACTIONS = np.full(256, -1, np.int8)
_ACTIONS[[ord(name) for name in OPERATIONS]] = [*OPERATIONS.values()]
#: Which rows a change of each action has: before it, after it.
_HAS_BEFORE, _HAS_AFTER = np.array([False, True, True]), np.array([True, True, False])
_COUNTS = _HAS_BEFORE.astype(np.int64) + _HAS_AFTER
#: The kind of the first row of each action, and which of the two rows of a change those of each kind are.
_FIRST_KINDS = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE], np.int8)
_PLACES = np.array([_AFTER, _BEFORE, _AFTER, _BEFORE])


@dataclass(frozen=True)
class RowSpans:
    """Rows of changes, in their order: where they are, the number of each one's message, and the kind of the row."""

    spans: TextSpans
    kinds: npt.NDArray[np.int8]


@dataclass(frozen=True)
class ChangeMessages:
    """Messages: those with the numbers ``index`` in ``every``, which are a whole batch. ``action`` is that of a message
    which has the usual form, else -1; ``found`` are where its fields start and end in ``text``. ``schema`` is the
    number of the one that a message contains, which has the columns ``columns[schema]``: none if it is 0."""

    every: pa.BinaryArray
    text: npt.NDArray[np.uint8]
    index: npt.NDArray[np.int64]
    action: npt.NDArray[np.int8]
    found: npt.NDArray[np.int64]
    schema: npt.NDArray[np.int64]
    columns: tuple[tuple[ConnectColumn, ...], ...] = ((),)

    def __len__(self) -> int:
        return len(self.index)

    @classmethod
    def from_values(cls, values: pa.BinaryArray, outer: str = "") -> Self:
        """The messages of a batch, whose changes are in the member ``outer``, beside their schema, if it is named."""
        changes = TextSpans.from_messages(values)
        schema, numbers = np.zeros(len(values), np.int64), SchemaNumbers()
        if outer:
            inner, status = changes.fields((outer, SCHEMA))
            schemas = _choose(changes, inner[:, 1])
            schema[schemas.message] = numbers.number(schemas)
            others = changes.message[status != READ]
            schema[others] = numbers.number_messages(values.take(pa.array(others)))
            changes = _choose(changes, inner[:, 0])
        found, status = changes.fields(_FIELDS)
        action = np.full(len(values), -1, np.int8)
        action[changes.message] = np.where(status == READ, _find_actions(changes.text, found), -1)
        places = np.full((len(values), len(_FIELDS), 2), -1, np.int64)
        places[changes.message] = found
        return cls(values, changes.text, np.arange(len(values)), action, places, schema, numbers.columns)

    @cached_property
    def usual(self) -> npt.NDArray[np.bool_]:
        """Which have the usual form."""
        found: npt.NDArray[np.bool_] = self.action >= 0
        return found

    def take(self, index: npt.NDArray[np.int64]) -> Self:
        """Those with these numbers."""
        parts = self.index[index], self.action[index], self.found[index], self.schema[index]
        return type(self)(self.every, self.text, *parts, self.columns)

    def by_schema(self) -> Iterator[tuple[tuple[ConnectColumn, ...], npt.NDArray[np.int64]]]:
        """The columns of each schema, and the numbers of its messages, in the order of the first of each."""
        numbers, firsts = np.unique(self.schema, return_index=True)
        for number in numbers[np.argsort(firsts)].tolist():
            yield self.columns[number], np.flatnonzero(self.schema == number)

    def values(self, which: npt.NDArray[np.int64]) -> pa.BinaryArray:
        """The text of some of the messages."""
        return self.every.take(pa.array(self.index[which]))

    def sources(self) -> TextSpans:
        """The ``source`` of messages of the usual form."""
        usual = np.flatnonzero(self.usual)
        starts, ends = np.ascontiguousarray(self.found[usual, _SOURCE].T)
        return TextSpans(self.text, starts, ends, usual)

    @cached_property
    def rows(self) -> RowSpans:
        """The rows of messages of the usual form: an update has two."""
        usual = np.flatnonzero(self.usual)
        action = self.action[usual]
        counts = _COUNTS[action]
        message, kinds = np.repeat(usual, counts), np.repeat(_FIRST_KINDS[action], counts)
        kinds[1:][message[1:] == message[:-1]] = RowKind.UPDATE_AFTER
        starts, ends = np.ascontiguousarray(self.found[message, _PLACES[kinds]].T)
        return RowSpans(TextSpans(self.text, starts, ends, message), kinds)


def _choose(spans: TextSpans, found: npt.NDArray[np.int64]) -> TextSpans:
    """The parts of spans that were found."""
    given = np.flatnonzero(found[:, 0] >= 0)
    starts, ends = np.ascontiguousarray(found[given].T)
    return TextSpans(spans.text, starts, ends, spans.message[given])


def _find_actions(text: npt.NDArray[np.uint8], found: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """The actions of changes whose fields are ``found`` in the text: -1 for those that are not of the usual form, which
    has the rows of its action, and nothing else in their place."""
    starts = found[:, :, 0]
    given = starts >= 0
    if not len(found):
        return np.zeros(0, np.int8)
    first = text[starts]  # of any value, where there is none
    operation = starts[:, _OP]
    short = (first[:, _OP] == chars.QUOTE) & (found[:, _OP, 1] - operation == len('"c"'))
    action = np.where(given[:, _OP] & short, _ACTIONS[text[operation + 1]], np.int8(-1))
    objects = first[:, :_OP] == chars.BRACE_OPEN
    wanted = np.column_stack([_HAS_BEFORE[action], _HAS_AFTER[action], np.ones(len(found), bool)])
    usual = (given[:, :_OP] == wanted).all(axis=1) & (objects | ~wanted).all(axis=1)
    return np.where(usual, action, np.int8(-1))
