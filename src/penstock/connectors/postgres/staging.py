"""The work of writing tasks: copy rows into staging tables.

A staging table has the columns ``writer`` and ``c0``, ``c1`` and so on, in the order of the sink's. Each attempt of a
task has its own writer's number. Only rows of writers in the tasks' results count. The rows of an attempt that failed,
or that Spark ran twice, stay in the table and are cleared later.

The table of a sink with a key has two more columns: ``place``, the place of a change among those of its task, and
``deleted``. The numbers of writers have the order of their tasks, so that ``writer`` and ``place`` give the order of
the changes of a batch.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.postgres.address import Address
from penstock.connectors.postgres.changes import LastChanges, deletions
from penstock.connectors.postgres.columns import stage_type
from penstock.connectors.postgres.database import CommitOutcomeError, Transaction, database_at
from penstock.errors import DatabaseUnavailableError, RecordError
from penstock.spi import KIND, Output, Written, origin_of, outputs_in

#: How long a running job waits for a database that cannot be reached.
PATIENCE_SECONDS = 30.0

#: The result of a task: one row for each output.
STAGED = pa.schema(
    {"output": pa.int32(), "writer": pa.int64(), "records": pa.int64(), "deletions": pa.int64(), "bytes": pa.int64()}
)

#: The bits of a writer's number below that of its task.
_RANDOM_BITS = 43


@dataclass(frozen=True)
class PostgresOutput(Output):
    """One sink, and its staging table. With ``insert``, the statement that moves rows from there to the table, the
    staging table is a temporary one of the task, and the task runs the statement."""

    staging: str = field(kw_only=True)
    insert: str = field(default="", kw_only=True)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the sink's key."""
        found: tuple[str, ...] = self.spec.upsert_keys
        return found


@dataclass(frozen=True)
class StageSpec:
    """The parameters of tasks. ``namespace`` is the schema of staging tables that are not temporary."""

    address: Address
    namespace: str
    branches: tuple[PostgresOutput, ...]


@dataclass(frozen=True)
class Staged:
    """The rows that successful task attempts have copied: for each output the number of rows by writer, that of
    deletions among them, and the bytes."""

    records: tuple[dict[int, int], ...]
    deletions: tuple[int, ...]
    bytes: tuple[int, ...]

    @classmethod
    def of(cls, outputs: int, results: Iterable[Mapping[str, Any]]) -> Staged:
        """The sums of all tasks' rows of :data:`STAGED`."""
        records: tuple[dict[int, int], ...] = tuple({} for _ in range(outputs))
        deleted, sizes = [0] * outputs, [0] * outputs
        for row in results:
            output = row["output"]
            deleted[output] += row["deletions"]
            sizes[output] += row["bytes"]
            if row["records"]:
                records[output][row["writer"]] = row["records"]
        return cls(records, tuple(deleted), tuple(sizes))

    @property
    def written(self) -> tuple[Written, ...]:
        """Rows and bytes of each output."""
        return tuple(
            Written(sum(writers.values()), size) for writers, size in zip(self.records, self.bytes, strict=True)
        )


#: Copies the rows of a frame in tasks. Raises the error of a task, and BatchError when a worker was lost.
CopyRows = Callable[[Any, StageSpec], Staged]


def digest(text: str) -> str:
    """A short name for a text that is too long for one."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def staging_name(owner: str) -> str:
    """The name of a staging table, or its beginning, for what the text ``owner`` tells from others."""
    return f"penstock_stage_{digest(owner)}"


def staging_columns(output: Output) -> str:
    """The columns of a staging table in SQL."""
    types = [f"c{number} {stage_type(field.type)}" for number, field in enumerate(output.schema.fields)]
    order = ["place bigint NOT NULL", "deleted boolean NOT NULL"] if output.spec.upsert_keys else []
    return ", ".join(("writer bigint NOT NULL", *order, *types))


def stage_rows(spec: StageSpec, task: int, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy the rows of the task with this number, in one transaction, and yield its counts as :data:`STAGED`.

    Raises RecordError for a row that PostgreSQL cannot hold, with the number of its partition and without a topic: the
    driver knows both names.
    """
    writer = task << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    stages = [_Stage(branch, writer) for branch in spec.branches]
    try:
        with ExitStack() as stack:
            transaction: Transaction | None = None

            def copy(stage: _Stage, staged: pa.RecordBatch | None) -> None:
                nonlocal transaction
                if staged is None or not staged.num_rows:
                    return
                if transaction is None:
                    database = database_at(spec.address)
                    transaction = stack.enter_context(database.transaction(patience=PATIENCE_SECONDS))
                stage.copy(transaction, spec.namespace, staged)

            for batch in rows:
                for at, _ in outputs_in(batch, spec.branches):
                    copy(stages[at], stages[at].add(batch))
            for stage in stages:
                copy(stage, stage.rest())
                if transaction is not None and stage.branch.insert and stage.records:
                    transaction.run(stage.branch.insert, where=f"table '{stage.branch.table}'")
    except CommitOutcomeError as error:
        raise DatabaseUnavailableError(str(error)) from error  # rows without a result do not count
    told = [(at, writer, each.records, each.deletions, each.bytes) for at, each in enumerate(stages)]
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*told, strict=True), STAGED, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=STAGED)


class _Stage:
    """The rows of one sink in a task, on their way to its staging table."""

    def __init__(self, branch: PostgresOutput, writer: int):
        self.branch = branch
        self.records = self.deletions = self.bytes = 0
        self._writer = writer
        self._place = 0
        names = branch.schema.names
        self._last = LastChanges([f"c{names.index(name)}" for name in branch.keys]) if branch.keys else None

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows to copy now, after a batch of the frame."""
        rows, origins = self.branch.rows(batch)
        count = rows.num_rows
        if not count:
            return None
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            _refuse_nul(self.branch, name, column, origins)
        names = [f"c{number}" for number in range(rows.num_columns)]
        if self._last is None:
            return pa.RecordBatch.from_arrays([self._writers(count), *rows.columns], names=["writer", *names])
        for name in self.branch.keys:
            _refuse_null(self.branch, name, rows.column(rows.schema.names.index(name)), origins)
        kinds = origins.column(KIND) if KIND in origins.schema.names else None
        places = pa.array(np.arange(self._place, self._place + count))
        self._place += count
        columns = [self._writers(count), places, pa.array(deletions(kinds, count)), *rows.columns]
        return self._last.add(pa.RecordBatch.from_arrays(columns, names=["writer", "place", "deleted", *names]))

    def rest(self) -> pa.RecordBatch | None:
        """The rows to copy after the last batch."""
        return None if self._last is None else self._last.take()

    def copy(self, transaction: Transaction, namespace: str, staged: pa.RecordBatch) -> None:
        """Copy rows into the staging table."""
        branch = self.branch
        if branch.insert and not self.records:
            columns = staging_columns(branch)
            transaction.run(f"CREATE TEMP TABLE IF NOT EXISTS {branch.staging} ({columns}) ON COMMIT DELETE ROWS")
        transaction.copy(None if branch.insert else namespace, branch.staging, staged, f"table '{branch.table}'")
        self.records += staged.num_rows
        self.bytes += staged.nbytes
        if self._last is not None:
            self.deletions += pc.sum(staged.column("deleted")).as_py()

    def _writers(self, count: int) -> pa.Array:
        return pa.repeat(pa.scalar(self._writer, pa.int64()), count)


def _refuse_null(branch: PostgresOutput, name: str, column: pa.Array, origins: pa.RecordBatch) -> None:
    """Raises RecordError for NULL in a column of the key."""
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise RecordError(
            f"table '{branch.table}': NULL cannot be part of the PRIMARY KEY",
            "",
            *origin_of(origins, row),
            field=name,
            hint=f"leave such rows out: WHERE {name} IS NOT NULL",
        )


def _refuse_nul(branch: PostgresOutput, name: str, column: pa.Array, origins: pa.RecordBatch) -> None:
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
        f"table '{branch.table}': a text of PostgreSQL cannot hold the character U+0000",
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
