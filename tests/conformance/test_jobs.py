"""What every connector that is registered does in a job, by what it declares: with Spark, and with a real server where
the connector needs one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from adbc_driver_postgresql import dbapi

from penstock.common import Row, RowKind
from penstock.connectors import values
from penstock.connectors.postgres.address import parse_address
from penstock.errors import SchemaError
from penstock.plan.nodes import scans
from penstock.spi import CHANGES, INSERTIONS, Readable, Writable, connectors
from penstock_testing.services.postgres import PostgresServer
from tests.spark.conftest import Jobs, jobs, quick_starts, spark_session
from tests.waiting import while_running

__all__ = ["jobs", "quick_starts", "spark_session"]
pytestmark = [pytest.mark.broker, pytest.mark.spark]

COLUMNS = "id BIGINT, name STRING"
#: The connectors whose tables need a primary key.
KEYED = ("upsert-kafka",)
#: The tables with which a connector is tried, where one is not enough: by the options that tell them apart.
WRITTEN = {
    "kafka": ({"format": "json"}, {"format": "debezium-json"}),
    "filesystem": ({"format": "json"}, {"format": "csv"}, {"format": "parquet"}),
    "values": ({}, {"sink-insert-only": "false"}),
}
READ = {
    "datagen": ({"number-of-rows": "3"}, {}),
    "filesystem": ({"format": "json"}, {"format": "csv"}, {"format": "parquet"}),
    "kafka": ({"format": "json", "scan.bounded.mode": "latest-offset"}, {"format": "json"}),
    "upsert-kafka": ({"scan.bounded.mode": "latest-offset"}, {}),
    "values": ({}, {"bounded": "false"}),
}
NAMES = connectors.names()
SINKS = [(n, each) for n in NAMES if isinstance(connectors.get(n), Writable) for each in WRITTEN.get(n, ({},))]
SOURCES = [(n, each) for n in NAMES if isinstance(connectors.get(n), Readable) for each in READ.get(n, ({},))]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for the tests of this file."""
    with PostgresServer() as started:
        yield started


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Callable[[str], dict[str, str]]:
    """Makes an empty place for a table of a connector, and gives the options that name it."""

    def make(name: str) -> dict[str, str]:
        unique = f"t{uuid.uuid4().hex[:12]}"
        match name:
            case "kafka" | "upsert-kafka":
                address = request.getfixturevalue("kafka").bootstrap
                made = request.getfixturevalue("topic")()
                json = {"key.format": "json", "value.format": "json"}
                own = {"scan.startup.mode": "earliest-offset"} if name == "kafka" else json
                return {"topic": made, "properties.bootstrap.servers": address, **own}
            case "postgres" | "hologres":
                server = request.getfixturevalue("postgres")
                address = parse_address(server.url, server.user, server.password)
                with (
                    closing(dbapi.connect(address.connection_string(), autocommit=True)) as connection,
                    connection.cursor() as cursor,
                ):
                    cursor.execute(f"CREATE TABLE {unique} (id bigint, name text)")
                user = {"username": server.user, "password": server.password}
                if name == "postgres":
                    return {**user, "url": server.url, "table-name": unique}
                endpoint = f"{address.host}:{address.port}"
                return {**user, "endpoint": endpoint, "dbname": address.database, "tablename": unique}
            case "filesystem":
                return {"path": str(request.getfixturevalue("tmp_path") / unique)}
            case "values":
                return {"data-id": values.register((), unique)}
        options = {
            option for each in connectors.get(name).options.values() for option in each.declared_options().values()
        }
        return {each.key: each.example for each in options if each.required}

    return make


def table(name: str, connector: str, options: Mapping[str, str], *, keyed: bool = False) -> str:
    """A CREATE TABLE statement."""
    clause = ", ".join(f"'{key}' = '{text}'" for key, text in {"connector": connector, **options}.items())
    key = ", PRIMARY KEY (id) NOT ENFORCED" if keyed or connector in KEYED else ""
    return f"CREATE TABLE {name} ({COLUMNS}{key}) WITH ({clause});\n"


def rows(*kinds: RowKind) -> str:
    """A table ``given`` with a row of each kind."""
    made = [Row(number, kind.short) for number, kind in enumerate(kinds)]
    for row, kind in zip(made, kinds, strict=True):
        row.set_row_kind(kind)
    mode = "I" if set(kinds) <= INSERTIONS else "I,UB,UA,D"
    return table("given", "values", {"data-id": values.register(made), "changelog-mode": mode}, keyed=True)


@pytest.mark.parametrize(("name", "options"), SINKS)
def test_a_sink_takes_the_kinds_that_it_declares_and_no_other(
    name: str, options: dict[str, str], jobs: Jobs, place: Callable[[str], dict[str, str]]
) -> None:
    written = table("t", name, {**place(name), **options})
    insert = "INSERT INTO t SELECT * FROM given;"
    insertions = rows(*[RowKind.INSERT] * 3) + written + insert
    (sink,) = jobs.parse(insertions).sinks
    assert jobs.run(insertions, "insertions").progress.records_out == 3

    changes = rows(*RowKind) + written + insert
    if sink.spec.capabilities.kinds == CHANGES:
        assert jobs.run(changes, "changes").progress.records_out == 4
    else:
        with pytest.raises(SchemaError, match="table 't': takes insertions only, and table 'given'"):
            jobs.run(changes, "changes")


@pytest.mark.parametrize(("name", "options"), SINKS)
def test_every_statement_that_writes_a_table_is_carried_out(
    name: str, options: dict[str, str], jobs: Jobs, place: Callable[[str], dict[str, str]]
) -> None:
    insert = "INSERT INTO t SELECT * FROM given; INSERT INTO t SELECT id + 10, name FROM given WHERE id = 0;"
    sql = rows(*[RowKind.INSERT] * 3) + table("t", name, {**place(name), **options})
    done = jobs.run(sql + f"EXECUTE STATEMENT SET BEGIN {insert} END;")

    assert done.progress.records_out == 4


@pytest.mark.parametrize(("name", "options"), SOURCES)
def test_a_table_ends_as_it_declares_and_gives_what_was_written(
    name: str, options: dict[str, str], jobs: Jobs, place: Callable[[str], dict[str, str]]
) -> None:
    given = place(name)
    writable = isinstance(connectors.get(name), Writable)
    if writable:
        common = {key: text for key, text in {**given, **options}.items() if not key.startswith("scan.bounded")}
        sql = rows(*[RowKind.INSERT] * 3) + table("t", name, common)
        jobs.run(sql + "INSERT INTO t SELECT * FROM given;", "write")
    values.forget("copies")
    sql = table("t", name, {**given, **options}) + table("copies", "values", {"sink-insert-only": "false"})
    sql += "INSERT INTO copies SELECT * FROM t;"
    (scan,) = scans(jobs.parse(sql).sinks[0])
    capabilities = scan.spec.capabilities
    running = jobs.start(sql, "read")
    if capabilities.bounded:
        running.wait()
    else:
        while_running(running, lambda: values.rows("copies"))
        assert not running.wait(timeout=0)
    found = values.rows("copies")
    # Upserts become changes before they reach such a sink.
    assert {row.get_row_kind() for row in found} <= (CHANGES if capabilities.upsert_keys else capabilities.kinds)
    if writable:
        assert sorted((row.id, row.name) for row in found) == [(number, "+I") for number in range(3)]
