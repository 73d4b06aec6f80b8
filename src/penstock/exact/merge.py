"""Merges rows of an exact reader into the batch of a compiled loop, and texts of an exact writer into its input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.exact.errors import FieldError, Malformed
from penstock.loops.record_status import EXACT, READ
from penstock.spi import BadRecord, Decoded
from penstock.types import STRING, DataType, RowType, arrow_schema


def merge_exact_rows(
    read: pa.RecordBatch, status: npt.NDArray[np.uint8], rows_of: Callable[[int], list[dict[str, Any]]]
) -> Decoded:
    """``read``, which has one row per record, with the rows of ``rows_of`` for each record whose ``status`` is EXACT.

    ``rows_of`` raises FieldError or Malformed for a record that it refuses. A Malformed may still have rows. Records
    without a row are left out.
    """
    counts = (status == READ).astype(np.int64)
    if counts.all():
        return Decoded(read)
    rows: list[dict[str, Any]] = []
    bad: list[BadRecord] = []
    for index in np.flatnonzero(status == EXACT).tolist():
        found: Sequence[dict[str, Any]] = ()
        try:
            found = rows_of(index)
        except FieldError as error:
            bad.append(BadRecord(index, error.reason, error.field))
        except Malformed as error:
            bad.append(BadRecord(index, str(error)))
            found = error.rows
        counts[index] = len(found)
        rows += found
    origin = np.repeat(np.arange(len(status)), counts)
    taken = origin.copy()
    taken[status[origin] == EXACT] = len(status) + np.arange(len(rows))
    columns = [
        pa.concat_arrays([read.column(index), pa.array([row[field.name] for row in rows], field.type)]).take(
            pa.array(taken)
        )
        for index, field in enumerate(read.schema)
    ]
    one_each = bool((counts == 1).all())
    return Decoded(build_batch(columns, read.schema, len(taken)), None if one_each else origin, bad=tuple(bad))


def replace_with_texts(
    schema: RowType,
    rows: pa.RecordBatch,
    columns: Iterable[int],
    texts: Callable[[pa.Array, DataType], list[str | None]],
) -> tuple[RowType, pa.RecordBatch]:
    """The same rows with strings, written by ``texts``, in some columns, and their schema."""
    fields, arrays = list(schema.fields), list(rows.columns)
    for index in columns:
        written = texts(arrays[index], fields[index].type)
        fields[index], arrays[index] = replace(fields[index], type=STRING), pa.array(written, pa.string())
    finished = replace(schema, fields=tuple(fields))
    return finished, build_batch(arrays, arrow_schema(finished), rows.num_rows)
