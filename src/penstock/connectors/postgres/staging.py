"""What writing tasks do with their rows: copy them into staging tables.

A staging table has the columns ``writer`` and ``c0``, ``c1`` and so on, in the order of the sink's. Every attempt of a
task is a writer of its own, and only the rows of the writers that the driver was told of count: those of an attempt
that failed, or that Spark ran twice, are left lying and cleared away later.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.postgres.address import Address
from penstock.connectors.postgres.columns import stage_type
from penstock.connectors.postgres.database import CommitOutcomeError, Transaction, database_at
from penstock.errors import DatabaseUnavailableError, RecordError
from penstock.types import RowType

#: How long a database that cannot be reached is waited for, once the job is running.
PATIENCE_SECONDS = 30.0

#: What tasks give: one row for each of the outputs.
STAGED = pa.schema([
    pa.field("output", pa.int32()),
    pa.field("writer", pa.int64()),
    pa.field("records", pa.int64()),
    pa.field("bytes", pa.int64()),
])  # fmt: skip


@dataclass(frozen=True)
class PostgresOutput:
    """One sink of the batch's frame.

    Its rows are in the struct column ``column`` of the frame, or (None) in the frame's own columns, those of the names
    ``columns`` in the order of the sink's. ``staging`` is the staging table. With ``insert``, the statement that brings
    rows from there to where they belong, the staging table is a temporary one of the task's own, and the task runs it.
    """

    table: str
    schema: RowType
    column: str | None
    columns: tuple[str, ...]
    staging: str
    insert: str = ""


@dataclass(frozen=True)
class StageSpec:
    """All that tasks need to know. ``namespace`` is the schema of the staging tables that are not temporary."""

    address: Address
    namespace: str
    branches: tuple[PostgresOutput, ...]


def staging_columns(schema: RowType) -> str:
    """The columns of a staging table in SQL."""
    types = [f"c{number} {stage_type(field.type)}" for number, field in enumerate(schema.fields)]
    return ", ".join(("writer bigint NOT NULL", *types))


def stage_rows(spec: StageSpec, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy the rows of one task, in one transaction, and tell what was copied as :data:`STAGED`.

    Raises RecordError for a row that PostgreSQL cannot take, with its place as partition and without a topic: the
    driver knows the topic's name.
    """
    writer = secrets.randbits(63)
    records, size = [0] * len(spec.branches), [0] * len(spec.branches)
    try:
        with ExitStack() as stack:
            transaction: Transaction | None = None
            for batch in rows:
                for output, branch in enumerate(spec.branches):
                    staged = _staged(branch, batch, writer)
                    if not staged.num_rows:
                        continue
                    if transaction is None:
                        database = database_at(spec.address)
                        transaction = stack.enter_context(database.transaction(patience=PATIENCE_SECONDS))
                    _copy(spec, branch, transaction, staged, first=not records[output])
                    records[output] += staged.num_rows
                    size[output] += staged.nbytes
            for branch, count in zip(spec.branches, records, strict=True):
                if transaction is not None and branch.insert and count:
                    transaction.run(branch.insert, where=f"table '{branch.table}'")
    except CommitOutcomeError as error:
        raise DatabaseUnavailableError(str(error)) from error  # rows that no driver is told of do not count
    outputs = range(len(spec.branches))
    columns = [list(outputs), [writer for _ in outputs], records, size]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, STAGED, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _copy(
    spec: StageSpec, branch: PostgresOutput, transaction: Transaction, rows: pa.RecordBatch, *, first: bool
) -> None:
    if branch.insert and first:
        columns = staging_columns(branch.schema)
        transaction.run(f"CREATE TEMP TABLE IF NOT EXISTS {branch.staging} ({columns}) ON COMMIT DELETE ROWS")
    namespace = None if branch.insert else spec.namespace
    transaction.copy(namespace, branch.staging, rows, f"table '{branch.table}'")


def _staged(branch: PostgresOutput, batch: pa.RecordBatch, writer: int) -> pa.RecordBatch:
    """The rows of one sink as they are copied."""
    places, offsets = batch.column("__place"), batch.column("__offset")
    if branch.column is None:
        columns = [batch.column(name) for name in branch.columns]
    else:
        struct = batch.column(branch.column)
        chosen = struct.is_valid()
        columns = struct.filter(chosen).flatten()
        places, offsets = places.filter(chosen), offsets.filter(chosen)
    for name, column in zip(branch.schema.names, columns, strict=True):
        _refuse_nul(branch, name, column, places, offsets)
    writers = pa.repeat(pa.scalar(writer, pa.int64()), len(places))
    names = ["writer", *(f"c{number}" for number in range(len(columns)))]
    return pa.RecordBatch.from_arrays([writers, *columns], names=names)


def _refuse_nul(branch: PostgresOutput, name: str, column: pa.Array, places: pa.Array, offsets: pa.Array) -> None:
    """Texts in PostgreSQL cannot hold the character U+0000."""
    texts, rows = column, None
    if pa.types.is_list(column.type):
        texts, rows = pc.list_flatten(column), pc.list_parent_indices(column)
    if not pa.types.is_string(texts.type) or not _has_zero_byte(texts):
        return
    first = pc.index(pc.match_substring(texts, "\0"), True).as_py()
    if first < 0:  # it was below a null
        return
    row = first if rows is None else rows[first].as_py()
    raise RecordError(
        f"table '{branch.table}': a text of PostgreSQL cannot hold the character U+0000",
        "",
        places[row].as_py(),
        offsets[row].as_py(),
        field=name,
        hint="take it out in the query, or filter such rows",
    )


def _has_zero_byte(texts: pa.StringArray) -> bool:
    """Whether a byte of the texts is zero: many times faster than a search, and almost always the end of it."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return False
    bounds = np.frombuffer(offsets, np.int32)
    first, last = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return bool(first < last and np.frombuffer(data, np.uint8)[first:last].min() == 0)
