"""Random rows of any schema, and columns as plain values that can be compared."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    arrow_schema,
)

__all__ = ["plain", "rows_of"]

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_REALS = (0.0, -0.0, 1.0, 0.1, 1e10, 1e-7, 3.4e38, 5e-324, 1.7976931348623157e308)
_TEXTS = ("", " ", "true", "null", "1", "ab", 'a "quote"', "back\\slash", "é", "漢字", "\U0001f600", "a,b;c", "\n\t")


def rows_of(rng: random.Random, schema: RowType, count: int) -> pa.RecordBatch:
    """So many random rows."""
    names = schema.names
    rows = [
        {name: _value(rng, field.type) for name, field in zip(names, schema.fields, strict=True)} for _ in range(count)
    ]
    arrow = arrow_schema(schema)
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in arrow]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _value(rng: random.Random, kind: DataType) -> Any:
    if kind.nullable and rng.random() < 0.1:
        return None
    match kind:
        case RowType(fields=fields):
            return {field.name: _value(rng, field.type) for field in fields}
        case ArrayType(element=element):
            return [_value(rng, element) for _ in range(rng.randrange(4))]
        case MapType(key=key, value=value):
            keys = {_value(rng, key.with_nullability(False)) for _ in range(rng.randrange(3))}
            return [(each, _value(rng, value)) for each in sorted(keys)]
        case StringType():
            return rng.choice(_TEXTS) * rng.choice((1, 1, 2))
        case BinaryType():
            return rng.randbytes(rng.choice((0, 1, 2, 3, 9)))
        case DecimalType(precision=precision, scale=scale):
            return Decimal(rng.randrange(10 ** rng.randint(0, precision))).scaleb(-scale)
        case TimestampType(local_zone=zone):
            at = datetime(1970, 1, 1, tzinfo=UTC if zone else None)
            return at + timedelta(milliseconds=rng.randrange(-(10**12), 4 * 10**12))
        case TimeType():
            return time(rng.randrange(24), rng.randrange(60), rng.randrange(60))
    name = kind.with_nullability(True).text()
    if name in _BITS:
        most = 2 ** (_BITS[name] - 1) - 1
        return rng.choice((0, 1, -1, 7, most, -most - 1, rng.randint(-most - 1, most)))
    if name == "BOOLEAN":
        return rng.random() < 0.5
    if name == "DATE":
        return date(1970, 1, 1) + timedelta(days=rng.randrange(-30_000, 60_000))
    return rng.choice((*_REALS, rng.uniform(-1e6, 1e6)))


def plain(column: pa.Array) -> list[Any]:
    """A column's values, nested ones too, so that equal ones and no others compare equal: times as the numbers that
    they are, since Python has fewer, and reals as text, for the sake of NaN and -0.0."""
    kind = column.type
    if pa.types.is_struct(kind):
        parts = [plain(each) for each in column.flatten()]
        rows = [tuple(values) for values in zip(*parts, strict=True)] if parts else [()] * len(column)
        return [row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = list(zip(plain(column.keys), plain(column.items), strict=True)) if pa.types.is_map(kind) else None
        inner = plain(column.values) if inner is None else inner
        offsets = column.offsets.to_pylist()
        spans = zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False)
        return [inner[start:stop] if there else None for start, stop, there in spans]
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        values: list[Any] = column.view(width).to_pylist()
        return values
    if pa.types.is_floating(kind):
        return list(map(repr, column.to_pylist()))
    found: list[Any] = column.to_pylist()
    return found
