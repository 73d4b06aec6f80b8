"""Rows without an event time, which belong to no window: by default they fail the job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.columns.equality import Flags
from penstock.errors import RecordError
from penstock.flow.rows.envelope import WEIGHT
from penstock.spi import KIND, locate_error
from penstock.types import RowKind

_HINT = (
    "look at the record; WHERE {column} IS NOT NULL below the window leaves rows like it out, "
    "'penstock.null-event-time' = 'late' counts them as late"
)


def check_times(rows: pa.RecordBatch, column: str) -> None:
    """Raises RecordError for the first row that is added and has no event time in ``column``, with its position if the
    rows have that."""
    missing = _missing(rows, column)
    if missing is not None and missing.any():
        error = RecordError("the row has no event time", field=column, hint=_HINT.format(column=column))
        raise locate_error(error, rows, int(np.argmax(missing)))


def count_without_time(rows: pa.RecordBatch, column: str) -> int:
    """How many rows are added that have no event time in ``column``; 0 without a column."""
    missing = _missing(rows, column) if column else None
    return 0 if missing is None else int(np.count_nonzero(missing))


def _missing(rows: pa.RecordBatch, column: str) -> Flags | None:
    values = rows.column(column)
    if not values.null_count:
        return None
    missing = np.asarray(values.is_null())
    if WEIGHT in rows.schema.names:
        return np.asarray(missing & (rows.column(WEIGHT).to_numpy() > 0), np.bool_)
    if KIND in rows.schema.names:
        kinds = rows.column(KIND).fill_null(int(RowKind.INSERT)).to_numpy(zero_copy_only=False)
        return np.asarray(missing & np.isin(kinds, (RowKind.INSERT, RowKind.UPDATE_AFTER)), np.bool_)
    return missing
