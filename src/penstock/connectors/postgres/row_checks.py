"""Rows that a table of PostgreSQL cannot hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RecordError
from penstock.spi import KIND, Output, origin_of
from penstock.types import RowKind


def check_values(output: Output, rows: pa.RecordBatch, origins: pa.RecordBatch) -> None:
    """Raises RecordError for a value that PostgreSQL cannot hold in the column, and for a change in a table without a
    key."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        _refuse_nul(output, name, column, origins)
        if name in output.spec.upsert_keys:
            _refuse_null(output, name, column, origins)
    if not output.spec.upsert_keys and KIND in origins.schema.names:
        _refuse_changes(output, origins)


def _refuse_changes(output: Output, origins: pa.RecordBatch) -> None:
    """Raises RecordError for a row that is updated or deleted in a table without a key."""
    changed = np.flatnonzero(pc.fill_null(origins.column(KIND), 0).to_numpy(zero_copy_only=False))
    if len(changed):
        row = int(changed[0])
        kind = RowKind(origins.column(KIND)[row].as_py())
        raise RecordError(
            f"table '{output.table}': the change {kind.short} updates or deletes a row, which is found by its primary "
            "key, and the table has none",
            "",
            *origin_of(origins, row),
            hint="set 'primary-keys' in a rule of 'transform' for it",
        )


def _refuse_null(output: Output, name: str, column: pa.Array, origins: pa.RecordBatch) -> None:
    """Raises RecordError for NULL in a column of the key."""
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise RecordError(
            f"table '{output.table}': NULL cannot be part of the PRIMARY KEY",
            "",
            *origin_of(origins, row),
            field=name,
            hint=f"leave such rows out: WHERE {name} IS NOT NULL",
        )


def _refuse_nul(output: Output, name: str, column: pa.Array, origins: pa.RecordBatch) -> None:
    """Raises RecordError for a text with the character U+0000, which PostgreSQL cannot hold."""
    texts, rows = column, None
    if pa.types.is_list(column.type):
        texts, rows = pc.list_flatten(column), pc.list_parent_indices(column)
    if not pa.types.is_string(texts.type) or not _has_zero_byte(texts):
        return
    first = pc.index(pc.match_substring(texts, "\0"), True).as_py()
    if first < 0:  # the byte was under a null
        return
    row = first if rows is None else rows[first].as_py()
    raise RecordError(
        f"table '{output.table}': a text of PostgreSQL cannot hold the character U+0000",
        "",
        *origin_of(origins, row),
        field=name,
        hint="remove it in the query, or filter rows with it",
    )


def _has_zero_byte(texts: pa.StringArray) -> bool:
    """Whether a byte of the texts is zero: many times faster than a search, which is then rarely needed."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return False
    bounds = np.frombuffer(offsets, np.int32)
    first, last = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return bool(first < last and np.frombuffer(data, np.uint8)[first:last].min() == 0)
