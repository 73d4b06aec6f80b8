"""Pipelines from a topic to tables of PostgreSQL that they make: changes arrive once, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from adbc_driver_manager import Error

from penstock import engine
from penstock.engine import RunningJob
from penstock.errors import DatabaseError, RecordError
from penstock.ingest import copy_table, lower, parse_pipeline
from penstock.sql import parse_script
from tests.spark.conftest import Db
from tests.spark.failpoints import before_insertion_is_committed, failures
from tests.waiting import while_running


@pytest.fixture
def start(jobs, db, tmp_path) -> Callable[..., RunningJob]:
    """Starts the pipeline from a topic of debezium-json to the database, with further lines for its sink, its source
    and its end."""

    def start(
        topic: str, *sink: str, reading: Sequence[str] = (), more: str = "", kind: str = "postgres"
    ) -> RunningJob:
        place = {
            "postgres": (f"url: {db.url}",),
            "hologres": (f"endpoint: 127.0.0.1:{db.server.port}", f"dbname: {db.name}"),
        }
        parts = {
            "source": (
                "type: kafka",
                f"properties.bootstrap.servers: {jobs.bootstrap}",
                f"topic: {topic}",
                "scan.startup.mode: earliest-offset",
                "value.format: debezium-json",
                *reading,
            ),
            "sink": (
                f"type: {kind}",
                *place[kind],
                f"username: {db.server.user}",
                f"password: {db.server.password}",
                *sink,
            ),
        }
        text = "".join(f"{part}:\n" + "".join(f"  {each}\n" for each in lines) for part, lines in parts.items())
        text += f"pipeline:\n  name: job\n  state.checkpoints.dir: {tmp_path / 'checkpoints'}\n"
        running = engine.start(lower(parse_pipeline(text + more, file="p.yaml"), "job"), jobs.warnings.append)
        jobs.started.append(running)
        return running

    return start


#: Gives the tables their keys.
KEYS = "transform:\n  - source-table: shop.\\.*\n    primary-keys: id\n"


def change(op: str, before: Any, after: Any, table: str = "orders") -> dict[str, Any]:
    """A message of Debezium."""
    return {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}}


def await_rows(running: RunningJob, db: Db, sql: str, expected: list[Any]) -> None:
    """Wait until a query gives these rows."""
    seen: list[Any] = []

    def found() -> bool:
        try:
            seen[:] = db.rows(sql)
        except Error:  # there is no table yet
            return False
        return seen == expected

    try:
        while_running(running, found)
    except AssertionError:
        raise AssertionError(f"{sql} gives {seen}, not {expected}") from None


def types(db: Db, table: str) -> dict[str, str]:
    sql = (
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = to_regclass('{table}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    return dict(db.rows(sql))


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_tables_are_made_and_follow_what_comes(topics, topic, db, start, guarantee):
    source = topic(1)
    topics.write(source, [change("c", None, {"id": at, "n": at}, f"t{at % 2}") for at in range(6)])
    running = start(source, f"sink.delivery-guarantee: {guarantee}", more=KEYS)
    await_rows(running, db, "SELECT * FROM shop.t1 ORDER BY id", [(1, 1), (3, 3), (5, 5)])
    await_rows(running, db, "SELECT * FROM shop.t0 ORDER BY id", [(0, 0), (2, 2), (4, 4)])
    more = [
        change("u", {"id": 1, "n": 1}, {"id": 1, "n": 1.5}, "t1"),
        change("u", {"id": 3, "n": 3}, {"id": 7, "n": 3, "note": "moved"}, "t1"),
        change("d", {"id": 5, "n": 5}, None, "t1"),
        change("c", None, {"id": 1, "n": "text"}, "t0"),
    ]
    topics.write(source, more)
    await_rows(running, db, "SELECT * FROM shop.t1 ORDER BY id", [(1, 1.5, None), (7, 3.0, "moved")])
    await_rows(running, db, "SELECT * FROM shop.t0 ORDER BY id", [(0, "0"), (1, "text"), (2, "2"), (4, "4")])
    assert types(db, "shop.t1") == {"id": "bigint", "n": "double precision", "note": "text"}
    assert types(db, "shop.t0") == {"id": "bigint", "n": "text"}
    running.stop()
    assert db.staging() == []


def test_a_table_that_cannot_be_altered_takes_the_values_that_fit(jobs, topics, topic, db, start):
    source = topic(1)
    tolerant = ("ingestion.ignore-errors: true",)
    topics.write(source, [change("c", None, {"id": 1, "n": 1})])
    running = start(source, reading=tolerant, more=KEYS)
    await_rows(running, db, "SELECT * FROM shop.orders", [(1, 1)])
    db.rows("CREATE VIEW shop.doubled AS SELECT n * 2 AS n FROM shop.orders")
    topics.write(source, [change("c", None, {"id": at, "n": n}) for at, n in ((2, 2), (3, 1.5), (4, 4))])
    await_rows(running, db, "SELECT * FROM shop.orders ORDER BY id", [(1, 1), (2, 2), (4, 4)])
    running.stop()
    assert [each for each in jobs.warnings if "table 'shop.orders' stays as it is" in each and "shop.doubled" in each]

    db.rows("DROP VIEW shop.doubled")
    topics.write(source, [change("c", None, {"id": 5, "n": 2.5})])
    running = start(source, reading=tolerant, more=KEYS)
    await_rows(running, db, "SELECT * FROM shop.orders ORDER BY id", [(1, 1.0), (2, 2.0), (4, 4.0), (5, 2.5)])
    assert types(db, "shop.orders") == {"id": "bigint", "n": "double precision"}


@pytest.mark.rule("progress decides")
@pytest.mark.rule("state commits with the output")
def test_a_batch_that_fails_before_its_commit_arrives_once(topics, topic, db, start, monkeypatch):
    source = topic(1)
    topics.write(source, [change("c", None, {"id": at}) for at in range(3)])
    with monkeypatch.context() as patch:
        before_insertion_is_committed(patch, failures(3, lambda: DatabaseError("before the commit")))
        with pytest.raises(DatabaseError, match="before the commit"):
            start(source, more=KEYS).wait()
    assert types(db, "shop.orders") == {"id": "bigint"}, "the table is made before its first rows"
    assert db.ids("shop.orders") == []
    running = start(source, more=KEYS)
    await_rows(running, db, "SELECT id FROM shop.orders ORDER BY id", [(0,), (1,), (2,)])
    running.stop()

    db.rows("UPDATE shop.orders SET id = 10 WHERE id = 0")  # a batch that was written again would undo it
    topics.write(source, [change("c", None, {"id": 3, "a": 1})])
    with monkeypatch.context() as patch:
        before_insertion_is_committed(patch, failures(3, lambda: DatabaseError("before the commit")))
        with pytest.raises(DatabaseError, match="before the commit"):
            start(source, more=KEYS).wait()
    assert types(db, "shop.orders") == {"id": "bigint", "a": "bigint"}
    running = start(source, more=KEYS)
    await_rows(running, db, "SELECT * FROM shop.orders ORDER BY id", [(1, None), (2, None), (3, 1), (10, None)])
    topics.write(source, [change("u", {"id": 3, "a": 1}, {"id": 3, "a": 2}), change("c", None, {"id": 4})])
    expected = [(1, None), (2, None), (3, 2), (4, None), (10, None)]
    await_rows(running, db, "SELECT * FROM shop.orders ORDER BY id", expected)
    assert len(db.progress()) == 1


def test_hologres_makes_wide_columns_and_tolerates_types_that_they_hold(topics, topic, db, start):
    source = topic(1)
    topics.write(source, [change("c", None, {"id": 1, "n": 1, "s": "a"})])
    running = start(source, "sink.type-normalize-strategy: BROADEN", more=KEYS, kind="hologres")
    await_rows(running, db, "SELECT * FROM shop.orders", [(1, 1, "a")])
    assert types(db, "shop.orders") == {"id": "bigint", "n": "bigint", "s": "text"}
    topics.write(source, [change("u", {"id": 1, "n": 1, "s": "a"}, {"id": 1, "n": 2, "s": "b", "f": 0.5})])
    await_rows(running, db, "SELECT * FROM shop.orders", [(1, 2, "b", 0.5)])
    topics.write(source, [change("c", None, {"id": 2, "n": "text"})])
    with pytest.raises(RecordError, match=r"offset 2: field 'n': the value text does not fit its column in the sink"):
        running.wait()
    assert db.rows("SELECT * FROM shop.orders") == [(1, 2, "b", 0.5)]


def test_changes_without_a_key_name_the_table(topics, topic, db, start):
    source = topic(1)
    topics.write(source, [change("c", None, {"id": 1}), change("d", {"id": 1}, None)])
    with pytest.raises(RecordError, match=r"table 'shop\.orders': the change -D .*set 'primary-keys' in a rule of"):
        start(source).wait()
    assert db.ids("shop.orders") == []


def test_tasks_that_copy_rows_of_one_table_share_its_staging_table(topics, topic, db, start):
    source = topic(4)
    for partition in range(4):
        ids = range(partition, 400, 4)
        topics.write(source, [change("c", None, {"id": at}, f"t{at % 3}") for at in ids], partition=partition)
    running = start(source, more="  penstock.driver.max-records: 0\n" + KEYS)
    for number in range(3):
        expected = [(at,) for at in range(number, 400, 3)]
        await_rows(running, db, f"SELECT id FROM shop.t{number} ORDER BY id", expected)
    running.stop()
    assert db.staging() == []


def test_a_table_in_sql_follows_a_topic(jobs, topics, topic, db, tmp_path):
    source = topic()
    topics.write(source, [{"id": 1, "note": "a"}])
    script = parse_script(
        f"""CREATE CATALOG pg WITH ('type' = 'postgres', 'url' = '{db.url}',
            'username' = '{db.server.user}', 'password' = '{db.server.password}');
        SET 'state.checkpoints.dir' = '{tmp_path / "checkpoints"}';
        CREATE TABLE t (`offset` BIGINT NOT NULL METADATA, PRIMARY KEY (`offset`) NOT ENFORCED) WITH (
            'connector' = 'kafka', 'properties.bootstrap.servers' = '{jobs.bootstrap}', 'topic' = '{source}',
            'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
        CREATE TABLE pg.sales.copied AS TABLE t ADD COLUMN loud AS UPPER(note);""",
        copies=copy_table,
    )
    (job,) = script.jobs
    running = engine.start(job, jobs.warnings.append)
    jobs.started.append(running)

    def rows(count: int) -> list[Any]:
        def found() -> list[Any]:
            try:
                known = db.rows('SELECT * FROM sales.copied ORDER BY "offset"')
            except Error:  # there is no table yet
                return []
            return known if len(known) >= count else []

        return while_running(running, found)

    assert rows(1) == [(0, 1, "a", "A")]
    topics.write(source, [{"id": 2**40, "note": None, "price": 1.5}])
    assert rows(2)[-1] == (1, 2**40, None, None, 1.5)
