"""The work of writing tasks: copy rows into staging tables.

A staging table has the columns ``writer`` and ``c0``, ``c1`` and so on, in the order of the sink's. Each attempt of a
task has a writer's number of its own. Only rows of writers in the tasks' results count. The rows of an attempt that
failed, or that Spark ran twice, stay in the table and are cleared later.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.postgres.address import Address
from penstock.connectors.postgres.columns import stage_type
from penstock.connectors.postgres.database import CommitOutcomeError, Transaction, database_at
from penstock.errors import DatabaseUnavailableError, RecordError
from penstock.spi import HIDDEN, Output
from penstock.types import RowType

#: How long a running job waits for a database that cannot be reached.
PATIENCE_SECONDS = 30.0

#: The result of a task: one row for each output.
STAGED = pa.schema({"output": pa.int32(), "writer": pa.int64(), "records": pa.int64(), "bytes": pa.int64()})


@dataclass(frozen=True)
class PostgresOutput(Output):
    """One sink, and its staging table. With ``insert``, the statement that moves rows from there to the table, the
    staging table is a temporary one of the task, and the task runs the statement."""

    staging: str = field(kw_only=True)
    insert: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class StageSpec:
    """The parameters of tasks. ``namespace`` is the schema of staging tables that are not temporary."""

    address: Address
    namespace: str
    branches: tuple[PostgresOutput, ...]


def staging_columns(schema: RowType) -> str:
    """The columns of a staging table in SQL."""
    types = [f"c{number} {stage_type(field.type)}" for number, field in enumerate(schema.fields)]
    return ", ".join(("writer bigint NOT NULL", *types))


def stage_rows(spec: StageSpec, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy the rows of one task, in one transaction, and yield its counts as :data:`STAGED`.

    Raises RecordError for a row that PostgreSQL cannot hold, with the number of its partition and without a topic: the
    driver knows both names.
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
                    if branch.insert and not records[output]:
                        table = f"{branch.staging} ({staging_columns(branch.schema)})"
                        transaction.run(f"CREATE TEMP TABLE IF NOT EXISTS {table} ON COMMIT DELETE ROWS")
                    namespace = None if branch.insert else spec.namespace
                    transaction.copy(namespace, branch.staging, staged, f"table '{branch.table}'")
                    records[output] += staged.num_rows
                    size[output] += staged.nbytes
            for branch, count in zip(spec.branches, records, strict=True):
                if transaction is not None and branch.insert and count:
                    transaction.run(branch.insert, where=f"table '{branch.table}'")
    except CommitOutcomeError as error:
        raise DatabaseUnavailableError(str(error)) from error  # rows without a result do not count
    outputs = range(len(spec.branches))
    columns = [list(outputs), [writer for _ in outputs], records, size]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, STAGED, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _staged(branch: PostgresOutput, batch: pa.RecordBatch, writer: int) -> pa.RecordBatch:
    """The rows of one sink for the staging table."""
    columns, origins = branch.rows(batch)
    for name, column in zip(columns.schema.names, columns.columns, strict=True):
        _refuse_nul(branch, name, column, origins)
    writers = pa.repeat(pa.scalar(writer, pa.int64()), origins.num_rows)
    names = ["writer", *(f"c{number}" for number in range(columns.num_columns))]
    return pa.RecordBatch.from_arrays([writers, *columns.columns], names=names)


def _refuse_nul(branch: PostgresOutput, name: str, column: pa.Array, origins: pa.RecordBatch) -> None:
    """Raises RecordError for a text with the character U+0000, which PostgreSQL cannot hold."""
    texts, rows = column, None
    if pa.types.is_list(column.type):
        texts, rows = pc.list_flatten(column), pc.list_parent_indices(column)
    if not pa.types.is_string(texts.type) or not _has_zero_byte(texts):
        return
    first = pc.index(pc.match_substring(texts, "\0"), True).as_py()
    if first < 0:  # it was below a null
        return
    row = first if rows is None else rows[first].as_py()
    partition, offset = (origins.column(each)[row].as_py() for each in HIDDEN.names)
    raise RecordError(
        f"table '{branch.table}': a text of PostgreSQL cannot hold the character U+0000",
        "",
        partition,
        offset,
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
