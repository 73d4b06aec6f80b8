"""The order of arrival behind operators with state.

Operators group rows by the hashes of their keys, on several owners, and give them in that order. Where the result of a
later operator depends on arrival, rows have the column :data:`ARRIVED` from the scan on: the place, in its batch, of
the row that caused the change. The later operator takes its rows in that order. No other operator pays for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columns.equality import RowIndices
from penstock.columns.hashing import Hashes, has_duplicates, key_hashes, take_rows
from penstock.flow.graph.exchange import Origin
from penstock.flow.operators.contract import Operator
from penstock.flow.rows.envelope import ARRIVED, arrivals_of, hashes_of

#: The places of the rows of a task, and those of a scan, begin at a multiple of these.
_TASK, _SCAN = 1 << 34, 1 << 50


def number_arrivals(rows: pa.RecordBatch, origin: Origin, first: int) -> pa.RecordBatch:
    """Rows that a task reads of a scan, with their places, after the ``first`` ones of the batch: scan by scan, task by
    task, as they came."""
    start = origin.scan * _SCAN + origin.task * _TASK + first
    return rows.append_column(ARRIVED, pa.array(np.arange(start, start + rows.num_rows)))


def sort_by_arrival(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of an input, those of each key in the order of arrival, if they have one; what arrived at once stays as it
    is."""
    if ARRIVED not in rows.schema.names:
        return rows
    places = arrivals_of(rows)
    if (places[1:] >= places[:-1]).all() or not has_duplicates(hashes_of(rows)):
        return rows
    return take_rows(rows, np.argsort(places, kind="stable"))


def pass_on_arrivals(operator: Operator, inputs: Sequence[pa.RecordBatch], rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that an operator has made of ``inputs``, with the places of those that caused them.

    A row that was part of the input has its own place; any other, such as a sum, has the place of the last row of its
    key. A result of time passing, as when a window closes, has its time as its place. Joins report themselves what
    caused a row.
    """
    if ARRIVED in rows.schema.names:
        return rows
    if operator.timed:
        return rows.append_column(ARRIVED, pa.array(operator.places_by_time(rows)))
    return rows.append_column(ARRIVED, pa.array(_causes(operator, inputs, rows)))


def _causes(operator: Operator, inputs: Sequence[pa.RecordBatch], rows: pa.RecordBatch) -> RowIndices:
    """The last of the places of what caused each row."""
    found = np.full(len(rows), -1, np.int64)
    plain = [each for each in zip(inputs, operator.inputs, strict=True) if each[1].combiner is None]
    if operator.passes_rows:
        for batch, given in plain:
            whole = key_hashes(rows.columns[: len(given.schema)], len(rows))
            found = np.maximum(found, _last(_hashes(batch, given.schema.names), arrivals_of(batch), whole))
    others = found < 0
    if others.any():
        by_key = np.full(len(rows), -1, np.int64)
        for batch, given in plain:
            keys = key_hashes(operator.keys_of(rows, given), len(rows))
            by_key = np.maximum(by_key, _last(_hashes(batch, given.keys), arrivals_of(batch), keys))
        found = np.where(others, by_key, found)
    return found


def _hashes(batch: pa.RecordBatch, names: Sequence[str]) -> Hashes:
    return key_hashes([batch.column(each) for each in names], len(batch))


def _last(hashes: Hashes, places: RowIndices, asked: Hashes) -> RowIndices:
    """The last of the places of each hash that is ``asked`` for; -1 for one that is not there."""
    arrived = bool((places[1:] >= places[:-1]).all())
    order = np.argsort(hashes, kind="stable") if arrived else np.lexsort((places, hashes))
    known = hashes[order]
    at = np.searchsorted(known, asked, side="right") - 1
    there = at >= 0
    there[there] = known[at[there]] == asked[there]
    found = np.full(len(asked), -1, np.int64)
    found[there] = places[order][at[there]]
    return found
