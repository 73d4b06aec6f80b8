"""Two systems that a killed pipeline writes to: topics, to which records are appended under a transaction, and a
database that has tables with columns. Both keep the job's progress in the transaction with its rows.

They stand for servers, for which hundreds of jobs with several runs each would wait. What decides whether a batch was
committed, what follows changes, and what passes rows on is penstock's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from penstock import delivery
from penstock.columns.streams import ipc_stream
from penstock.delivery import Progress, Skip
from penstock.errors import FencedError, SchemaError
from penstock.schemas import AddColumns, AlterColumnTypes, CreateTable, SchemaChange, widen_type
from penstock.spi import (
    HIDDEN,
    KIND,
    Batch,
    CommitStatus,
    Committer,
    FoundOutputs,
    JobContext,
    Output,
    Published,
    Task,
    Writer,
    WriterFactory,
    WriteTasks,
)
from penstock.types import DataType, RowKind, parse_type
from tests.unit.ingest.kills import KillPlan

#: Rows of an output, by its number, and the table that the task has known it as.
_PASSED = pa.schema({"output": pa.int32(), "table": pa.string(), "owner": pa.int32(), "data": pa.binary()})
_OWNERS = 3

#: The partition and the offset that a row comes from, its kind, and its columns.
Written = tuple[int, int, str, dict[str, Any]]


@dataclass
class System:
    """What is durable of a system, and what its transaction under way has."""

    owner: str = ""
    progress: Progress | None = None
    #: The rows of each table that are committed.
    committed: dict[str, list[Written]] = field(default_factory=dict)
    #: Those of the transaction under way, in the order in which they came.
    open: list[tuple[str, Written]] = field(default_factory=list)
    #: What has changed a table.
    changes: list[str] = field(default_factory=list)
    #: How many changes have found that they were done.
    repeated: int = 0
    #: The part of a pipeline's text that names such a system.
    text: ClassVar[str]

    def committer(self, context: JobContext, kills: KillPlan) -> SystemCommitter:
        """What one run of a job writes with."""
        return SystemCommitter(self, context, kills)

    def take_over(self, run: str) -> None:
        """A new owner: the transaction of the former one is aborted."""
        self.owner = run
        self.open.clear()

    def check(self, changes: Sequence[SchemaChange]) -> None:
        """Raise SchemaError for changes that cannot be followed: none of them is."""

    def change(self, change: SchemaChange) -> Iterator[None]:
        """Follow a change, with a pause after each part of it. What is done already is no error. Raises SchemaError."""
        raise NotImplementedError

    def receive(self, output: Output, table: str, row: Written) -> None:
        """Take a row in the transaction under way, of the ``table`` by the writer's account, and ``output`` by the
        driver's. Raises SchemaError where it does not fit."""
        raise NotImplementedError

    def commit(self, progress: Progress) -> None:
        """End the transaction: at once all of it is there."""
        for table, row in self.open:
            self.committed.setdefault(table, []).append(row)
        self.open.clear()
        self.progress = progress

    def tables(self) -> dict[str, Any]:
        """The tables as they are."""
        raise NotImplementedError

    def rows(self) -> dict[str, list[Written]]:
        """The committed rows of each table, those of a partition in the order in which they came."""
        return {table: sorted(rows, key=lambda each: each[0]) for table, rows in sorted(self.committed.items())}

    def _note(self, text: str) -> None:
        self.changes.append(text)


@dataclass
class Topics(System):
    """Topics, which are made for new tables and have no columns."""

    topics: list[str] = field(default_factory=list)
    text: ClassVar[str] = """
sink:
  type: kafka
  properties.bootstrap.servers: localhost:9092
  value.format: debezium-json
"""

    def change(self, change: SchemaChange) -> Iterator[None]:
        if isinstance(change, CreateTable):
            if change.table in self.topics:
                self.repeated += 1
            else:
                self.topics.append(change.table)
                self._note(f"new topic {change.table}")
        yield

    def receive(self, output: Output, table: str, row: Written) -> None:
        if table not in self.topics:
            raise SchemaError(f"there is no topic '{table}'")
        self.open.append((table, row))

    def tables(self) -> dict[str, Any]:
        return dict.fromkeys(self.topics)


@dataclass
class Tables(System):
    """Tables of a database. With ``rigid`` no column gets another type."""

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    rigid: bool = False
    text: ClassVar[str] = """
sink:
  type: postgres
  url: jdbc:postgresql://localhost:5432/shop
  username: u
  password: p
"""

    def check(self, changes: Sequence[SchemaChange]) -> None:
        for each in changes if self.rigid else ():
            if isinstance(each, AlterColumnTypes):
                present = self.columns[each.table]
                same = all(present[name] == _type(type_) for name, type_ in each.types)
                _check(same, f"{each.table}: no column gets another type here")

    def change(self, change: SchemaChange) -> Iterator[None]:
        match change:
            case CreateTable(schema=schema):
                columns = {each.name: _type(each.type) for each in schema.row.fields}
                if change.table in self.columns:  # perhaps after changes of a run that has committed none of them
                    present = self.columns[change.table]
                    for each in schema.row.fields:
                        if each.name not in present:
                            present[each.name] = _type(each.type)
                            self._note(f"{change.table}: new column {each.name} {present[each.name]}")
                        _check(_holds(present[each.name], each.type), f"{change.table} has {present}, and not {each}")
                    self.repeated += 1
                else:
                    self.columns[change.table] = columns
                    self._note(f"new table {change.table}: {columns}")
                yield
            case AddColumns(columns=added):
                present = self.columns[change.table]
                for each in added:
                    name, kind = each.field.name, _type(each.field.type)
                    if name in present:
                        _check(present[name] == kind, f"{change.table} has a column {name} of another type")
                        self.repeated += 1
                    else:
                        present[name] = kind
                        self._note(f"{change.table}: new column {name} {kind}")
                    yield
            case AlterColumnTypes(types=types):
                present = self.columns[change.table]
                for name, type_ in types:
                    if present[name] == _type(type_):
                        self.repeated += 1
                    else:
                        present[name] = _type(type_)
                        self._note(f"{change.table}: {name} becomes {_type(type_)}")
                    yield
            case _:
                raise SchemaError(f"{change} is not known here")

    def receive(self, output: Output, table: str, row: Written) -> None:
        _check(output.table == table, f"a row of {table} is one of {output.table}")
        present = self.columns.get(table, {})
        for each in output.schema.fields:
            _check(present.get(each.name) == _type(each.type), f"{table} has {present}, and not {each}")
        self.open.append((table, row))

    def tables(self) -> dict[str, Any]:
        return {table: list(columns.items()) for table, columns in sorted(self.columns.items())}


def _holds(present: str, type_: DataType) -> bool:
    """Whether a column has the type, or a wider one."""
    nullable = type_.with_nullability(True)
    return _type(widen_type(nullable, parse_type(present))) == present


def _type(type_: Any) -> str:
    return str(type_.with_nullability(True))


def _check(fine: bool, message: str) -> None:
    if not fine:
        raise SchemaError(message)


@dataclass(eq=False)
class SystemCommitter(Committer):
    """Writes to a system in one run, by the rules of penstock's own committers."""

    system: System
    context: JobContext
    kills: KillPlan
    tables: FoundOutputs = field(init=False)
    keeps_state = True

    def open(self) -> None:
        self.system.take_over(self.context.run_id)

    def use_tables(self, tables: FoundOutputs) -> None:
        self.tables = tables

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        self._check_run()
        self.kills.reach(f"before the DDL, by {self.kills.cause}")
        self.system.check(changes)
        steps = (step for each in changes for step in self.system.change(each))
        next(steps)
        for _ in steps:
            self.kills.reach(f"amid the DDL, by {self.kills.cause}")
        self.kills.reach(f"after the DDL, by {self.kills.cause}")

    def _check_run(self) -> None:
        if self.system.owner != self.context.run_id:
            raise FencedError(f"{self.system.owner} has taken over", "")

    def writers(self) -> WriterFactory:
        return WriterFactory(_PassingWriter, _PASSED, publish=self._publish, owners=_OWNERS, owner="owner")

    def commit_status(self, batch: Batch) -> CommitStatus:
        known = self.system.progress
        if self._is_done(Progress.from_batch(self.context.query_id, batch, ())):
            return CommitStatus(True, known.state if known else "")
        return CommitStatus(False, known.state if known else "")

    def _is_done(self, progress: Progress) -> bool:
        return isinstance(delivery.decide(self.system.progress, progress, place="the system"), Skip)

    def state(self, upcoming: int) -> str:
        known = self.system.progress
        return known.state if known is not None and known.batch_id >= upcoming - 1 else ""

    def check_owner(self) -> None:
        self._check_run()

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        progress = Progress.from_batch(self.context.query_id, batch, (), tasks.state)
        if self._is_done(progress):
            return Published(skipped=True)
        self._check_run()
        self.kills.reach("before publishing")
        assert not self.system.open, "a transaction is open"
        tasks.collect(by_owners=True)
        self.kills.reach("before the commit")
        self.system.commit(progress)
        self.kills.reach("after the commit")
        return Published()

    def _publish(
        self, task: Task, batches: Iterable[pa.RecordBatch], _: Callable[[pa.Buffer], memoryview]
    ) -> Iterator[pa.RecordBatch]:
        for each in (row for batch in batches for row in batch.to_pylist()):
            output = self.tables.find_output(each["output"])
            for row in _read_rows(each["data"]):
                self.system.receive(output, each["table"], row)
                self.kills.reach("amid publishing")
        yield pa.RecordBatch.from_pylist([], schema=_PASSED)


class _PassingWriter(Writer):
    """Passes rows on: those of a partition to one owner."""

    def __init__(self, _: Task):
        self._tables: dict[int, str] = {}

    def add_output(self, number: int, output: Output) -> None:
        self._tables[number] = output.table

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        place = hidden.column(HIDDEN.names[0]).to_pylist()
        for partition in sorted(set(place)):
            index = pa.array([at for at, each in enumerate(place) if each == partition])
            more = {name: hidden.column(name) for name in hidden.schema.names}
            columns = {f"{number}": rows.column(number) for number in range(rows.num_columns)}
            part = pa.RecordBatch.from_pydict({**more, **columns}).take(index)
            names = json.dumps(rows.schema.names).encode()
            data = ipc_stream(part.replace_schema_metadata({b"names": names})).to_pybytes()
            row = {"output": output, "table": self._tables[output], "owner": partition, "data": data}
            yield pa.RecordBatch.from_pylist([row], schema=_PASSED)


def _read_rows(data: bytes) -> Iterator[Written]:
    with pa.ipc.open_stream(data) as reader:
        rows = reader.read_all()
    names = json.loads((rows.schema.metadata or {})[b"names"])
    for each in rows.to_pylist():
        shown = {name: each[str(number)] for number, name in enumerate(names)}
        kind = RowKind(each.get(KIND) or 0).short
        yield each[HIDDEN.names[0]], each[HIDDEN.names[1]], kind, shown
