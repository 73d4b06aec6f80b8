"""The programs of Flink's tests, run through the dataflow without Spark, and the tables that their sinks end with."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.graph.routes import outputs_of
from penstock.flow.kernels.session import Session
from penstock.flow.state.manifest import Manifest
from penstock.plan.nodes import Job, Scan, scans
from penstock.plan.planning import plan_job
from penstock.spi import HIDDEN, KIND
from penstock.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    RowKind,
    RowType,
    TimestampType,
    TimeType,
    arrow_schema,
)
from penstock.types.logical import BinaryType, root
from tests.corpora import script
from tests.unit.flow.driver import Driver

_KINDS = {"+I": RowKind.INSERT, "-U": RowKind.UPDATE_BEFORE, "+U": RowKind.UPDATE_AFTER, "-D": RowKind.DELETE}
_COMPUTED = re.compile(r"`?[\w$]+`?\s+as\s", re.IGNORECASE)
#: A kind, and a row by column.
Change = tuple[RowKind, Mapping[str, Any]]


@dataclass(frozen=True)
class Way:
    """How a program's rows are cut into batches: so many ``rows`` of each table (0: all at once), by this number of
    ``owners``. With ``restart`` the job stops between the rows of ``before`` and ``after``, and starts again from its
    manifest. With ``batch`` all rows are the only batch, in which the tables end."""

    rows: int = 0
    owners: int = 1
    restart: bool = False
    batch: bool = False


#: The ways of every test run: in one run, and in many batches with a restart between them.
WAYS = (Way(), Way(2, 3, restart=True))
MORE_WAYS = (Way(restart=True), Way(1, 3), Way(1, 1, restart=True), Way(2, 2), Way(3, 5, restart=True))


@dataclass
class _Running:
    """A job between batches, with the tables that its outputs make up."""

    program: Mapping[str, Any]
    number: int
    folder: str
    tables: Mapping[str, Table]
    manifest: Manifest = field(default_factory=Manifest)
    #: The time, which is a minute later after each start.
    now_ms: int = 0
    #: The scans of VALUES that were read, each of them once.
    done: set[int] = field(default_factory=set)

    def start(self) -> None:
        """Plan the job; all that is left of a former start is the state that the manifest names."""
        job = plan_job(_jobs(self.program)[self.number])
        self.outputs = outputs_of(job)
        planner = Planner(scans(*job.sinks), Session(job.settings.session_time_zone or "UTC"), batch=job.settings.batch)
        for at, sink in enumerate(job.sinks):
            planner.add(sink, at)
        flow = Dataflow(
            tuple(planner.branches),
            planner.ordered(),
            self.outputs,
            self.folder,
            generators=tuple(planner.generators),
        )
        self.scans = planner.scans
        self.now_ms += 60_000
        self.driver = Driver(flow, manifest=self.manifest, batch=self.manifest.batch + 1, now_ms=self.now_ms)

    def run(
        self, changes: Mapping[str, Sequence[Change]], rng: random.Random, owners: int, *, ended: bool = False
    ) -> None:
        """One batch; ``ended``: the last one, after which no row comes."""
        tasks = []
        for number, scan in enumerate(self.scans):
            if scan.table in changes:
                part = changes[scan.table]
            else:
                part = [] if number in self.done else _literal(scan)
                self.done.add(number)
            if part:
                tasks.append((number, [_batch(part, scan)]))
        if ended and self.driver.flow.generators:
            tasks = tasks or [(0, [])]
        if not tasks:
            return
        rng.shuffle(tasks)
        self.driver.run(tasks, owners, ended=ended)
        for number, output in enumerate(self.outputs):
            for batch in self.driver.results(number):
                rows, kinds = batch.select(list(output.schema.names)), batch.column(KIND).to_pylist()
                self.tables[output.table].apply(rows, kinds, output.schema)
        self.manifest = self.driver.manifest


@dataclass
class Table:
    """The rows that changes end with: one for each value of the columns ``key``, or all of them without a key."""

    key: Sequence[str] = ()
    keyed: dict[tuple[str, ...], str] = field(default_factory=dict)
    plain: Counter[str] = field(default_factory=Counter)
    #: All changes, as Flink prints them.
    changes: list[str] = field(default_factory=list)

    def apply(self, rows: pa.RecordBatch, kinds: Sequence[int], schema: RowType) -> None:
        """Change the rows; raises AssertionError for one that is taken back and is not there."""
        columns = [
            [shown(value, each.type) for value in column.to_pylist()]
            for column, each in zip(rows.columns, schema.fields, strict=True)
        ]
        for kind, *values in zip(kinds, *columns, strict=True):
            row = f"[{', '.join(values)}]"
            self.changes.append(f"{RowKind(kind).short}{row}")
            added = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
            if self.key:
                key = tuple(values[schema.names.index(name)] for name in self.key)
                if added:
                    self.keyed[key] = row
                elif kind == RowKind.DELETE:
                    self.keyed.pop(key, None)
            else:
                self.plain[row] += 1 if added else -1
                assert self.plain[row] >= 0, f"{row} is taken back, but is not there"

    @property
    def rows(self) -> Counter[str]:
        """The rows, as Flink prints them."""
        return Counter(self.keyed.values()) if self.key else +self.plain


def outcome(program: Mapping[str, Any], way: Way, folder: str) -> dict[str, Counter[str]]:
    """The rows of each sink after a run."""
    return {name: table.rows for name, table in written(program, way, folder).items()}


def written(program: Mapping[str, Any], way: Way, folder: str) -> dict[str, Table]:
    """What a run has written to each sink."""
    rng = random.Random(f"{program['name']}{way}")
    tables = {each["name"]: Table(each["primary_key"] or ()) for each in program["sinks"]}
    running = [_Running(program, at, f"{folder}/{at}", tables) for at in range(len(_jobs(program)))]
    for each in running:
        each.start()
    if way.batch:
        every = {each["name"]: _changes(each, "before") + _changes(each, "after") for each in program["tables"]}
        for each in running:
            each.run(every, rng, way.owners, ended=True)
        return tables
    for phase in ("before", "after"):
        for changes in _batches(program, phase, way.rows):
            for each in running:
                each.run(changes, rng, way.owners)
        if phase == "before" and way.restart:
            for each in running:
                each.start()
    if program["run"]["end_of_input"] != "infinite":
        for each in running:
            each.run({table["name"]: [] for table in program["tables"]}, rng, way.owners, ended=True)
    return tables


def _jobs(program: Mapping[str, Any]) -> tuple[Job, ...]:
    return tuple(script(dict(program)).jobs)


def _batches(program: Mapping[str, Any], phase: str, rows: int) -> Iterator[dict[str, list[Change]]]:
    """The changes of the tables in batches: of each table so many rows, with 0 all."""
    waiting = {each["name"]: _changes(each, phase) for each in program["tables"]}
    longest = max([1, *map(len, waiting.values())])
    size = rows or longest
    for first in range(0, longest, size):
        yield {name: changes[first : first + size] for name, changes in waiting.items()}


def _changes(table: Mapping[str, Any], phase: str) -> list[Change]:
    columns = [each.split()[0].strip("`") for each in table["schema"] if not _COMPUTED.match(each)]
    return [(_KINDS[kind], dict(zip(columns, values, strict=True))) for kind, values in table[phase]]


def _literal(scan: Scan) -> list[Change]:
    rows = scan.spec.rows.select(list(scan.schema.names)).to_pylist()  # type: ignore[attr-defined]
    return [(RowKind.INSERT, row) for row in rows]


def _batch(changes: Sequence[Change], scan: Scan) -> pa.RecordBatch:
    """Changes as a scan gives them."""
    schema = arrow_schema(scan.schema)
    columns = [
        pa.array([_value(row[each.name], each.type) for _, row in changes], schema.field(each.name).type)
        for each in scan.schema.fields
    ]
    hidden = [pa.array([0] * len(changes), pa.int32()), pa.array(range(len(changes)), pa.int64())]
    kinds = pa.array([int(kind) for kind, _ in changes], pa.int8())
    return pa.RecordBatch.from_arrays([*columns, *hidden, kinds], names=[*schema.names, *HIDDEN.names, KIND])


def _value(given: Any, type_: DataType) -> Any:
    """A value of the corpora as Arrow takes it."""
    if given is None:
        return None
    match type_:
        case DecimalType():
            return Decimal(str(given))
        case TimestampType():
            return datetime.fromisoformat(given) if isinstance(given, str) else given
        case TimeType():
            return time.fromisoformat(given) if isinstance(given, str) else given
        case BinaryType():
            return bytes.fromhex(given["hex"]) if isinstance(given, dict) else given
        case ArrayType(element=element):
            return [_value(each, element) for each in given]
        case MapType(key=key, value=value):
            pairs = given["map"] if isinstance(given, dict) else given
            return [(_value(one, key), _value(other, value)) for one, other in pairs]
        case RowType(fields=fields):
            named = given.get("named_row") if "row" not in given else None
            values = given.get("row", ())
            parts = [named[each.name] for each in fields] if named is not None else values
            return {each.name: _value(part, each.type) for each, part in zip(fields, parts, strict=True)}
    if root(type_) == "DATE" and isinstance(given, str):
        return date.fromisoformat(given)
    return given


def shown(value: Any, type_: DataType) -> str:
    """A value in a row as Flink prints it."""
    if value is None:
        return "null"
    match type_:
        case DecimalType():
            return f"{value:f}"
        case TimestampType(local_zone=True):
            return value.strftime("%Y-%m-%dT%H:%M:%S") + _fraction(value.microsecond) + "Z"
        case TimestampType():
            return f"{value:%Y-%m-%d}T{_clock(value.second, value.microsecond, f'{value:%H:%M}')}"
        case TimeType():
            return _clock(value.second, value.microsecond, f"{value:%H:%M}")
        case BinaryType():
            return f"[{', '.join(str(each - 256 if each > 127 else each) for each in value)}]"
        case ArrayType(element=element):
            return f"[{', '.join(shown(each, element) for each in value)}]"
        case MapType(key=key, value=of):
            return f"{{{', '.join(f'{shown(one, key)}={shown(other, of)}' for one, other in value)}}}"
        case RowType(fields=fields):
            return f"+I[{', '.join(shown(value[each.name], each.type) for each in fields)}]"
    if root(type_) in ("DOUBLE", "FLOAT"):
        return _real(value, root(type_) == "FLOAT")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _clock(second: int, micros: int, minutes: str) -> str:
    return f"{minutes}:{second:02d}{_fraction(micros)}" if second or micros else minutes


def _fraction(micros: int) -> str:
    if not micros:
        return ""
    return f".{micros // 1000:03d}" if micros % 1000 == 0 else f".{micros:06d}"


def _real(value: float, single: bool) -> str:
    """As Java prints numbers of moderate size."""
    text = str(pa.scalar(value, pa.float32()).cast(pa.string())) if single else repr(value)
    return text if "." in text or "e" in text or "n" in text else f"{text}.0"
