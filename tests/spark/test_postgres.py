"""The postgres sink: what its tables hold after whatever happened in between (rules "targets commit independently" and
"progress decides")."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

from penstock import engine
from penstock.connectors.postgres.address import parse_address
from penstock.connectors.postgres.at_least_once import AtLeastOnceCommitter
from penstock.connectors.postgres.committer import PostgresCommitter
from penstock.connectors.postgres.database import Database, Transaction
from penstock.connectors.postgres.progress import ProgressTable
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.connectors.postgres.staging import build_writer_factory
from penstock.errors import (
    AbortableError,
    CheckpointError,
    DatabaseError,
    DatabaseUnavailableError,
    ExecutionError,
    FencedError,
    OptionsError,
    PossibleDataLossError,
    RecordError,
    SchemaError,
)
from penstock.settings import Settings
from penstock.spi import HIDDEN, Batch, Guarantee, JobContext, NextBatch, Output, Task, TaskResults
from penstock.sql import parse_script
from penstock.types import parse_columns
from tests.committers import Computed, Memory, rows_of_outputs
from tests.spark.failpoints import before_insertion_is_committed
from tests.waiting import eventually, while_running


def copy(jobs, db, source, *, bounded=True, sink=None, **options):
    table = jobs.bounded if bounded else jobs.table
    return (
        table("s", "id BIGINT", source, **{"scan_startup_mode": "earliest-offset", **options})
        + db.table("t", "id BIGINT", **(sink or {}))
        + "INSERT INTO t SELECT * FROM s;"
    )


def forget_last_commit(jobs):
    """As if the job had been killed between the database's commit and Spark's."""
    last = max((jobs.checkpoint() / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.rule("progress decides")
def test_a_batch_is_neither_skipped_nor_repeated_when_a_table_comes_to_the_job(jobs, topics, topic, db, batches):
    """After the last batch was committed, and before Spark knew."""
    source = topic(1)
    topics.write_ids(source, 10 * batches)
    for table in "tu":
        db.rows(f"CREATE TABLE {table} (id bigint)")
    first = copy(jobs, db, source, scan_max__records__per__trigger="10")
    insert = "INSERT INTO t SELECT * FROM s;"
    both = first.replace(
        insert, db.table("u", "id BIGINT") + f"EXECUTE STATEMENT SET BEGIN {insert} INSERT INTO u SELECT * FROM s; END;"
    )
    jobs.run(first)
    forget_last_commit(jobs)
    with pytest.raises(
        CheckpointError, match=r"but not into 'public.u'.*Start the job once with its former definition"
    ):
        jobs.run(both)
    jobs.run(first)
    jobs.run(both)  # goes on behind them
    assert db.ids() == list(range(10 * batches))
    assert db.rows("SELECT * FROM u") == []


# --- rows ----------------------------------------------------------------------------------------------------------

TYPES = {
    "b": ("BOOLEAN", "boolean", True, "true"),
    "i1": ("TINYINT", "smallint", -128, "-128"),
    "i2": ("SMALLINT", "smallint", 32767, "32767"),
    "i4": ("INT", "bigint", -5, "-5"),
    "i8": ("BIGINT", "bigint", 2**63 - 1, str(2**63 - 1)),
    "f4": ("FLOAT", "real", 1.5, "1.5"),
    "f8": ("DOUBLE", "double precision", 0.1, "0.1"),
    "de": ("DECIMAL(20, 4)", "numeric(20,4)", 1234567890.5, "1234567890.5000"),
    "d": ("DATE", "date", "2024-02-29", "2024-02-29"),
    "t": ("TIME(3)", "time", "23:59:59.123", "23:59:59.123"),
    "ts": ("TIMESTAMP(6)", "timestamp", "2024-02-29 12:30:45.123456", "2024-02-29 12:30:45.123456"),
    "tz": ("TIMESTAMP_LTZ(3)", "timestamptz", "2024-02-29 12:30:45.123Z", "2024-02-29 12:30:45.123+00"),
    "s": ("STRING", "varchar(20)", "grün 🌱", "grün 🌱"),
    "by": ("BYTES", "bytea", "AAH/", "\\x0001ff"),
    "js": ("STRING", "jsonb", '{"a": [1]}', '{"a": [1]}'),
    "u": ("STRING", "uuid", "0c64d3f1-6d4a-4b0e-9d52-0242ac120002", "0c64d3f1-6d4a-4b0e-9d52-0242ac120002"),
    "e": ("STRING", "mood", "sunny", "sunny"),
    "ai": ("ARRAY<INT>", "integer[]", [1, None, 3], "{1,NULL,3}"),
    "at": ("ARRAY<STRING>", "text[]", ["a", ""], '{a,""}'),
}


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_rows_of_every_type_arrive(jobs, topics, topic, db, guarantee):
    source = topic(2)
    values = {name: each[2] for name, each in TYPES.items()}
    topics.write(source, [values, dict.fromkeys(TYPES)], partition=0)
    db.rows("CREATE TYPE mood AS ENUM ('sunny')")
    db.rows(f'CREATE TABLE "T" ({", ".join(f"{name} {each[1]}" for name, each in TYPES.items())}, n int DEFAULT 7)')
    columns = ", ".join(f"{name} {each[0]}" for name, each in TYPES.items())
    jobs.run(
        "SET 'table.local-time-zone' = 'Asia/Tokyo';\n"
        + jobs.bounded("s", columns, source, json_timestamp__format_standard="SQL")
        + db.table("t", columns, '"T"', sink_delivery__guarantee=guarantee)
        + "INSERT INTO t SELECT * FROM s;"
    )
    shown = ", ".join(f"{name}::text" for name in TYPES)
    full, empty = sorted(db.rows(f'SELECT n, {shown} FROM "T"'), key=lambda row: row[1] is None)
    assert full == (7, *(each[3] for each in TYPES.values()))
    assert empty == (7, *[None] * len(TYPES))
    assert db.staging() == []


@pytest.mark.slow
def test_decimals_are_the_same_to_the_last_digit(db):
    """The client turns them into PostgreSQL's binary form: compared with what the server makes of their text."""
    digits = [int(str(figure) * 38) // 10**shift for figure in range(1, 10) for shift in range(38)]
    digits += [10**power for power in range(38)] + [10**38 - 1, 0, 10_000, 99_990_000]
    kinds = [pa.decimal128(38, scale) for scale in (0, 3, 4, 7, 38)]
    numbers = [
        (kind, [Decimal(f"{sign}{each}E-{kind.scale}") for each in digits for sign in ("", "-")]) for kind in kinds
    ]
    database = Database(parse_address(db.url, db.server.user, db.server.password))
    with database.transaction() as transaction:
        transaction.run("CREATE TABLE n (c0 numeric, c1 text)")
        for kind, values in numbers:
            texts = [format(each, "f") for each in values]
            rows = pa.RecordBatch.from_arrays([pa.array(values, kind), pa.array(texts)], ["c0", "c1"])
            transaction.copy("public", "n", rows, "")
    database.close()
    assert db.rows("SELECT count(*) FROM n") == [(len(kinds) * 2 * len(digits),)]
    assert db.rows("SELECT c0::text, c1 FROM n WHERE c0 <> c1::numeric LIMIT 5") == []


@pytest.mark.slow
def test_a_text_that_postgresql_cannot_hold_is_named(jobs, topics, topic, db):
    source = topic(2)
    topics.write(source, [{"id": 1, "x": "a", "y": ["b"]}], partition=0)
    topics.write(source, [{"id": 2, "x": "c", "y": ["d"]}, {"id": 3, "x": "e", "y": ["f", "g\0h"]}], partition=1)
    db.rows("CREATE TABLE t (id bigint, x text, y text[])")
    columns = "id BIGINT, x STRING, y ARRAY<STRING>"
    sql = jobs.bounded("s", columns, source) + db.table("t", columns) + "INSERT INTO t SELECT * FROM s;"
    with pytest.raises(RecordError, match="U\\+0000") as raised:
        jobs.run(sql)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (source, 1, 1)
    assert raised.value.field == "y"
    assert db.ids() == []


@pytest.mark.slow
def test_a_row_that_a_constraint_refuses_stops_the_job_and_nothing_of_its_batch_is_there(jobs, topics, topic, db):
    source = topic(1)
    topics.write_ids(source, 10)
    db.rows("CREATE TABLE t (id bigint CHECK (id <> 7))")
    with pytest.raises(DatabaseError, match=r"violates check constraint .*SQLSTATE 23514") as raised:
        jobs.run(copy(jobs, db, source))
    assert not raised.value.retriable
    assert db.server.password not in str(raised.value)
    assert db.ids() == []
    assert not any("is retried" in warning for warning in jobs.warnings)


def test_every_problem_of_the_tables_is_told_before_the_job_starts(jobs, topics, topic, db):
    source = topic(1)
    db.rows("CREATE TABLE t (id int, missing_here int NOT NULL, made int GENERATED ALWAYS AS (id) STORED, ok text)")
    db.rows("CREATE SEQUENCE q")
    columns = "id BIGINT, made INT, gone INT, ok STRING"
    sql = (
        jobs.bounded("s", columns, source)
        + db.table("t", columns)
        + db.table("u", columns)
        + db.table("q", columns)
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM s; INSERT INTO u SELECT * FROM s; "
        + "INSERT INTO q SELECT * FROM s; END;"
    )
    with pytest.raises(SchemaError) as raised:
        jobs.run(sql)
    told = [(problem.key, problem.reason) for problem in raised.value.problems]
    assert told == [
        ("id", "BIGINT is declared, but the table's column is integer, which may not hold it"),
        ("made", "is generated by the database and cannot be written"),
        ("gone", "the table has no column of this name"),
        ("missing_here", "is NOT NULL without a default, and is not written"),
        ("", "the database has no table of this name"),
        ("", "is not a table that rows can be inserted into"),
    ]
    assert "'penstock_progress'" not in str(db.rows("SELECT to_regclass('penstock_progress')::text"))


def test_tables_are_checked_before_spark_is_asked_for(db, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # with which a session is refused
    source = "CREATE TABLE s (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');\n"
    sql = source + db.table("t", "id INT") + "INSERT INTO t SELECT * FROM s;"
    (job,) = parse_script(sql, file="a.sql", default_name="a").jobs
    with pytest.raises(SchemaError, match="the database has no table of this name"):
        engine.start(job)


@pytest.mark.slow
def test_a_wrong_password_is_not_shown(jobs, topic, db):
    sql = copy(jobs, db, topic(1), sink={"password": "so-secret"})
    with pytest.raises(DatabaseUnavailableError, match="password authentication failed") as raised:
        jobs.run(sql)
    assert "so-secret" not in str(raised.value)


# --- whole jobs ----------------------------------------------------------------------------------------------------


def test_a_batch_whose_transaction_fails_is_redone_in_place(jobs, topics, topic, db, monkeypatch):
    """The connection breaks between the insertion and the commit, twice."""
    source, left = topic(2), [2]
    topics.write_ids(source, 500)
    db.rows("CREATE TABLE t (id bigint)")

    def disconnect():
        if left[0]:
            left[0] -= 1
            db.disconnect()

    before_insertion_is_committed(monkeypatch, disconnect)
    jobs.run(copy(jobs, db, source))
    assert sum("is retried" in warning for warning in jobs.warnings) == 2
    assert db.ids() == list(range(500))
    assert db.progress() == [("job: public.t", 0)]
    assert db.staging() == []


@pytest.mark.rule("progress decides")
def test_a_committed_batch_that_spark_replays_is_skipped(jobs, topics, topic, db):
    source = topic(2)
    topics.write_ids(source, 300)
    db.rows("CREATE TABLE t (id bigint)")
    sql = copy(jobs, db, source, scan_max__records__per__trigger="100")
    assert jobs.run(sql).progress.records_out == 300
    forget_last_commit(jobs)
    result = jobs.run(sql)
    assert (result.progress.batches, result.progress.records_out) == (1, 0)
    assert db.ids() == list(range(300))


@pytest.mark.slow
@pytest.mark.rule("progress decides")
def test_progress_that_does_not_fit_stops_the_job(jobs, topics, topic, db):
    source = topic(1)
    topics.write_ids(source, 300)
    db.rows("CREATE TABLE t (id bigint)")
    sql = copy(jobs, db, source, scan_max__records__per__trigger="100")
    jobs.run(sql)
    forget_last_commit(jobs)
    db.rows("CREATE TABLE kept AS SELECT * FROM penstock_progress")
    for change, error in (
        ("batch_id = 3", CheckpointError),
        ("batch_id = 0", PossibleDataLossError),
        ("start_position = '{}'", PossibleDataLossError),
        ("query_id = 'another'", CheckpointError),
    ):
        db.rows(f"UPDATE penstock_progress SET {change}")
        with pytest.raises(error, match="batch 2"):
            jobs.run(sql)
        db.rows("DELETE FROM penstock_progress")
        db.rows("INSERT INTO penstock_progress SELECT * FROM kept")
    db.rows("DELETE FROM penstock_progress")
    with pytest.raises(CheckpointError, match="holds nothing"):
        jobs.run(sql)
    assert db.ids() == list(range(300))


@pytest.mark.slow
@pytest.mark.rule("progress decides")
def test_a_second_query_takes_over_with_a_warning(jobs, topics, topic, db):
    source = topic(1)
    topics.write_ids(source, 10)
    db.rows("CREATE TABLE t (id bigint)")
    jobs.run(copy(jobs, db, source))
    shutil.rmtree(jobs.checkpoint())
    jobs.run(copy(jobs, db, source))
    assert any(
        "from another checkpoint: up to batch 0" in warning and "the row 'job: public.t' of table" in warning
        for warning in jobs.warnings
    )
    assert db.ids() == sorted([*range(10)] * 2)


@pytest.mark.slow
@pytest.mark.rule("fence, claim, then read")
@pytest.mark.rule("terminal errors end the job")
def test_a_copy_takes_over_and_the_former_owner_stops(jobs, topics, topic, tmp_path, db):
    source = topic(1)
    topics.write_ids(source, 10)
    db.rows("CREATE TABLE t (id bigint)")
    sql = copy(jobs, db, source, bounded=False)
    first = jobs.start(sql)
    while_running(first, lambda: first.progress.records_out == 10 and jobs.idle())
    jobs.copy_checkpoints(tmp_path / "copy")
    file = tmp_path / "job.sql"
    file.write_text(f"SET 'pipeline.name' = 'job';\n{sql}")
    command = [sys.executable, "-m", "penstock.cli.main", "run", str(file), "--checkpoint-dir", str(tmp_path / "copy")]
    command.append("--take-over")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
        try:
            said = []
            while not any("checkpoint" in line for line in said):  # it owns the row by then
                said.append(second.stderr.readline())
                assert said[-1], f"the copy ended: {said}"
            topics.write_ids(source, 10, start=10)
            with pytest.raises(FencedError, match="was taken over by run") as raised:
                while_running(first, lambda: False)
            assert f"process {second.pid} on" in str(raised.value)
            eventually(lambda: len(db.ids()) >= 20)
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=120)
        assert second.returncode == 0
    assert db.ids() == list(range(20))
    assert db.staging() == []


@pytest.mark.slow
def test_a_database_that_restarts_is_waited_for(jobs, topics, topic, db):
    source = topic(1)
    topics.write_ids(source, 10)
    db.rows("CREATE TABLE t (id bigint)")
    running = jobs.start(copy(jobs, db, source, bounded=False))
    while_running(running, lambda: running.progress.records_out == 10)
    db.server.kill()
    topics.write_ids(source, 10, start=10)
    while_running(running, (jobs.checkpoint() / "offsets" / "1").exists)  # the next batch has begun
    db.server.start()
    while_running(running, lambda: len(db.ids()) >= 20)
    running.stop()
    assert db.ids() == list(range(20))
    assert db.staging() == []


@pytest.mark.slow
def test_at_least_once_writes_without_a_checkpoint_or_progress(jobs, topics, topic, db):
    source = topic(2)
    topics.write_ids(source, 300)
    db.rows("CREATE TABLE t (id bigint)")
    jobs.run(copy(jobs, db, source, sink={"sink_delivery__guarantee": "at-least-once"}))
    assert db.ids() == list(range(300))
    assert db.rows("SELECT to_regclass('penstock_progress')::text") == [(None,)]


@pytest.mark.slow
def test_two_tables_of_one_database_are_committed_together(jobs, topics, topic, db):
    """Branches with filters of their own, in one transaction with one progress row."""
    source = topic(2)
    topics.write_ids(source, 300)
    db.rows("CREATE SCHEMA other")
    db.rows("CREATE TABLE t (id bigint)")
    db.rows("CREATE TABLE other.u (id bigint, parity text)")
    jobs.run(
        jobs.bounded("s", "id BIGINT", source)
        + db.table("t", "id BIGINT")
        + db.table("u", "parity STRING, id BIGINT", "other.u")
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id FROM s WHERE id < 100; "
        "INSERT INTO u SELECT CASE WHEN MOD(id, 2) = 0 THEN 'even' ELSE 'odd' END, id FROM s WHERE id >= 50; END;"
    )
    assert db.ids() == list(range(100))
    assert db.rows("SELECT id, parity FROM other.u ORDER BY id") == [
        (i, "odd" if i % 2 else "even") for i in range(50, 300)
    ]
    assert db.progress() == [("job: other.u, public.t", 0)]


@pytest.mark.parametrize("first", ["kafka", "postgres"])
@pytest.mark.rule("targets commit independently")
def test_of_two_targets_only_the_one_that_has_not_committed_is_redone(jobs, topics, topic, db, monkeypatch, first):
    """The job fails between the two commits of each of its batches, and is started again each time."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter

    source, sink = topic(2), topic(2)
    topics.write_ids(source, 200, partition=0)
    topics.write_ids(source, 200, start=200, partition=1)
    db.rows("CREATE TABLE t (id bigint)")
    inserts = {"kafka": "INSERT INTO k SELECT * FROM s;", "postgres": "INSERT INTO t SELECT * FROM s;"}
    last = "postgres" if first == "kafka" else "kafka"
    # A committer that commits the group's offsets would be last.
    options = {"properties_commit_offsets_on_checkpoint": "false"} if first == "kafka" else {}
    sql = (
        jobs.bounded("s", "id BIGINT", source, scan_max__records__per__trigger="200", **options)
        + jobs.exactly_once("k", "id BIGINT", sink)
        + db.table("t", "id BIGINT")
        + f"EXECUTE STATEMENT SET BEGIN {inserts[first]} {inserts[last]} END;"
    )
    failed = set()
    committer = PostgresCommitter if last == "postgres" else KafkaCommitter
    original = committer.publish

    def fail_once(self, batch, frame):
        if batch.id not in failed:
            failed.add(batch.id)
            raise ExecutionError(f"batch {batch.id} fails between the two commits")
        return original(self, batch, frame)

    monkeypatch.setattr(committer, "publish", fail_once)
    for batch in range(2):
        with pytest.raises(ExecutionError, match=f"batch {batch} fails between"):
            jobs.run(sql)
        written = {"kafka": len(topics.read(sink)), "postgres": len(db.ids())}
        assert written == {first: 200 * (batch + 1), last: 200 * batch}
    jobs.run(sql)
    assert sorted(message.json["id"] for message in topics.read(sink)) == list(range(400))
    assert db.ids() == list(range(400))
    assert not topics.open_transactions(sink)


# --- the committer by itself ----------------------------------------------------------------------------------------


def output(db, table="t", guarantee=Guarantee.EXACTLY_ONCE):
    schema = parse_columns("id BIGINT")
    address = parse_address(db.url, db.server.user, db.server.password)
    spec = PostgresSinkSpec(table=table, table_name=table, schema=schema, guarantee=guarantee, address=address)
    return Output(0, table, spec, schema)


def upcoming(number):
    return NextBatch(number, ({"at": number},) if number else ())


def context(query_id="q", job="job", next_batch=0):
    return JobContext(
        job=job,
        query_id=query_id,
        run_id=str(uuid.uuid4()),
        checkpoint=Memory(),
        settings=Settings(),
        parallelism=1,
        spark=None,
        planned=False,
        next_batch=lambda: upcoming(next_batch),
        stopping=lambda: False,
        warn=lambda _: None,
    )


def copy_rows(outputs: Sequence[Output], instructions: str, number: int, rows: pa.RecordBatch) -> list[Any]:
    """Copies rows as the task of that number; what it tells the driver."""
    writers = build_writer_factory(outputs, 1)
    (told,) = writers.run(Task(number, 1, instructions), rows_of_outputs(outputs, rows))
    found: list[Any] = told.to_pylist()
    return found


@dataclass(frozen=True)
class Given(Computed):
    """Tasks that have ``copy`` copy what a test gives, by the instructions of the committer."""

    copy: Callable[[Any, str], list[Any]] = field(kw_only=True)
    given: Any = field(kw_only=True)
    computed: bool = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        return TaskResults(self.copy(self.given, instructions))


def made_committer(kind, outputs, context, copy, database=None):
    """A committer whose tasks have ``copy`` copy what a test gives to ``publish``, or what operators have made."""

    class Made(kind):
        def publish(self, batch, tasks):
            made = hasattr(tasks, "state")  # by operators
            rows, state = (tasks.rows, tasks.state) if made else (tasks, "")
            given = Given(state, copy=partial(copy, outputs), given=rows, computed=made)
            return super().publish(batch, given)

    return Made(outputs, context, database or Database(outputs[0].spec.address))


class Tasks:
    """Copies a list of numbers, as tasks on Spark do, once for each of ``attempts``, of which the last one counts."""

    def __init__(self, attempts=1, after=lambda: None):
        self.attempts, self.after, self.runs = attempts, after, 0

    def __call__(self, outputs: Sequence[Output], ids: list[int], instructions: str) -> list[Any]:
        self.runs += 1
        zeros = pa.array([0] * len(ids), pa.int64())
        rows = pa.RecordBatch.from_arrays(
            [pa.array(ids, pa.int64()), zeros.cast(pa.int32()), zeros], ["id", *HIDDEN.names]
        )
        for _ in range(self.attempts):
            told = copy_rows(outputs, instructions, 0, rows)
        self.after()
        return told


def batch(number):
    return Batch(number, ({"at": number} if number else None,), ({"at": number + 1},), tasks=1)


def opened(db, jobs, **options):
    made = output(db)
    committer = made_committer(PostgresCommitter, [made], context(**options), jobs)
    committer.open()
    return committer


@pytest.fixture
def table(db):
    db.rows("CREATE TABLE t (id bigint)")


@pytest.mark.slow
def test_rows_of_task_attempts_that_do_not_count_are_not_inserted(db, table):
    committer = opened(db, Tasks(attempts=3))
    published = committer.publish(batch(0), [1, 2, 3])
    assert published.record_count == 3
    assert db.ids() == [1, 2, 3]
    assert db.rows(f"SELECT count(*) FROM {db.staging()[0]}") == [(0,)]
    committer.close()
    committer.close()
    assert db.staging() == []


@pytest.mark.slow
@pytest.mark.rule("progress decides")
def test_progress_is_written_for_empty_batches_too(db, table):
    committer = opened(db, Tasks())
    committer.publish(batch(0), [])
    committer.publish(Batch(1, ({"at": 1},), ({"at": 2},), tasks=0), None)
    assert db.progress() == [("job: public.t", 1)]
    again = opened(db, Tasks(), next_batch=1)
    assert again.publish(batch(1), [9]).skipped
    assert db.ids() == []


@pytest.mark.rule("outcomes are never guessed")
def test_a_commit_whose_answer_is_lost_is_not_repeated(db, table, monkeypatch):
    """The transaction is committed, and the connection breaks before the answer comes."""
    tasks = Tasks()
    committer = opened(db, tasks)
    lost = lose_an_answer(db, monkeypatch)
    assert committer.publish(batch(0), [1]).record_count == 1
    assert (lost, tasks.runs) == ([True], 1)
    committer.publish(batch(1), [2])
    assert db.ids() == [1, 2]


@pytest.mark.slow
@pytest.mark.rule("outcomes are never guessed")
@pytest.mark.parametrize("back", [True, False], ids=["and is back", "for good"])
def test_an_attempt_copies_no_rows_before_it_knows_how_a_commit_without_an_answer_ended(db, table, monkeypatch, back):
    """The answer to COMMIT is lost, and the database is away. Tasks that copy rows then are cancelled, because the job
    is being stopped: AbortableError would say that nothing of the batch was committed."""

    def cancelled():
        if tasks.runs > 1:
            raise AbortableError("the Spark job was cancelled")

    tasks = Tasks(after=cancelled)
    committer = opened(db, tasks)
    lost = lose_an_answer(db, monkeypatch)
    original, failed = PostgresCommitter._lock_row, []

    def owned(self, transaction):
        if lost and not (back and failed):
            failed.append(True)
            raise DatabaseUnavailableError("the network is down")
        return original(self, transaction)

    monkeypatch.setattr(PostgresCommitter, "_lock_row", owned)
    if back:
        assert committer.publish(batch(0), [1]).record_count == 1
    else:
        with pytest.raises(DatabaseUnavailableError):
            committer.publish(batch(0), [1])
    assert (lost, tasks.runs, db.ids()) == ([True], 1, [1])


def lose_an_answer(db, monkeypatch):
    """Breaks the connection after the first COMMIT of rows in the table, before its answer is heard. Gives a list that
    is not empty from then on."""
    original, lost = dbapi.Connection.commit, []

    def commit(self):
        original(self)
        if db.ids() and not lost:
            db.disconnect()
            lost.append(True)
            with self.cursor() as cursor:
                cursor.execute("SELECT 1")  # raises what a broken connection raises

    monkeypatch.setattr(dbapi.Connection, "commit", commit)
    return lost


@pytest.mark.slow
def test_staged_rows_that_a_crash_of_the_server_takes_away_are_copied_again(db, table):
    crashes = [True]

    def crash():
        if crashes.pop() if crashes else False:
            db.server.kill()
            db.server.start()

    tasks = Tasks(after=crash)
    committer = opened(db, tasks)
    committer.publish(batch(0), [1, 2])
    assert tasks.runs == 2
    assert db.ids() == [1, 2]
    committer.close()


@pytest.mark.rule("fence, claim, then read")
def test_a_former_owner_is_fenced_wherever_it_is(db, table):
    idle, staging = opened(db, Tasks()), None
    idle.publish(batch(0), [1])

    def taken_over():
        winner.append(opened(db, Tasks()))

    winner: list[PostgresCommitter] = []
    staging = opened(db, Tasks(after=taken_over))
    with pytest.raises(FencedError, match="was taken over by"):
        idle.publish(batch(1), [2])  # before it has copied: its staging tables are gone
    with pytest.raises(FencedError, match="was taken over by"):
        staging.publish(batch(1), [2])  # after it has copied
    assert winner[0].publish(batch(0), [1]).skipped
    winner[0].publish(batch(1), [2])
    assert db.ids() == [1, 2]
    for each in (idle, staging, *winner):
        each.close()
    assert db.staging() == []


@pytest.mark.slow
@pytest.mark.parametrize("step", ["_lock_row", "_commit"])
@pytest.mark.rule("fence, claim, then read")
def test_a_new_owner_waits_for_a_commit_that_is_under_way(db, table, monkeypatch, step):
    """From the moment that a run has found itself to be the owner; the new run must see how its transaction ends."""
    committer = opened(db, Tasks())
    original, new, threads = getattr(PostgresCommitter, step), [], []

    def and_then_a_new_run(self, *arguments):
        found = original(self, *arguments)
        if self is committer and not threads:
            threads.append(threading.Thread(target=lambda: new.append(opened(db, Tasks()))))
            threads[0].start()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = '{}'"
            while db.rows(waiting.format(db.name)) != [(1,)]:
                assert threads[0].is_alive(), "it did not wait"
        return found

    monkeypatch.setattr(PostgresCommitter, step, and_then_a_new_run)
    committer.publish(batch(0), [1])
    threads[0].join()
    assert new[0].publish(batch(0), [1]).skipped
    assert db.ids() == [1]


@pytest.mark.slow
def test_a_zombie_that_holds_the_row_is_ended_by_the_server(db, table, monkeypatch):
    """Stopped in the middle of its transaction (SIGSTOP, say) it would block every other run forever."""
    from penstock.connectors.postgres import database

    usual = database._IDLE_MS
    monkeypatch.setattr(database, "_IDLE_MS", 500)
    zombie = opened(db, Tasks())
    winner = []

    def stand_still():
        if not winner:
            monkeypatch.setattr(database, "_IDLE_MS", usual)
            winner.append(opened(db, Tasks()))  # waits for the zombie's row
            winner[0].publish(batch(0), [1])

    before_insertion_is_committed(monkeypatch, stand_still)
    with pytest.raises(FencedError):
        zombie.publish(batch(0), [1])
    assert db.ids() == [1]


@pytest.mark.slow
def test_staging_tables_of_a_run_that_was_killed_are_dropped_by_the_next(db, table):
    opened(db, Tasks())
    assert len(db.staging()) == 1
    other = opened(db, Tasks(), job="other", query_id="another")
    assert len(db.staging()) == 2
    opened(db, Tasks()).close()
    assert len(db.staging()) == 1
    other.close()
    assert db.staging() == []


@pytest.mark.slow
def test_two_groups_of_one_job_may_not_write_the_same_tables(db, table):
    made, shared = output(db), context()
    made_committer(PostgresCommitter, [made], shared, Tasks()).open()
    with pytest.raises(OptionsError, match="with different addresses or users"):
        made_committer(PostgresCommitter, [made], shared, Tasks()).open()


@pytest.mark.parametrize("remembered", ["now", "by a former version"])
@pytest.mark.rule("progress decides")
def test_progress_stays_in_its_schema_when_the_search_path_leads_to_another(db, table, remembered):
    runs, warnings = Runs(db), list[str]()
    (first,) = runs.start(("t", None))
    assert not first.publish(batch(0), [0]).skipped
    if remembered != "now":  # which had a document for each schema
        documents = runs.shared.checkpoint.documents
        for name in [name for name, document in documents.items() if "public" in document.values()]:
            del documents[name]
        assert list(documents.values()) == [{"job: public.t": ("public.t",)}]
    db.rows(f"CREATE SCHEMA {db.server.user}")
    runs.shared = replace(runs.shared, warn=warnings.append)
    (second,) = runs.start(("t", None))
    assert second.publish(batch(0), [0]).skipped
    with pytest.raises(FencedError, match="was taken over by"):
        first.publish(batch(1), [1])
    assert "stays in schema 'public'" in warnings[0]
    db.rows("DROP TABLE public.penstock_progress")
    (third,) = runs.start(("t", None), next_batch=2, adopt_progress=True)
    third.publish(batch(2), [2])
    assert db.rows("SELECT schemaname::text FROM pg_tables WHERE tablename = 'penstock_progress'") == [
        (db.server.user,)
    ]
    assert db.ids() == [0, 2]


@pytest.mark.rule("progress decides")
def test_progress_is_found_by_its_rows_in_a_database_that_has_another_identity_since(db, table, monkeypatch):
    """As after pg_upgrade, or a dump that was restored elsewhere; the search path leads to another schema, too."""
    runs = Runs(db)
    (first,) = runs.start(("t", None))
    first.publish(batch(0), [0])
    db.rows(f"CREATE SCHEMA {db.server.user}")
    monkeypatch.setattr(PostgresCommitter, "_identity", lambda _: "another")
    (second,) = runs.start(("t", None))
    assert second.publish(batch(0), [0]).skipped
    with pytest.raises(FencedError, match="was taken over by"):
        first.publish(batch(1), [1])
    second.publish(batch(1), [1])
    assert db.ids() == [0, 1]


@pytest.mark.rule("one identity per job")
def test_two_first_starts_with_different_search_paths_have_one_progress_table(db, table, monkeypatch):
    """The second comes when the first has chosen its schema, and has not made the table yet."""
    runs, create, started = Runs(db), ProgressTable.create, []

    def create_later(rows, transaction):
        monkeypatch.undo()
        db.rows(f"CREATE SCHEMA {db.server.user}")
        started.extend(runs.start(("t", None)))
        create(rows, transaction)

    monkeypatch.setattr(ProgressTable, "create", create_later)
    (first,) = runs.start(("t", None))
    (second,) = started
    assert first._rows == second._rows
    with pytest.raises(FencedError, match="was taken over by"):
        second.publish(batch(0), [0])
    first.publish(batch(0), [0])
    assert db.ids() == [0]


def test_a_database_that_does_not_tell_its_identity_just_now_is_not_taken_for_another(db, table, monkeypatch):
    runs, rows = Runs(db), Transaction.rows
    runs.start(("t", None))

    def failing(transaction, sql, *given):
        if "pg_control_system" in sql:
            raise DatabaseUnavailableError("lost")
        return rows(transaction, sql, *given)

    monkeypatch.setattr(Transaction, "rows", failing)
    with pytest.raises(DatabaseUnavailableError, match="lost"):
        runs.start(("t", None))


def test_tables_with_progress_in_different_schemas_do_not_become_one_target(db):
    runs = Runs(db, "a", "b")
    (a,) = runs.start(("a", None))
    a.publish(batch(0), [0])
    db.rows(f"CREATE SCHEMA {db.server.user}")
    (b,) = runs.start(("b", None))
    b.publish(batch(0), [0])
    with pytest.raises(CheckpointError, match=r"'public.a' in schema 'public'.*Write each of them as"):
        runs.start(("ab", None))


class Runs:
    """Runs of one job, each with a committer for each of some groups of its tables: ``("t", "localhost")``, say."""

    def __init__(self, db, *tables):
        self.db, self.shared = db, context()
        for table in tables:
            db.rows(f"CREATE TABLE {table} (id bigint)")

    def start(self, *groups, next_batch=0, **settings):
        shared = replace(
            self.shared,
            run_id=str(uuid.uuid4()),
            next_batch=lambda: upcoming(next_batch),
            settings=Settings(**settings),
        )
        committers = []
        for tables, url in groups:
            outputs = []
            for number, table in enumerate(tables):
                made = output(self.db, table)
                address = parse_address(url or self.db.url, self.db.server.user, self.db.server.password)
                outputs.append(replace(made, index=number, spec=replace(made.spec, address=address)))
            committers.append(made_committer(PostgresCommitter, outputs, shared, Tasks()))
        for committer in committers:
            committer.check()
        for committer in committers:
            committer.open()
        return committers


@pytest.fixture
def localhost(db):
    """The database by another name of its host."""
    return db.url.replace("127.0.0.1", "localhost")


def test_an_older_checkpoint_does_not_shut_out_the_run_that_is_ahead(db):
    runs = Runs(db, "t")
    (committer,) = runs.start(("t", None))
    for number in range(3):
        committer.publish(batch(number), [number])
    with pytest.raises(CheckpointError, match=r"continues with batch 1 .* batch 2 .* was published already"):
        runs.start(("t", None), next_batch=1)
    committer.publish(batch(3), [3])
    assert db.ids() == [0, 1, 2, 3]


@pytest.mark.parametrize("by", ["the first's name", "the second's name"])
def test_tables_of_two_addresses_become_one_target_when_no_batch_is_half_done(db, localhost, by):
    runs, merged = Runs(db, "a", "b"), None if by == "the first's name" else localhost
    a, b = runs.start(("a", None), ("b", localhost))
    a.publish(batch(0), [0])
    b.publish(batch(0), [0])
    a.publish(batch(1), [1])
    with pytest.raises(CheckpointError, match=r"into 'public.a', but not into 'public.b'.*Start the job once"):
        runs.start(("ab", merged), next_batch=1)
    a, b = runs.start(("a", None), ("b", localhost), next_batch=1)
    assert a.publish(batch(1), [1]).skipped
    b.publish(batch(1), [1])
    (both,) = runs.start(("ab", merged), next_batch=2)
    both.publish(batch(2), [])
    a, b = runs.start(("a", None), ("b", localhost), next_batch=3)  # and apart again
    a.publish(batch(3), [3])
    b.publish(batch(3), [3])
    assert db.ids("a") == db.ids("b") == [0, 1, 3]


def test_a_job_that_died_in_its_first_batch_after_its_tables_were_divided_finishes_it(db, localhost):
    runs = Runs(db, "a", "b")
    (both,) = runs.start(("ab", None))
    both.publish(batch(0), [])
    a, b = runs.start(("a", None), ("b", localhost), next_batch=1)
    a.publish(batch(1), [1])
    a, b = runs.start(("a", None), ("b", localhost), next_batch=1)
    assert a.publish(batch(1), [1]).skipped
    b.publish(batch(1), [1])
    assert db.ids("a") == db.ids("b") == [1]


def test_a_batch_is_known_under_another_name_of_the_host_when_a_table_comes(db, localhost):
    runs = Runs(db, "t", "u")
    (committer,) = runs.start(("t", None))
    committer.publish(batch(0), [0])
    with pytest.raises(CheckpointError, match=r"into 'public.t', but not into 'public.u'"):
        runs.start(("tu", localhost))
    (committer,) = runs.start(("t", localhost))
    assert committer.publish(batch(0), [0]).skipped
    runs.start(("tu", localhost), next_batch=1)
    assert db.progress() == [("job: public.t", 0)]


def test_tables_whose_urls_differ_in_a_parameter_are_written_side_by_side(db):
    runs = Runs(db, "t", "u")
    for committer in runs.start(("t", None), ("u", f"{db.url}?connect_timeout=20")):
        committer.publish(batch(0), [])
    assert db.progress() == [("job: public.t", 0), ("job: public.u", 0)]


def test_a_table_that_was_left_out_for_a_while_comes_back_when_progress_is_adopted(db, localhost):
    runs = Runs(db, "a", "b")
    for committer in runs.start(("a", None), ("b", localhost)):
        committer.publish(batch(0), [0])
    (a,) = runs.start(("a", None), next_batch=1)
    a.publish(batch(1), [1])
    a.publish(batch(2), [2])
    _, b = runs.start(("a", None), ("b", localhost), next_batch=3)
    with pytest.raises(PossibleDataLossError, match=r"ran without this sink.*--adopt-progress"):
        b.publish(batch(3), [3])
    _, b = runs.start(("a", None), ("b", localhost), next_batch=3, adopt_progress=True)
    b.publish(batch(3), [3])
    assert db.ids("b") == [0, 3]


def test_a_target_that_comes_to_a_job_begins_when_progress_is_adopted(db):
    runs = Runs(db, "a")
    (a,) = runs.start(("a", None), next_batch=4)
    with pytest.raises(CheckpointError, match=r"sink was added to the job with this batch.*--adopt-progress"):
        a.publish(batch(4), [4])
    (a,) = runs.start(("a", None), next_batch=4, adopt_progress=True)
    a.publish(batch(4), [4])
    (a,) = runs.start(("a", None), next_batch=4)
    assert a.publish(batch(4), [4]).skipped
    db.rows("DELETE FROM penstock_progress")
    (a,) = runs.start(("a", None), next_batch=5)
    with pytest.raises(CheckpointError, match="progress was lost"):
        a.publish(batch(5), [5])


def test_one_target_of_two_shuts_out_the_run_that_had_two(db, localhost):
    runs = Runs(db, "a", "b")
    b, a = runs.start(("b", localhost), ("a", None))
    for target in (b, a):
        target.publish(batch(0), [0])
    (both,) = runs.start(("ab", None), next_batch=1)
    for target in (b, a):
        with pytest.raises(FencedError, match="was taken over by"):
            target.publish(batch(1), [1])
    both.publish(batch(1), [])
    assert db.ids("a") == db.ids("b") == [0]


def test_a_row_that_has_moved_on_to_other_tables_is_not_taken_for_the_former_ones(db):
    runs = Runs(db, "t", "u")
    for number, tables in enumerate(("t", "tu", "u")):
        (target,) = runs.start((tables, None), next_batch=number)
        target.publish(batch(number), [number] if len(tables) == 1 else [])
    (target,) = runs.start(("u", None), next_batch=3)
    target.publish(batch(3), [3])
    (target,) = runs.start(("t", None), next_batch=3)
    with pytest.raises(CheckpointError, match="progress was lost, or the sink was added"):
        target.publish(batch(3), [3])
    assert db.ids("t") == [0]
    assert [key for key, _ in db.progress()] == ["job: public.t", "job: public.t'"]


def test_a_database_that_was_put_back_from_a_dump_is_behind(db):
    runs = Runs(db, "t")
    (target,) = runs.start(("t", None))
    target.publish(batch(0), [0])
    runs.shared.checkpoint.documents.clear()  # it has another identity
    (target,) = runs.start(("t", None), next_batch=4)
    with pytest.raises(
        PossibleDataLossError, match=r"batch 4 .* last published is batch 0.*Check the row 'job: public.t' of"
    ):
        target.publish(batch(4), [4])


def test_an_empty_database_in_the_place_of_the_former_one_stops_the_job(db):
    runs = Runs(db, "t")
    (target,) = runs.start(("t", None), next_batch=3)
    with pytest.raises(CheckpointError, match="progress was lost"):
        target.publish(batch(3), [3])


@pytest.mark.slow
def test_at_least_once_one_connection_serves_jobs_with_other_columns(db, table):
    made = output(db, guarantee=Guarantee.AT_LEAST_ONCE)
    for _ in range(2):
        committer = made_committer(AtLeastOnceCommitter, [made], context(), Tasks())
        committer.check()
        committer.open()
        assert committer.publish(batch(0), [1]).record_count == 1
        committer.close()
    assert db.ids() == [1, 1]
    assert db.rows("SELECT to_regclass('penstock_progress')::text") == [(None,)]


@pytest.mark.slow
def test_progress_is_readable(db, table):
    opened(db, Tasks()).publish(batch(0), [1])
    ((owner, start, end),) = db.rows("SELECT owner, start_position, end_position FROM penstock_progress")
    assert set(json.loads(owner)) == {"host", "pid", "started_ms"}
    assert (json.loads(start), json.loads(end)) == ({"sources": [None]}, {"sources": [{"at": 1}]})
