"""A few values of every logical type, within what the type declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.types import Field, RowType, arrow_schema, parse_columns
from tests.fuzz.values import plain

__all__ = ["SAMPLES", "batch", "columns", "tuples"]

_AT = datetime(2026, 1, 2, 3, 4, 5, 600_000)
_SMALL = datetime(1969, 12, 31, 23, 59, 59)

#: By the type's text in SQL.
SAMPLES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-32768, 32767],
    "INT": [-(2**31), 0, 2**31 - 1],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    # A FLOAT of -0.0 is 0.0 where change formats read JSON as a tree, as Flink does.
    "FLOAT": [1.5, -0.25, 3.4028234663852886e38],
    "DOUBLE": [0.1, -1e-300, 1.7976931348623157e308],
    "DECIMAL(8, 2)": [Decimal("-27000.00"), Decimal("0.01")],
    "DECIMAL(38, 18)": [Decimal("-99999999999999999999.999999999999999999"), Decimal("1E-18")],
    "CHAR(2)": ["é!"],
    "VARCHAR(5)": ["ab", "漢字"],
    "STRING": ['a "quoted", text;', "\U0001f600\n\\"],
    "BINARY(2)": [b"AB"],
    "VARBINARY(3)": [b"\x00\xff"],
    "BYTES": [b"\x00\x01\xfe"],
    "DATE": [date(2026, 1, 2), date(1969, 12, 31)],
    "TIME(0)": [time(3, 4, 5)],
    "TIME(3)": [time(3, 4, 5, 600_000)],
    "TIMESTAMP(3)": [_AT, _SMALL],
    "TIMESTAMP(6)": [_AT.replace(microsecond=123_456), _SMALL],
    "TIMESTAMP_LTZ(3)": [_AT.replace(tzinfo=UTC), _SMALL.replace(tzinfo=UTC)],
    "TIMESTAMP_LTZ(6)": [_AT.replace(tzinfo=UTC, microsecond=123_456)],
    "ARRAY<INT>": [[1, -2]],
    "ARRAY<STRING>": [["x", "y z"]],
    "ARRAY<ROW<a INT, b STRING>>": [[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]],
    "MAP<STRING, INT>": [[("k", 1), ("l", 2)]],
    "ROW<a INT, b STRING>": [{"a": 1, "b": "x"}],
    "ROW<a ROW<b ARRAY<BIGINT>>>": [{"a": {"b": [1, 2]}}],
}


def columns(types: Iterable[str]) -> RowType:
    """A table with a column of each type: c0, c1 and so on."""
    fields = (parse_columns(f"c{number} {kind}").fields[0] for number, kind in enumerate(types))
    return RowType(tuple(Field(each.name, each.type) for each in fields), nullable=False)


def batch(schema: RowType, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """These rows."""
    arrow = arrow_schema(schema)
    cells = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(arrow)]
    return pa.RecordBatch.from_arrays(cells, schema=arrow)


def tuples(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows, so that equal ones and no others compare equal."""
    return list(zip(*(plain(column) for column in rows.columns), strict=True)) if rows.num_columns else []
