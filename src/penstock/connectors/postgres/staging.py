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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.streams import ipc_stream
from penstock.connectors.postgres.address import Address
from penstock.connectors.postgres.changes import LastChanges, find_deletions
from penstock.connectors.postgres.columns import choose_stage_type
from penstock.connectors.postgres.database import CommitOutcomeError, Transaction, database_at
from penstock.delivery import FINISH_BATCH
from penstock.errors import BatchError, CheckpointError, DatabaseUnavailableError, ExecutionError, RecordError
from penstock.spi import (
    KIND,
    Output,
    Task,
    WritableBytes,
    Writer,
    WriterFactory,
    Written,
    origin_of,
    pickle_text,
    unpickle_text,
)

#: How long a running job waits for a database that cannot be reached.
PATIENCE_SECONDS = 30.0

#: The result of a task: one row for each output; or rows that are still to be copied, in ``data``, as a stream of
#: Arrow's.
STAGED = pa.schema(
    {
        "output": pa.int32(),
        "writer": pa.int64(),
        "records": pa.int64(),
        "deletions": pa.int64(),
        "bytes": pa.int64(),
        "data": pa.binary(),
    }
)

#: The metadata of passed-on rows that says which columns their output has.
_COLUMNS = b"columns"

#: The bits of a writer's number below the number of its task.
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
    """The rows that successful task attempts have copied: for each output the number of rows by writer, the number of
    deletions among them, and the bytes."""

    records: tuple[dict[int, int], ...]
    deletions: tuple[int, ...]
    bytes: tuple[int, ...]

    @classmethod
    def from_task_reports(cls, outputs: int, results: Iterable[Mapping[str, Any]]) -> Staged:
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


def shorten_name(text: str) -> str:
    """A short name for a text that is too long for one."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def build_staging_name(owner: str) -> str:
    """The name of a staging table, or its beginning, for an ``owner``, a text that no other owner has."""
    return f"penstock_stage_{shorten_name(owner)}"


def list_staging_columns(output: Output) -> str:
    """The columns of a staging table in SQL."""
    types = [f"c{number} {choose_stage_type(field.type)}" for number, field in enumerate(output.schema.fields)]
    order = ["place bigint NOT NULL", "deleted boolean NOT NULL"] if output.spec.upsert_keys else []
    return ", ".join(("writer bigint NOT NULL", *order, *types))


def build_writer_factory(outputs: Sequence[Output], owners: int) -> WriterFactory:
    """Copies rows in the tasks that compute them, or in ``owners`` other tasks, to which they are passed on."""
    given = tuple(outputs)
    return WriterFactory(partial(open_writer, given), STAGED, publish=partial(copy_passed_rows, given), owners=owners)


def open_writer(outputs: Sequence[Output], task: Task) -> Writer:
    """The writer of a task.

    It copies rows if the driver's instructions (:func:`build_copying_instructions`) name the tables, else it passes
    them on.
    """
    return _copying_writer(outputs, task) if task.instructions else _PassingWriter(outputs)


def _copying_writer(outputs: Sequence[Output], task: Task) -> CopyingWriter:
    namespace, tables = unpickle_text(task.instructions)
    branches = tuple(
        PostgresOutput(**vars(output), staging=staging, insert=insert)
        for output, (staging, insert) in zip(outputs, tables, strict=True)
    )
    return CopyingWriter(StageSpec(outputs[0].spec.address, namespace, branches), task.number)


def build_copying_instructions(spec: StageSpec) -> str:
    """The instructions for writers that copy rows as ``spec`` says. Spark logs the instructions of a job: the address
    with its password is not among them."""
    return pickle_text((spec.namespace, tuple((branch.staging, branch.insert) for branch in spec.branches)))


class CopyingWriter(Writer):
    """Copies the rows of the task with a number, in one transaction, and yields its counts as :data:`STAGED`.

    Raises RecordError for a row that PostgreSQL cannot hold, with the number of its partition and without a topic: the
    driver knows both names.
    """

    def __init__(self, spec: StageSpec, task: int):
        writer = task << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        self._spec = spec
        self._writer = writer
        self._stages = [_Stage(branch, writer) for branch in spec.branches]
        self._opened = ExitStack()
        self._transaction: Transaction | None = None

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        self._copy(self._stages[output], self._stages[output].add(rows, hidden))
        return ()

    def take(self, output: int, rows: pa.RecordBatch) -> None:
        """Take rows of one output: its columns, by their numbers, then the columns of places and kinds.

        Raises CheckpointError for rows that were kept when the output had other columns.
        """
        stage = self._stages[output]
        before, now = (rows.schema.metadata or {}).get(_COLUMNS, b"").decode(), stage.branch.schema.text()
        if before not in ("", now):  # a former version did not record them
            raise CheckpointError(
                f"table '{stage.branch.table}': its rows of a batch that another table of the job has were kept as "
                f"{before}, and the table is {now} now: the job's definition has changed since. {FINISH_BATCH}"
            )
        names, count = stage.branch.schema.names, len(stage.branch.schema.names)
        values = pa.RecordBatch.from_arrays(rows.columns[:count], names=list(names))
        self._copy(stage, stage.add(values, rows.select(rows.schema.names[count:])))

    def finish(self) -> Iterator[pa.RecordBatch]:
        for stage in self._stages:
            self._copy(stage, stage.take_rest())
            if self._transaction is not None and stage.branch.insert and stage.records:
                self._transaction.run(stage.branch.insert, where=f"table '{stage.branch.table}'")
        try:
            self._opened.close()
        except CommitOutcomeError as error:
            raise DatabaseUnavailableError(str(error)) from error  # rows without a result do not count
        counts = [
            (at, self._writer, each.records, each.deletions, each.bytes, None) for at, each in enumerate(self._stages)
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*counts, strict=True), STAGED, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=STAGED)

    def close(self) -> None:
        failure = ExecutionError("the task has ended")  # rolls a transaction back that is still open
        self._opened.__exit__(type(failure), failure, None)

    def _copy(self, stage: _Stage, staged: pa.RecordBatch | None) -> None:
        if staged is None or not staged.num_rows:
            return
        if self._transaction is None:
            database = database_at(self._spec.address)
            self._transaction = self._opened.enter_context(database.transaction(patience=PATIENCE_SECONDS))
        stage.copy(self._transaction, self._spec.namespace, staged)


class _PassingWriter(Writer):
    """Passes the rows of a task on, each batch with those of one output. Raises RecordError for a row that PostgreSQL
    cannot hold: another target of the job may have the batch when the rows are copied, and then it could never end."""

    def __init__(self, outputs: Sequence[Output]):
        self._outputs = outputs

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        _check_values(self._outputs[output], rows, hidden)
        columns = {"output": output, "data": _encode_stream(self._outputs[output], rows, hidden)}
        arrays = [pa.array([columns.get(field.name)], field.type) for field in STAGED]
        yield pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _encode_stream(output: Output, values: pa.RecordBatch, hidden: pa.RecordBatch) -> bytes:
    names = [*(f"c{at}" for at in range(values.num_columns)), *hidden.schema.names]
    about = {_COLUMNS: output.schema.text()}
    batch = pa.RecordBatch.from_arrays([*values.columns, *hidden.columns], names=names, metadata=about)
    data: bytes = ipc_stream(batch).to_pybytes()
    return data


def copy_passed_rows(
    outputs: Sequence[Output], task: Task, passed: Iterable[pa.RecordBatch], _: WritableBytes
) -> Iterator[pa.RecordBatch]:
    """Copy rows that writers have passed on, as :class:`CopyingWriter` does, where the instructions of the task say.

    Raises BatchError when the result is not wanted any more: its transaction would keep the staging tables from being
    dropped.
    """
    writer = _copying_writer(outputs, task)
    try:
        for batch in passed:
            if task.abandoned():
                raise BatchError("the rows are not copied any more, because the job ends")
            for number, data in zip(batch.column("output").to_pylist(), batch.column("data"), strict=True):
                with pa.ipc.open_stream(data.as_buffer()) as reader:
                    for rows in reader:
                        writer.take(number, rows)
        yield from writer.finish()
    finally:
        writer.close()


class _Stage:
    """The rows of one sink in a task, on their way to its staging table."""

    def __init__(self, branch: PostgresOutput, writer: int):
        self.branch = branch
        self.records = self.deletions = self.bytes = 0
        self._writer = writer
        self._place = 0
        names = branch.schema.names
        self._last = LastChanges([f"c{names.index(name)}" for name in branch.keys]) if branch.keys else None

    def add(self, rows: pa.RecordBatch, origins: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows to copy now, after these ``rows``, with their places and kinds in ``origins``."""
        count = rows.num_rows
        if not count:
            return None
        _check_values(self.branch, rows, origins)
        names = [f"c{number}" for number in range(rows.num_columns)]
        if self._last is None:
            return pa.RecordBatch.from_arrays([self._repeat_writer(count), *rows.columns], names=["writer", *names])
        kinds = origins.column(KIND) if KIND in origins.schema.names else None
        places = pa.array(np.arange(self._place, self._place + count))
        self._place += count
        columns = [self._repeat_writer(count), places, pa.array(find_deletions(kinds, count)), *rows.columns]
        return self._last.add(pa.RecordBatch.from_arrays(columns, names=["writer", "place", "deleted", *names]))

    def take_rest(self) -> pa.RecordBatch | None:
        """The rows to copy after the last batch."""
        return None if self._last is None else self._last.take()

    def copy(self, transaction: Transaction, namespace: str, staged: pa.RecordBatch) -> None:
        """Copy rows into the staging table."""
        branch = self.branch
        if branch.insert and not self.records:
            columns = list_staging_columns(branch)
            transaction.run(f"CREATE TEMP TABLE IF NOT EXISTS {branch.staging} ({columns}) ON COMMIT DELETE ROWS")
        transaction.copy(None if branch.insert else namespace, branch.staging, staged, f"table '{branch.table}'")
        self.records += staged.num_rows
        self.bytes += staged.nbytes
        if self._last is not None:
            self.deletions += pc.sum(staged.column("deleted")).as_py()

    def _repeat_writer(self, count: int) -> pa.Array:
        return pa.repeat(pa.scalar(self._writer, pa.int64()), count)


def _check_values(output: Output, rows: pa.RecordBatch, origins: pa.RecordBatch) -> None:
    """Raises RecordError for a value that PostgreSQL cannot hold in the column."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        _refuse_nul(output, name, column, origins)
        if name in output.spec.upsert_keys:
            _refuse_null(output, name, column, origins)


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
