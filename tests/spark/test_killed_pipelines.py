"""Random pipelines whose driver is killed on the way: what it has not committed it does again, and nothing is lost.

Schemas, their files and the tables of a database are the real ones. The rows are committed together with the files of
the schemas and the end of the batch, as in one transaction.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.connectors.postgres.address import parse_address
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.definitions import TableDefinitions
from penstock.connectors.postgres.found_tables import FoundTables
from penstock.engine.runs.table_schemas import TableSchemas
from penstock.flow.kernels.session import Session
from penstock.flow.state.schema_log import read_history, read_schemas
from penstock.flow.state.storage import Storage
from penstock.schemas import CreateTable, SchemaChange, SchemaVersion, TableSchema
from penstock.spi import Batch, Output
from penstock.types import Field
from tests.spark.conftest import Db
from tests.unit.ingest.pipelines import Message, Pipeline, show_rows
from tests.unit.ingest.test_random_pipelines import (
    EVOLVE,
    SOURCE,
    Model,
    describe,
    random_batches,
    random_messages,
    show,
    sort_places,
)

_SEEDS = [int(each) for each in os.environ.get("SEEDS", "50").split(":")]
#: Where the driver is killed: before its first pass over a batch, when tasks have reported schemas, before and after
#: the sink follows one, when the versions are written, before the rows are committed, and after that.
POINTS = ("begin", "report", "change", "changed", "history", "publish", "committed")
_MOST_KILLS = 12


class Killed(Exception):
    """The driver has ended, as by SIGKILL."""


@dataclass
class Kills:
    """Ends the driver at random points."""

    rng: random.Random
    hit: Counter[str] = field(default_factory=Counter)

    def reach(self, point: str) -> None:
        """Perhaps end here."""
        if self.hit.total() < _MOST_KILLS and self.rng.random() < 0.15:
            self.hit[point] += 1
            raise Killed(point)


@dataclass
class Topics:
    """Topics, of which new tables need one each. They outlive the driver."""

    made: set[str] = field(default_factory=set)

    def open(self) -> Callable[[Sequence[SchemaChange], Output], None]:
        """What follows changes for one run of the driver."""
        return self._follow

    def _follow(self, changes: Sequence[SchemaChange], output: Output) -> None:
        if any(isinstance(each, CreateTable) for each in changes):
            self.made.add(output.table)

    def check(self, version: SchemaVersion) -> None:
        """Rows need the topic only."""
        assert version.table in self.made


@dataclass
class Tables:
    """Tables of a database, which follow each change in a transaction of its own."""

    db: Db
    database: Database

    def open(self) -> Callable[[Sequence[SchemaChange], Output], None]:
        """What follows changes for one run of the driver."""
        context = SimpleNamespace(settings=SimpleNamespace(session_time_zone="UTC"), warn=pytest.fail)
        found = FoundTables(cast(Any, context))

        def follow(changes: Sequence[SchemaChange], output: Output) -> None:
            with self.database.transaction() as transaction:
                found.follow(transaction, changes, output)

        return follow

    def check(self, version: SchemaVersion) -> None:
        """The table has the columns of its rows."""
        schema, _, table = version.table.rpartition(".")
        sql = "SELECT column_name::text FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2"
        with self.database.transaction() as transaction:
            found = {name for (name,) in transaction.rows(sql, (schema, table))}
        assert found == {*version.schema.row.names}, version.table


@dataclass
class SinkCommitter:
    """The committer of the sink in one run of the driver."""

    follow: Callable[[Sequence[SchemaChange], Output], None]
    kills: Kills

    def prepare_changes(self, outputs: Sequence[Output]) -> None:
        """Changes are made one by one."""

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Have a table follow."""
        self.kills.reach("change")
        self.follow(changes, output)
        self.kills.reach("changed")


@dataclass
class Committed:
    """What outlives the driver: the number of batches, the files of the schemas, and the rows."""

    batches: int = 0
    files: tuple[str, ...] = ()
    rows: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass
class Driver:
    """Runs a pipeline from batch to batch, and begins again when it was killed."""

    text: str
    batches: Sequence[Sequence[Message]]
    place: Path
    sink: Topics | Tables
    kills: Kills
    tasks: Callable[[], int] = lambda: 2
    committed: Committed = field(default_factory=Committed)

    def run(self) -> Committed:
        """Run all batches."""
        while self.committed.batches < len(self.batches):
            try:
                self._run_until_killed()
            except Killed:
                continue
        return self.committed

    def _run_until_killed(self) -> None:
        pipeline = Pipeline(self.text, self.tasks())
        committer = SinkCommitter(self.sink.open(), self.kills)
        schemas = TableSchemas(
            pipeline.work, cast(Any, committer), 0, str(self.place), (), Session("UTC"), pipeline.warnings.append
        )
        for number in range(self.committed.batches, len(self.batches)):
            self._run_batch(pipeline, schemas, number)

    def _run_batch(self, pipeline: Pipeline, schemas: TableSchemas, number: int) -> None:
        batch, parts = Batch(number, (), (), pipeline.tasks), pipeline.divide(self.batches[number])
        self.kills.reach("begin")
        files = schemas.begin(self.committed.files, batch, number)
        for _ in range(9):
            pipeline.schemas = read_schemas(str(self.place), files)
            tables, reports, _ = pipeline.pass_over(parts)
            if not reports:
                break
            self.kills.reach("report")
            files = schemas.evolve(files, reports, batch, number)
            self.kills.reach("history")
        else:
            pytest.fail("tasks report schemas that are known")
        self.kills.reach("publish")
        for version in {each.version.table: each.version for each in tables}.values():
            self.sink.check(version)
        rows = [(table, row) for each in tables for table, _, row in show_rows(each.version, each.rows)]
        self.committed = Committed(number + 1, files, (*self.committed.rows, *rows))
        self.kills.reach("committed")


@pytest.fixture(scope="module")
def tables(server) -> Iterator[Tables]:
    """A database for all pipelines, each of which has a schema of its own."""
    db = Db.create(server)
    with closing(Database(parse_address(db.url, server.user, server.password))) as database:
        yield Tables(db, database)


def check(seed: int, place: Path, kind: str, tables: Tables) -> Counter[str]:
    """Run one random pipeline. Raises AssertionError if it gives anything else than the plain computation, or leaves
    another history than without kills. Returns how often it was killed at each point."""
    rng = random.Random(seed)
    schema = f"s{seed}"
    routed = rng.random() < 0.5
    targets = {each: f"{schema}.{'both' if routed and each != 'c' else each}" for each in "abc"}
    sink_lines = ["type: kafka", "properties.bootstrap.servers: localhost:9092"]
    if kind == "database":
        server = tables.db.server
        sink_lines = ["type: postgres", f"url: {tables.db.url}"]
        sink_lines += [f"username: {server.user}", f"password: {server.password}"]
    text = SOURCE.partition("sink:")[0] + "sink:\n" + "".join(f"  {each}\n" for each in sink_lines)
    text += "route:\n" + "".join(
        f"  - source-table: {table}\n    sink-table: {target}\n" for table, target in targets.items()
    )
    text += "" if routed else rng.choice(["", EVOLVE])
    messages = [Message(each.value, "t0", each.partition) for each in random_messages(rng)]
    batches = [sort_places(each) for each in random_batches(rng, messages)]
    model = Model(targets)
    for batch in batches:
        model.run(batch)

    def run(name: str, kills: Kills, sink: Topics | Tables) -> tuple[Committed, list[tuple[Any, ...]]]:
        driver = Driver(text, batches, place / name, sink, kills, lambda: rng.choice([1, 2, 8]))
        committed = driver.run()
        history = read_history(Storage.from_uri(str(place / name)), committed.files)
        return committed, [(each.side, each.table, each.number, each.changes, each.batch) for each in history]

    kills = Kills(rng)
    sink = tables if kind == "database" else Topics()
    committed, history = run("killed", kills, sink)
    _, expected = run("unharmed", Kills(rng, Counter({"none": _MOST_KILLS})), Topics())
    assert history == expected
    found = read_schemas(str(place / "killed"), committed.files).sinks
    assert {name: describe(each.schema.row.fields) for name, each in found.items()} == {
        name: list(each.items()) for name, each in model.sinks.items()
    }
    for version in found.values():
        sink.check(version)
    shown = sorted(json.dumps([table, show(row)], sort_keys=True) for table, row in committed.rows)
    assert shown == sorted(json.dumps(list(each), sort_keys=True) for each in model.rows)
    return kills.hit


@pytest.mark.parametrize("seed", range(*_SEEDS))
def test_a_pipeline_whose_driver_is_killed_loses_and_doubles_nothing(seed, tables, tmp_path):
    check(seed, tmp_path, ("topics", "database")[seed % 2], tables)


@pytest.mark.parametrize("kind", ["topics", "database"])
def test_the_driver_is_killed_at_each_point(kind, tables, tmp_path):
    hit: Counter[str] = Counter()
    for seed in itertools.count(1000):
        hit += check(seed, tmp_path / f"{seed}", kind, tables)
        if {*hit} == {*POINTS}:
            return
        assert seed < 1040, f"no kill at {sorted({*POINTS} - {*hit})}"


# --- without a safeguard -------------------------------------------------------------------------------------


def _finds_a_fault(kind: str, tables: Tables, place: Path, first: int) -> bool:
    for seed in range(first, first + 40):
        try:
            check(seed, place / f"{seed}", kind, tables)
        except Exception:  # noqa: BLE001 - it is found in some way or other
            return True
    return False


def _add(self: TableDefinitions, fields: Iterable[Field]) -> None:
    for each in fields:
        self._run(f'ALTER TABLE {self.name} ADD COLUMN "{each.name}" {self._choose_type(each)}')


def _create(self: TableDefinitions, schema: TableSchema) -> None:
    columns = (f'"{each.name}" {self._choose_type(each)}' for each in schema.row.fields)
    self._run(f"CREATE TABLE {self.name} ({', '.join(columns)})")


@pytest.mark.parametrize("changed", [_add, _create])
def test_changes_that_cannot_be_made_again_are_noticed(changed, monkeypatch, tables, tmp_path):
    """Where a table of the database is changed without looking whether it has followed before."""
    monkeypatch.setattr(TableDefinitions, changed.__name__, changed)
    assert _finds_a_fault("database", tables, tmp_path, 2000 if changed is _add else 3000)


def test_changes_that_the_sink_does_not_make_are_noticed(monkeypatch, tables, tmp_path):
    """Where rows are written before the sink has followed."""
    monkeypatch.setattr(TableSchemas, "_carry_out", lambda self, evolution: evolution.version)
    assert _finds_a_fault("database", tables, tmp_path, 4000)
