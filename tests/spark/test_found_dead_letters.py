"""Records that cannot be read in pipelines that find their tables: kept in a topic, in the transaction of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import engine
from penstock.connectors.kafka.dead_letters import HEADERS, TABLE_HEADER
from penstock.engine import RunningJob
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.job_status import read_status
from penstock.errors import AbortableError
from penstock.flow.state.table_totals import Total
from penstock.ingest import lower, parse_pipeline
from tests.spark.failpoints import before_commit, failures
from tests.waiting import while_running


@pytest.fixture
def start(jobs, tmp_path) -> Callable[..., RunningJob]:
    """Starts a pipeline from a topic with tables of JSON to topics, exactly once, which keeps dead letters."""

    def start(source: str, dead: str, *lines: str, sink: str = "", more: str = "") -> RunningJob:
        kafka = f"  type: kafka\n  properties.bootstrap.servers: {jobs.bootstrap}\n"
        own = (
            f"topic: {source}",
            f"scan.dead-letter.topic: {dead}",
            "scan.startup.mode: earliest-offset",
            "value.format: json",
            *lines,
        )
        sink = sink or f"{kafka}  sink.delivery-guarantee: exactly-once\n  sink.transactional-id-prefix: {source}\n"
        text = f"source:\n{kafka}" + "".join(f"  {each}\n" for each in own) + f"sink:\n{sink}"
        text += f"pipeline:\n  name: job\n  state.checkpoints.dir: {tmp_path / 'checkpoints'}\n{more}"
        running = engine.start(lower(parse_pipeline(text, file="p.yaml"), "job"), jobs.warnings.append)
        jobs.started.append(running)
        return running

    return start


def facts(message: Any) -> dict[str, str]:
    """What the headers of a dead letter say of where it came from, and why."""
    return {key: value.decode() for key, value in message.headers if key in (*HEADERS, TABLE_HEADER)}


def await_letters(running: RunningJob, topics: Any, dead: str, count: int) -> list[Any]:
    """The dead letters when there are so many, in the order of their records."""

    def found() -> list[Any]:
        known = topics.read(dead)
        return known if len(known) >= count else []

    letters = while_running(running, found)
    return sorted(letters, key=lambda each: tuple(int(facts(each)[name]) for name in HEADERS[1:3]))


def test_a_record_is_kept_as_it_was_with_its_table_and_the_reason(topics, topic, start, kafka):
    from confluent_kafka import Producer

    source, dead, name = topic(2), topic(1), topic()
    good = [{"db": name, "t": "orders", "id": at} for at in range(3)]
    topics.write(source, good, partition=0)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(source, b"{", key=b"k", headers=[("trace", b"\x00"), ("empty", None)], partition=1)
    assert producer.flush(60) == 0
    misfit = {"db": name, "t": "orders", "id": "three"}
    topics.write(source, [misfit], partition=0, keys=[b"3"])
    lines = "json.decode.parser-table-id.fields: db,t", "schema.inference.strategy: static"
    running = start(source, dead, *lines, "scan.max.pre.fetch.records: 0")
    of_table, of_none = await_letters(running, topics, dead, 2)

    assert (of_table.key, of_table.json) == (b"3", misfit)
    assert list(facts(of_table)) == [*HEADERS, TABLE_HEADER]
    assert list(facts(of_table).values())[:6] == [source, "0", "3", "value", "json", "id"]
    assert "does not fit its column, which is BIGINT" in facts(of_table)[HEADERS[6]]
    assert facts(of_table)[TABLE_HEADER] == f"{name}.orders"
    assert (of_none.key, of_none.value) == (b"k", b"{")
    assert of_none.headers[:2] == (("trace", b"\x00"), ("empty", None))
    assert list(facts(of_none).values())[:6] == [source, "1", "0", "value", "json", ""]
    assert facts(of_none)[HEADERS[6]]
    assert facts(of_none)[TABLE_HEADER] == ""
    given = {(each.partition, each.offset): each.timestamp for each in topics.read(source)}
    assert [of_table.timestamp, of_none.timestamp] == [given[0, 3], given[1, 0]]


@pytest.mark.rule("dead letters join the transaction")
@pytest.mark.parametrize("stopped", ["aborted", "published, and not logged"])
def test_each_refused_record_is_seen_once_after_a_batch_that_has_failed(topics, topic, start, monkeypatch, stopped):
    """The tables change on the way, so that batches run again, and batches are aborted, or published by a run that dies
    before Spark has logged them."""
    source, dead, target = topic(2), topic(1), topic()
    values: list[Any] = []
    for at in range(40):
        row = {"id": at, f"c{at // 10}": at}  # a new column with every tenth record
        values.append(f"bad {at}".encode() if at % 4 == 3 else row)
    for partition in range(2):
        topics.write(source, values[partition::2], partition=partition)
    lines, more = (
        ("scan.max-records-per-trigger: 7",),
        f"route:\n  - source-table: {source}\n    sink-table: {target}\n",
    )
    bad = sorted(each for each in values if isinstance(each, bytes))

    with monkeypatch.context() as patch:
        if stopped == "aborted":
            passes = [0]

            def fail_third(_: Any) -> None:
                passes[0] += 1
                if passes[0] > 2:
                    raise AbortableError("the brokers aborted it")

            before_commit(patch, fail_third)
        else:
            die = failures(1, lambda: RuntimeError("the process dies here"))
            from penstock.engine.runs.query import Query

            publish = Query._publish

            def publishing(self: Any, frame: Any, batch: int) -> None:
                publish(self, frame, batch)
                if batch == 2:
                    die()

            patch.setattr(Query, "_publish", publishing)
        running = start(source, dead, *lines, more=more)
        with pytest.raises(Exception, match=r"aborted it|dies here"):
            running.wait()
    seen = topics.read(dead)
    assert len(seen) < len(bad)
    running = start(source, dead, *lines, more=more)
    letters = await_letters(running, topics, dead, len(bad))
    while_running(running, lambda: len(topics.read(target)) >= 40 - len(bad))
    running.stop()
    assert sorted(each.value for each in topics.read(dead)) == sorted(each.value for each in letters) == bad
    assert sorted(each.json["after"]["id"] for each in topics.read(target)) == [at for at in range(40) if at % 4 != 3]
    assert not topics.open_transactions(dead)
    (table,) = read_status(read_location(running.checkpoint.location)).tables
    assert (table.table, table.total) == (source, Total(40 - len(bad), len(bad)))


def test_a_key_and_a_value_that_cannot_be_read_are_one_letter(jobs, topics, topic, start):
    source, dead = topic(1), topic(1)
    topics.write(source, [{"a": 1}, b"{", b"[", {"a": 2}], keys=[b'{"id": 1}', b"x", b'{"id": 3}', b"y"])
    at_least_once = f"  type: kafka\n  properties.bootstrap.servers: {jobs.bootstrap}\n"
    running = start(source, dead, "key.format: json", sink=at_least_once)
    letters = await_letters(running, topics, dead, 3)
    assert [(each.value, facts(each)[HEADERS[3]]) for each in letters] == [
        (b"{", "value"),
        (b"[", "value"),
        (b'{"a": 2}', "key"),
    ]


def test_as_many_letters_as_the_limit_allows(topics, topic, start):
    source, dead = topic(1), topic(1)
    topics.write(source, [b"{", b"["])
    limit = "ingestion.error-tolerance.max-count: 1"
    with pytest.raises(Exception, match=r"'ingestion\.error-tolerance\.max-count' is 1"):
        start(source, dead, limit).wait()
    assert topics.read(dead) == []


@pytest.mark.rule("dead letters join the transaction")
def test_letters_of_a_pipeline_into_a_database_have_a_transaction_of_their_own(topics, topic, start, db):
    source, dead = topic(1), topic(1)
    topics.write(source, [{"id": 1}, b"{", {"id": 2}])
    login = f"  username: {db.server.user}\n  password: {db.server.password}\n"
    sink = f"  type: postgres\n  url: {db.url}\n{login}"
    route = f"route:\n  - source-table: {source}\n    sink-table: public.rows\n"
    running = start(source, dead, sink=sink, more=route)
    (letter,) = await_letters(running, topics, dead, 1)
    assert (letter.value, facts(letter)[TABLE_HEADER]) == (b"{", source)
    assert while_running(running, lambda: sorted(db.rows('SELECT id FROM "rows"'))) == [(1,), (2,)]
