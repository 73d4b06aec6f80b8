"""Savepoints: several jobs start from one, each exactly once on its own."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from penstock.cli.main import main
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.savepoints import write_savepoint
from penstock.errors import CheckpointError
from penstock.kafka.transactions import list_transactions
from tests.spark.test_stateful_jobs import GROUP, ORDERS, materialised, order, totals, upserts
from tests.waiting import while_running

pytestmark = pytest.mark.rule("savepoints fork identities")


@pytest.fixture
def saved(jobs, topics, topic, tmp_path):
    """A job that was stopped, and a savepoint of it: the SQL of its source, the source, its orders, the sink, and the
    savepoint."""
    source, target = topic(partitions=2), topic(partitions=2)
    orders = [order(number) for number in range(400)]
    sql = jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    running = jobs.start(sql + upserts(jobs, target) + GROUP)
    for upto in (200, 400):
        topics.write(source, orders[upto - 200 : upto])
        while_running(running, lambda upto=upto: materialised(topics, target) == totals(orders[:upto]))
    running.stop()
    savepoint = tmp_path / "savepoint"
    write_savepoint(read_location(str(jobs.checkpoint())), read_location(str(savepoint)))
    return sql, source, orders, target, savepoint


def from_savepoint(savepoint, *, ignore=False):
    return (
        f"SET 'execution.state-recovery.path' = '{savepoint}';\n"
        f"SET 'execution.state-recovery.ignore-unclaimed-state' = '{str(ignore).lower()}';\n"
    )


def test_two_jobs_go_on_from_one_savepoint_beside_the_first(jobs, topics, topic, saved, kafka):
    sql, source, orders, target, savepoint = saved
    first = jobs.start(sql + upserts(jobs, target) + GROUP)
    others = []
    for name in ("a", "b"):
        own = topic(partitions=2)
        start = from_savepoint(savepoint) + sql + upserts(jobs, own, **{"sink.transactional-id-prefix": "one"})
        others.append((jobs.start(start + GROUP, name), own, start))
    more = [order(number) for number in range(400, 500)]
    topics.write(source, more)
    while_running(first, lambda: materialised(topics, target) == totals(orders + more))
    for running, own, _ in others:
        # Groups without new rows were written by the first job alone.
        while_running(running, lambda own=own: materialised(topics, own) == totals(orders + more))
    for running, *_ in others:
        assert running.progress.records_in == 100
    ids = [each for each in list_transactions(topics._session()) if each.startswith("one-")]
    assert len(ids) == len(set(ids)) == 2

    # Each goes on from its own checkpoint, and from nothing else.
    running, own, start = others[0]
    running.stop()
    last = [order(number) for number in range(500, 550)]
    topics.write(source, last)
    again = jobs.start(start + GROUP, "a")
    while_running(again, lambda: materialised(topics, own) == totals(orders + more + last))
    assert any("continues from its checkpoint" in each for each in jobs.warnings)


@pytest.mark.slow
def test_a_job_of_the_same_name_does_not_take_over_the_first(jobs, topics, topic, saved, tmp_path):
    sql, source, _, target, savepoint = saved
    first = jobs.start(sql + upserts(jobs, target) + GROUP)
    jobs.folder = tmp_path / "other checkpoints"
    second = topic(partitions=2)
    start = from_savepoint(savepoint) + sql
    start += upserts(jobs, second, **{"sink.transactional-id-prefix": f"tx-{target}"}) + GROUP
    name = "job"
    # One process runs no two jobs of a name; the first is stopped when the second has its identity.
    with pytest.raises(Exception, match="already runs in this process"):
        jobs.start(start, name)
    first.stop()
    running = jobs.start(start, name)
    topics.write(source, [order(1)])
    while_running(running, lambda: materialised(topics, second))
    ids = [each for each in list_transactions(topics._session()) if each.startswith(f"tx-{target}-job")]
    assert len(ids) == 2
    assert f"tx-{target}-job" in ids


@pytest.mark.slow
def test_state_of_a_step_that_is_gone_is_refused_by_its_name(jobs, topics, topic, saved):
    sql, source, _, _, savepoint = saved
    copy = jobs.table("copies", ORDERS, topic()) + "INSERT INTO copies SELECT * FROM orders;"
    with pytest.raises(CheckpointError, match=r"the step 'totals: group\(orders\)'.*--allow-non-restored-state"):
        jobs.start(from_savepoint(savepoint) + sql + copy, "copier")
    running = jobs.start(from_savepoint(savepoint, ignore=True) + sql + copy, "copier")
    topics.write(source, [order(1)])
    while_running(running, lambda: running.progress.records_in)
    assert running.progress.records_in == 1
    assert any("is left out" in each for each in jobs.warnings)


@pytest.mark.slow
def test_a_job_without_state_has_savepoints_too(jobs, topics, topic, tmp_path):
    source, target = topic(), topic()
    topics.write(source, [order(number) for number in range(10)])
    sql = "SET 'penstock.available-now' = 'true';\n"
    sql += jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    sql += jobs.exactly_once("copies", ORDERS, target) + "INSERT INTO copies SELECT * FROM orders;"
    jobs.run(sql, "first")
    assert main(["savepoint", str(jobs.checkpoint("first")), str(tmp_path / "s")]) == 0
    topics.write(source, [order(number) for number in range(10, 15)])
    result = jobs.run(from_savepoint(tmp_path / "s") + sql, "second")
    assert result.progress.records_in == 5
    assert sorted(each.json["id"] for each in topics.read(target)) == list(range(15))


@pytest.mark.slow
def test_a_step_that_keeps_nothing_may_go_and_come_back(jobs, topics, topic, tmp_path):
    """UNNEST writes a document without a state; its job without it none, and with it again the next one."""
    source, target = topic(), topic()
    sql = "SET 'penstock.available-now' = 'true';\n"
    sql += jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    sql += jobs.table("copies", "id BIGINT, n INT", target, sink_delivery__guarantee="at-least-once")
    steps = "SELECT id, n FROM orders CROSS JOIN UNNEST(ARRAY[1, 2]) AS t (n)", "SELECT id, 0 FROM orders"
    for number, query in enumerate([steps[0], steps[1], steps[1], steps[0]]):
        topics.write(source, [order(number)])
        assert jobs.run(f"{sql}INSERT INTO copies {query};").progress.records_in == 1
        made = write_savepoint(read_location(str(jobs.checkpoint())), read_location(str(tmp_path / str(number))))
        assert made.content.batch == number
    found = [(each.json["id"], each.json["n"]) for each in topics.read(target)]
    assert sorted(found) == [(0, 1), (0, 2), (1, 0), (2, 0), (3, 1), (3, 2)]


@pytest.mark.slow
def test_a_savepoint_is_no_place_for_a_job_and_a_checkpoint_no_savepoint(jobs, saved):
    sql, _, _, target, savepoint = saved
    rest = sql + upserts(jobs, target) + GROUP
    with pytest.raises(CheckpointError, match=r"is not a savepoint.*copy it with `penstock savepoint`"):
        jobs.start(from_savepoint(jobs.checkpoint()) + rest, "other")
    with pytest.raises(CheckpointError, match="did not begin with the savepoint"):
        jobs.start(from_savepoint(savepoint) + rest)


def test_a_running_job_is_saved_as_of_its_last_committed_batch(jobs, topics, topic, tmp_path):
    source, target, second = topic(partitions=2), topic(partitions=2), topic(partitions=2)
    sql = jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    running = jobs.start(sql + upserts(jobs, target) + GROUP)
    orders = [order(number) for number in range(100)]
    topics.write(source, orders)
    while_running(running, lambda: materialised(topics, target) == totals(orders))
    path = running.savepoint(str(tmp_path / "savepoints"))
    more = [order(number) for number in range(100, 160)]
    topics.write(source, more)
    while_running(running, lambda: materialised(topics, target) == totals(orders + more))
    other = jobs.start(from_savepoint(path) + sql + upserts(jobs, second) + GROUP, "second")
    changed = {each["customer"] for each in more}
    expected = {name: row for name, row in totals(orders + more).items() if name in changed}
    while_running(other, lambda: materialised(topics, second) == expected)
    assert other.progress.records_in == 60


def test_the_state_of_a_job_is_shown_without_spark(jobs, saved):
    _, _, orders, _, savepoint = saved

    def shown(*arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert main(["state", *arguments]) == 0
        return out.getvalue()

    for place in (jobs.checkpoint(), savepoint):
        overview = shown(str(place))
        assert "totals: group(orders)" in overview
        lines = shown(str(place), "--uid", "totals: group(orders)", "--format", "json").splitlines()
        rows = [json.loads(each) for each in lines]
        assert {each["customer"]: each["rows"] for each in rows} == {
            name: count for name, (count, _) in totals(orders).items()
        }
