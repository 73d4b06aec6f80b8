"""The work of writing tasks: copy rows into staging tables.

A staging table has the columns ``writer`` and ``c0``, ``c1`` and so on, in the order of the sink's. Each attempt of a
task has its own writer's number. Only rows of writers in the tasks' results count. The rows of an attempt that failed,
or that Spark ran twice, stay in the table and are cleared later.

The table of a sink with a key has two more columns: ``place``, the place of a change among those of its task, and
``deleted``. The numbers of writers have the order of their tasks, so that ``writer`` and ``place`` give the order of
the changes of a batch.

The staging table of a table that the job finds while it runs is made by the first task that copies rows into it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.streams import ipc_stream
from penstock.connectors.postgres.address import Address
from penstock.connectors.postgres.changes import LastChanges, find_deletions
from penstock.connectors.postgres.columns import choose_stage_type, quote_identifier
from penstock.connectors.postgres.database import CommitOutcomeError, Transaction, database_at
from penstock.connectors.postgres.row_checks import check_values
from penstock.delivery import FINISH_BATCH
from penstock.errors import BatchError, CheckpointError, DatabaseUnavailableError, ExecutionError
from penstock.spi import (
    KIND,
    Output,
    Task,
    WritableBytes,
    Writer,
    WriterFactory,
    Written,
    pickle_text,
    unpickle_text,
)
from penstock.types import RowType, parse_type

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

#: The metadata of passed-on rows that says which columns their output has, and of rows of a table that was found while
#: the job runs, its id and its key.
_COLUMNS, _FOUND = b"columns", b"found"

#: The bits of a writer's number below the number of its task.
_RANDOM_BITS = 43


@dataclass(frozen=True)
class PostgresOutput(Output):
    """One sink, and its staging table. With ``insert``, the statement that moves rows from there to the table, the
    staging table is a temporary one of the task, and the task runs the statement. With ``beside``, a staging table that
    is there as long as the run is, the task makes its staging table, if it is missing."""

    staging: str = field(kw_only=True)
    insert: str = field(default="", kw_only=True)
    beside: str = field(default="", kw_only=True)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the sink's key."""
        found: tuple[str, ...] = self.spec.upsert_keys
        return found


@dataclass(frozen=True)
class StageSpec:
    """The parameters of tasks. ``namespace`` is the schema of staging tables that are not temporary. ``found`` is the
    beginning of the names of those of tables that are found while the job runs."""

    address: Address
    namespace: str
    branches: tuple[PostgresOutput, ...]
    found: str = ""


@dataclass(frozen=True)
class Staged:
    """The rows that successful task attempts have copied: for each output with rows the number of rows by writer, the
    number of deletions among them, and the bytes."""

    records: Mapping[int, Mapping[int, int]]
    deletions: Mapping[int, int]
    bytes: Mapping[int, int]

    @classmethod
    def from_task_reports(cls, results: Iterable[Mapping[str, Any]]) -> Staged:
        """The sums of all tasks' rows of :data:`STAGED`."""
        records: dict[int, dict[int, int]] = {}
        deleted, sizes = Counter[int](), Counter[int]()
        for row in results:
            if row["records"]:
                records.setdefault(row["output"], {})[row["writer"]] = row["records"]
                deleted[row["output"]] += row["deletions"]
                sizes[row["output"]] += row["bytes"]
        return cls(dict(sorted(records.items())), deleted, sizes)

    def count_written(self, outputs: Sequence[Output]) -> tuple[Written, ...]:
        """Rows and bytes of each of the ``outputs``. One of tables that are found while the job runs has those of all
        such tables."""

        def count(numbers: Iterable[int]) -> Written:
            found = [each for each in numbers if each in self.records]
            return Written(
                sum(sum(self.records[each].values()) for each in found), sum(self.bytes[each] for each in found)
            )

        beyond = [number for number in self.records if number >= len(outputs)]
        return tuple(
            count([number, *beyond] if output.spec.tables else [number]) for number, output in enumerate(outputs)
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


def place_found(beside: str, beginning: str, number: int, output: Output) -> PostgresOutput:
    """The output of a table that was found while the job runs, and its staging table, which depends on the columns."""
    staging = f"{beginning}_{number}_{shorten_name(list_staging_columns(output))[:6]}"
    return PostgresOutput(**vars(output), staging=staging, beside=beside)


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
    namespace, tables, found = unpickle_text(task.instructions)
    branches = tuple(
        PostgresOutput(**vars(output), staging=staging, insert=insert)
        for output, (staging, insert) in zip(outputs, tables, strict=True)
    )
    return CopyingWriter(StageSpec(outputs[0].spec.address, namespace, branches, found), task.number)


def build_copying_instructions(spec: StageSpec) -> str:
    """The instructions for writers that copy rows as ``spec`` says. Spark logs the instructions of a job: the address
    with its password is not among them."""
    tables = tuple((branch.staging, branch.insert) for branch in spec.branches)
    return pickle_text((spec.namespace, tables, spec.found))


class CopyingWriter(Writer):
    """Copies the rows of the task with a number, in one transaction, and yields its counts as :data:`STAGED`.

    Raises RecordError for a row that PostgreSQL cannot hold, with the number of its partition and without a topic: the
    driver knows both names.
    """

    def __init__(self, spec: StageSpec, task: int):
        writer = task << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        self._spec = spec
        self._writer = writer
        self._stages = {number: _Stage(branch, writer) for number, branch in enumerate(spec.branches)}
        self._opened = ExitStack()
        self._transaction: Transaction | None = None

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        self._copy(self._stages[output], self._stages[output].add(rows, hidden))
        return ()

    def add_output(self, number: int, output: Output) -> None:
        beside = next(each.staging for each in self._spec.branches if each.spec.tables)
        self._stages[number] = _Stage(place_found(beside, self._spec.found, number, output), self._writer)

    def take(self, output: int, rows: pa.RecordBatch) -> None:
        """Take rows of one output: its columns, by their numbers, then the columns of places and kinds.

        Raises CheckpointError for rows that were kept when the output had other columns.
        """
        if output not in self._stages:
            template = next(each for each in self._spec.branches if each.spec.tables)
            self.add_output(output, _read_found(template, rows.schema.metadata))
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
        for stage in self._stages.values():
            self._copy(stage, stage.take_rest())
            if self._transaction is not None and stage.branch.insert and stage.records:
                self._transaction.run(stage.branch.insert, where=f"table '{stage.branch.table}'")
        try:
            self._opened.close()
        except CommitOutcomeError as error:
            raise DatabaseUnavailableError(str(error)) from error  # rows without a result do not count
        counts = [
            (number, self._writer, each.records, each.deletions, each.bytes, None)
            for number, each in self._stages.items()
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
        if stage.branch.beside and not stage.records:
            self._make_table(self._transaction, stage.branch)
        stage.copy(self._transaction, self._spec.namespace, staged)

    def _make_table(self, transaction: Transaction, branch: PostgresOutput) -> None:
        """Make the staging table of a table that was found while the job runs, if no task has made it. Raises
        DatabaseError when the tables of this run were dropped, as another run does that takes over."""
        beside, name = (
            f"{quote_identifier(self._spec.namespace)}.{quote_identifier(each)}"
            for each in (branch.beside, branch.staging)
        )
        if transaction.rows("SELECT 1 WHERE to_regclass($1) IS NOT NULL", (name,)):
            return
        try:
            with database_at(self._spec.address).transaction(patience=PATIENCE_SECONDS) as other:
                # Two transactions that create a table at the same time fail in spite of IF NOT EXISTS.
                other.run("SELECT pg_advisory_xact_lock(hashtext($1))", (name,))
                other.run(f"LOCK TABLE {beside} IN ACCESS SHARE MODE")
                other.run(f"CREATE UNLOGGED TABLE IF NOT EXISTS {name} ({list_staging_columns(branch)})")
        except CommitOutcomeError as error:
            raise DatabaseUnavailableError(str(error)) from error


class _PassingWriter(Writer):
    """Passes the rows of a task on, each batch with those of one output. Raises RecordError for a row that PostgreSQL
    cannot hold: another target of the job may have the batch when the rows are copied, and then it could never end."""

    def __init__(self, outputs: Sequence[Output]):
        self._fixed = len(outputs)
        self._outputs = dict(enumerate(outputs))

    def add_output(self, number: int, output: Output) -> None:
        self._outputs[number] = output

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        check_values(self._outputs[output], rows, hidden)
        about = _describe_found(self._outputs[output]) if output >= self._fixed else {}
        columns = {"output": output, "data": _encode_stream(self._outputs[output], rows, hidden, about)}
        arrays = [pa.array([columns.get(field.name)], field.type) for field in STAGED]
        yield pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _describe_found(output: Output) -> dict[bytes, bytes]:
    """What the task that copies rows of a table must know of it: nothing secret, since the rows may be kept."""
    return {_FOUND: json.dumps({"table": output.table, "keys": output.spec.upsert_keys}).encode()}


def _read_found(template: Output, about: Mapping[bytes, bytes]) -> Output:
    """The output that :func:`_describe_found` has described."""
    found, schema = json.loads(about[_FOUND]), parse_type(about[_COLUMNS].decode())
    assert isinstance(schema, RowType), "it is that of a table"  # noqa: S101
    spec = replace(template.spec, table=found["table"], schema=schema, upsert_keys=tuple(found["keys"]), tables=False)
    return Output(template.index, found["table"], spec, schema)


def _encode_stream(
    output: Output, values: pa.RecordBatch, hidden: pa.RecordBatch, found: Mapping[bytes, bytes]
) -> bytes:
    names = [*(f"c{at}" for at in range(values.num_columns)), *hidden.schema.names]
    about = {_COLUMNS: output.schema.text(), **found}
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
        check_values(self.branch, rows, origins)
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
