"""Repeats rows once for each element of a collection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.equality import list_parts
from penstock.columns.hashing import take_rows
from penstock.columns.ordinals import valid_mask
from penstock.columns.sums import ranges
from penstock.flow.rows.row_works import RowWork
from penstock.plan.nodes import Unnest
from penstock.types import ArrayType, MapType, RowType, arrow_schema


@dataclass(frozen=True)
class Unnester:
    """Gives a row for each element of the column ``collection``, as the columns of the schema ``made``; ``outer`` and
    ``numbered`` are those of the plan's node. ``fields``: the elements are rows, whose fields are wanted. ``counted``:
    the values of the map say how often its keys are there."""

    collection: str
    made: pa.Schema
    outer: bool
    numbered: bool
    fields: bool
    counted: bool

    @classmethod
    def from_node(cls, node: Unnest) -> Unnester:
        """The work of a plan's node."""
        field = node.input.schema.field(node.collection)
        assert field is not None  # noqa: S101
        kind = field.type
        counted = isinstance(kind, MapType) and kind.multiset
        element = kind.element if isinstance(kind, ArrayType) else kind.key if isinstance(kind, MapType) else None
        fields = isinstance(element, RowType) and (counted or isinstance(kind, ArrayType))
        made = arrow_schema(node.schema.select(node.columns))
        return cls(node.collection, made, node.outer, node.numbered, fields, counted)

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The rows made from those of a batch, in the same order."""
        at = given.schema.get_field_index(self.collection)
        rows, elements, numbers = self._elements(given.column(at))
        rest = take_rows(given.remove_column(at), rows)
        columns = [*elements, *([numbers] if self.numbered else [])]
        for field, column in zip(self.made, columns, strict=True):
            rest = rest.append_column(field, column if column.type == field.type else column.cast(field.type))
        return rest

    def _elements(self, column: pa.Array) -> tuple[npt.NDArray[np.int64], list[pa.Array], pa.Array]:
        """For each row that is made, the row that it comes from, its element in columns, and the number of that."""
        parts = list_parts(column)
        assert parts is not None  # noqa: S101 - the binder took no other collection
        offsets, values = parts
        sizes = np.where(valid_mask(column), np.diff(offsets), 0)
        places = ranges(offsets[:-1], sizes)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        if self.counted:
            keys, counts = values
            times = pc.fill_null(counts, 0).to_numpy()[places]
            rows, places, values = np.repeat(rows, times), np.repeat(places, times), (keys,)
            sizes = np.bincount(rows, minlength=len(sizes))
        numbers = ranges(np.ones(len(sizes), np.int64), sizes)
        if self.outer:
            rows, places, numbers = _with_empty(rows, places, numbers, np.flatnonzero(sizes == 0))
        indices = pa.array(places, mask=places < 0)
        found = [each.take(indices) for each in values]
        return rows, found[0].flatten() if self.fields else found, pa.array(numbers, mask=numbers < 1)


def _with_empty(
    rows: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    empty: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same with a row without an element for each of ``empty``."""
    all_rows = np.concatenate([rows, empty])
    order = np.argsort(all_rows, kind="stable")
    nothing = np.full(len(empty), -1)
    return all_rows[order], np.concatenate([places, nothing])[order], np.concatenate([numbers, nothing])[order]


UNNEST = RowWork(Unnest, lambda node, _: Unnester.from_node(node))
