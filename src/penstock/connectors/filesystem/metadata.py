"""Columns that name the file of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pyarrow as pa
from pyarrow import fs

from penstock.errors import Problem
from penstock.spi import Column
from penstock.types import BIGINT, STRING, DataType, RowType, TimestampType, arrow_type
from penstock.types.casts import widens

#: What is read, by Flink's keys.
READABLE: dict[str, DataType] = {
    "file.path": STRING.with_nullability(False),
    "file.name": STRING.with_nullability(False),
    "file.size": BIGINT.with_nullability(False),
    "file.modification-time": TimestampType(3, local_zone=True, nullable=False),
}


def values(info: fs.FileInfo, schema: RowType, keys: Sequence[tuple[str, str]]) -> dict[str, pa.Scalar]:
    """The values of the columns of ``schema`` that have these metadata ``keys``, for the rows of a file."""
    modified = datetime.fromtimestamp((info.mtime_ns or 0) // 1_000_000 / 1000, UTC)
    found = {
        "file.path": info.path,
        "file.name": PurePosixPath(info.path).name,
        "file.size": info.size,
        "file.modification-time": modified,
    }
    types = {each.name: arrow_type(each.type) for each in schema.fields}
    return {name: pa.scalar(found[key], arrow_type(READABLE[key])).cast(types[name]) for name, key in keys}


def problems(columns: Sequence[Column], *, writes: bool) -> Iterator[Problem]:
    """What is wrong with metadata columns."""
    for column in columns:
        key = column.key or column.name
        known = READABLE.get(key)
        if known is None:
            yield Problem(
                f"column '{column.name}': there is no metadata '{key}'", hint=f"there are {', '.join(READABLE)}"
            )
        elif not widens(known, column.type):
            yield Problem(
                f"column '{column.name}': metadata '{key}' is {known}, not {column.type}",
                hint="declare it so, and CAST it",
            )
        elif writes and not column.virtual:
            yield Problem(f"column '{column.name}': metadata '{key}' is not written", hint="declare the column VIRTUAL")
