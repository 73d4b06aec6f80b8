"""Hashes of keys, and rows grouped by key.

Hashes are part of the state's format: segments hold them, and owners of keys are ranges of them. They are the same in
every process, on every machine and with every version of Arrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import (
    Column,
    Flags,
    RowIndices,
    booleans,
    byte_parts,
    fixed_values,
    is_valid,
    list_parts,
    plain,
    same_rows,
    unsupported_error,
    wide_values,
)
from penstock.columns.hash_loops import (
    NULL_WORD,
    START,
    add_words,
    fold_bytes,
    fold_lists,
    fold_words,
    sort_rows,
    sort_within,
)

Hashes: TypeAlias = npt.NDArray[np.uint64]


def key_hashes(columns: Sequence[Column], rows: int | None = None) -> Hashes:
    """A hash per row of key columns, the same for each layout of equal values: dictionaries, slices, chunks.

    Keys that are equal for :mod:`penstock.columns.equality` have equal hashes: NULL is a value, -0.0 is 0.0, and NaN is
    one value. Whole numbers hash alike in every width. The order of the columns matters.

    ``rows`` is needed without columns only: all rows have one key then. Raises TypeError for types that cannot be keys.
    """
    if not columns:
        return np.full(0 if rows is None else rows, START)
    states = np.full(len(columns[0]), START)
    for column in columns:
        fold_words(states, _to_words(column))
    return states


def row_hashes(rows: pa.RecordBatch, names: Sequence[str]) -> Hashes:
    """A hash per row that depends on the names of its columns, not on their order, and that a column that is null does
    not change: it stays the same when columns are added."""
    sums = np.full(len(rows), START)
    for column, name in zip(rows.columns, names, strict=True):
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        add_words(sums, np.uint64(int.from_bytes(digest, "little")), _to_words(column))
    return sums


def _to_words(column: Column) -> Hashes:
    """64 bits per value."""
    array = plain(column)
    valid = is_valid(array)
    if valid is not None and not valid.any():
        return np.full(len(array), NULL_WORD)
    words = _words_of_values(array)
    if valid is not None:
        words = np.where(valid, words, NULL_WORD)
    return words


def _words_of_values(array: pa.Array) -> Hashes:
    """64 bits per value; anything under nulls."""
    if (values := fixed_values(array)) is not None:
        return _words_of_numbers(values)
    if pa.types.is_boolean(array.type):
        return booleans(array, np.arange(len(array))).astype(np.uint64)
    out = np.full(len(array), START)
    if pa.types.is_decimal(array.type):
        for word in np.ascontiguousarray(wide_values(array, array.type.byte_width // 8).T):
            fold_words(out, word)
    elif (parts := byte_parts(array)) is not None:
        fold_bytes(*parts, out)
    elif pa.types.is_struct(array.type):
        for child in range(array.type.num_fields):
            fold_words(out, _to_words(array.field(child)))
    elif (lists := list_parts(array)) is not None:
        offsets, elements = lists
        first, last = int(offsets[0]), int(offsets[-1])
        each = [element.slice(first, last - first) for element in elements]
        fold_lists(offsets - first, key_hashes(each), out)
    else:
        raise unsupported_error(array.type)
    return out


def _words_of_numbers(values: npt.NDArray[Any]) -> Hashes:
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):  # some NaNs signal
            wide += 0.0  # -0.0 + 0.0 is 0.0
        wide[np.isnan(wide)] = np.nan  # of the many bit patterns, one
        return wide.view(np.uint64)
    if values.dtype.kind == "u":
        return values.astype(np.uint64, copy=False)
    return values.astype(np.int64, copy=False).view(np.uint64)


def repeats_often(hashes: Hashes) -> bool:
    """Whether a hash is there four times or more on average, by a sample of one hash in 64 with all its rows."""
    sample = hashes[hashes & np.uint64(63) == 0]
    return len(np.unique(sample)) * 4 <= len(sample)


def has_duplicates(hashes: Hashes) -> bool:
    """Whether any hash is there twice."""
    order, begins = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.bool_)
    sort_rows(hashes, order, begins)
    return not begins.all()


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows by key. Groups are in the order of their hashes, and groups of one hash in the order of their first rows."""

    #: Of the groups, ascending. Two groups have the same hash only if their keys collide.
    hashes: Hashes
    #: One row per group.
    keys: pa.RecordBatch
    #: The group of each input row.
    index: RowIndices
    #: The input rows by group, and within a group in their original order.
    order: RowIndices
    #: Where each group begins in ``order``.
    starts: RowIndices

    def __len__(self) -> int:
        return len(self.hashes)

    @classmethod
    def by_key(cls, hashes: Hashes, keys: pa.RecordBatch) -> Groups:
        """The groups of rows with these hashes and keys; equal keys must have equal hashes."""
        order, begins = sort_into_runs(hashes, None, keys.columns)
        starts = np.flatnonzero(begins)
        index = np.empty(len(order), np.int64)
        index[order] = np.cumsum(begins) - 1
        firsts = order[starts]
        return cls(hashes[firsts], take_rows(keys, firsts), index, order, starts)


def sort_into_runs(hashes: Hashes, second: Hashes | None, columns: Sequence[pa.Array]) -> tuple[RowIndices, Flags]:
    """The rows by hash, and by a ``second`` one if there is one, such that rows with equal ``columns`` are neighbours,
    in their original order; and whether each row differs from the one before. Equal columns must have equal hashes."""
    order, begins = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.bool_)
    sort_rows(hashes, order, begins)
    if second is not None:
        sort_within(order, begins, second)
    repeated = np.flatnonzero(~begins)
    if len(repeated):
        differs = ~same_rows(columns, order[repeated], columns, order[repeated - 1])
        if differs.any():
            order, begins = _separate_collisions(order, begins, repeated[differs], columns)
    return order, begins


def _separate_collisions(
    order: RowIndices, begins: Flags, differing: RowIndices, columns: Sequence[pa.Array]
) -> tuple[RowIndices, Flags]:
    """The order and the begins of groups where rows of one hash have several keys. Each round takes one key of each
    hash."""
    runs = np.cumsum(begins)
    positions = np.flatnonzero(np.isin(runs, runs[differing]))
    run, rows = runs[positions], order[positions]
    rank = np.zeros(len(positions), np.int64)
    rest, taking = np.arange(len(positions)), 0
    while len(rest):
        first = np.ones(len(rest), np.bool_)
        np.not_equal(run[rest][1:], run[rest][:-1], out=first[1:])
        leader = rest[np.maximum.accumulate(np.where(first, np.arange(len(rest)), 0))]
        same = same_rows(columns, rows[rest], columns, rows[leader])
        rank[rest[same]] = taking
        rest, taking = rest[~same], taking + 1
    by_key = np.lexsort((rank, run))
    order, begins = order.copy(), begins.copy()
    order[positions] = rows[by_key]
    run, rank = run[by_key], rank[by_key]
    begins[positions[1:]] = (run[1:] != run[:-1]) | (rank[1:] != rank[:-1])
    return order, begins


def take_rows(rows: pa.RecordBatch, indices: RowIndices) -> pa.RecordBatch:
    """These rows of a batch, which may have no columns."""
    if not rows.num_columns:
        return build_batch([], rows.schema, len(indices))
    return rows.take(pa.array(indices))
