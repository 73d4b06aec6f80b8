"""Columns whose texts or lists may have more than 2 GB together: with offsets of 64 bits, and cut to ordinary ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

#: How many bytes the rows of an ordinary batch have at most, except where one row has.
_MOST_BYTES = 1 << 26


def large_type(kind: pa.DataType) -> pa.DataType:
    """The type with offsets of 64 bits; maps stay."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(large_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(large_type(each.type)) for each in kind])
    return kind


def widen(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, with offsets of 64 bits, so that more may be added."""
    return rows.cast(pa.schema([each.with_type(large_type(each.type)) for each in rows.schema]))


def narrow(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches of limited size with the types of ``schema``, and further columns as they
    are."""
    if rows.nbytes > _MOST_BYTES and len(rows) > 1:
        half = len(rows) // 2
        yield from narrow(rows.slice(0, half), schema)
        yield from narrow(rows.slice(half), schema)
        return
    fields = [each if (at := schema.get_field_index(each.name)) < 0 else schema.field(at) for each in rows.schema]
    # Offsets of a part begin far behind the first one: they are made again.
    yield rows.take(pa.array(np.arange(len(rows)))).cast(pa.schema(fields))
