"""Jobs with state: groups and joins over changes, whose state, output and offsets are one commit."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict

import pytest

from penstock import engine
from penstock.common import Row, RowKind
from penstock.connectors import values
from penstock.errors import AbortableError, CheckpointError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.transactions import describe_transaction
from penstock.sql import parse_script
from tests.spark.failpoints import before_commit, failures
from tests.waiting import eventually, while_running

ORDERS = "id BIGINT, customer STRING, amount BIGINT"
TOTALS = "customer STRING, orders BIGINT, total BIGINT, PRIMARY KEY (customer) NOT ENFORCED"
GROUP = "INSERT INTO totals SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer;"


def order(number):
    return {"id": number, "customer": f"c{number % 7}", "amount": number % 11}


def totals(orders):
    found = defaultdict(lambda: [0, 0])
    for each in orders:
        found[each["customer"]][0] += 1
        found[each["customer"]][1] += each["amount"]
    return {name: tuple(each) for name, each in found.items()}


def upserts(jobs, topic, columns=TOTALS, **options):
    """An upsert-kafka table that is written exactly once."""
    given = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": jobs.bootstrap,
        "key.format": "json",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"tx-{topic}",
        **options,
    }
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE totals ({columns}) WITH ({clause});\n"


def materialised(topics, topic):
    """The table that an upsert topic holds, by customer."""
    table = {}
    for message in topics.read(topic):
        key = json.loads(message.key)["customer"]
        if message.value is None:
            table.pop(key)
        else:
            row = message.json
            assert row.pop("customer") == key
            table[key] = (row["orders"], row["total"])
    return table


# --- values: no broker ---------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """Runs the one job of some SQL to its end."""

    def run(sql):
        settings = f"SET 'execution.checkpointing.dir' = '{tmp_path}'; SET 'pipeline.name' = 'job';\n"
        (job,) = parse_script(settings + sql).jobs
        return engine.run(job)

    return run


def values_table(name, columns, **options):
    given = {"connector": "values", **{key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}}
    clause = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({clause});\n"


def changed(rows):
    """The table after the changes of a values sink; a retraction must match a row."""
    table = Counter()
    for row in rows:
        key = tuple(row)
        if row.get_row_kind() in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
            assert table[key] > 0, f"{row} is retracted but not there"
            table[key] -= 1
        else:
            table[key] += 1
    return +table


def test_groups_follow_every_change(run):
    rng, live, rows = random.Random(7), [], []
    for number in range(60):
        if live and rng.random() < 0.4:
            row, kind = live.pop(rng.randrange(len(live))), RowKind.DELETE
        else:
            row, kind = (number, f"c{rng.randrange(5)}", rng.randrange(10)), RowKind.INSERT
            live.append(row)
        rows.append(Row(*row))
        rows[-1].set_row_kind(kind)
    values.forget("totals")
    sql = values_table(
        "orders",
        ORDERS,
        data_id=values.register(rows),
        changelog_mode="I,UB,UA,D",
        **{"scan__max-records-per-trigger": "7"},
    )
    sql += values_table("totals", "customer STRING, orders BIGINT, total BIGINT", sink_insert_only="false")
    result = run(sql + GROUP)

    expected = totals([dict(zip(("id", "customer", "amount"), row, strict=True)) for row in live])
    assert changed(values.rows("totals")) == Counter({(name, *each): 1 for name, each in expected.items()})
    assert result.progress.batches == 9


def test_rows_of_two_tables_are_united(run):
    values.forget("names")
    sql = values_table("a", "id BIGINT, name STRING", data_id=values.register([(1, "x"), (2, "y")]))
    sql += values_table("b", "number INT, name STRING", data_id=values.register([(3, "z")]))
    sql += values_table("names", "id BIGINT, name STRING")
    run(sql + "INSERT INTO names SELECT id, UPPER(name) FROM a UNION ALL SELECT number, name FROM b;")
    assert changed(values.rows("names")) == Counter({(1, "X"): 1, (2, "Y"): 1, (3, "z"): 1})


# --- kafka: one commit ---------------------------------------------------------------------------------------------


def test_totals_of_a_topic_in_several_runs(jobs, topics, topic):
    source, target = topic(partitions=2), topic(partitions=2)
    orders = [order(number) for number in range(3000)]
    topics.write(source, orders[:1000])
    sql = jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset") + upserts(jobs, target) + GROUP
    for upto in (1000, 2000, 3000):
        running = jobs.start(sql)
        if upto > 1000:
            topics.write(source, orders[upto - 1000 : upto])
        while_running(running, lambda upto=upto: materialised(topics, target) == totals(orders[:upto]))
        running.stop()
    figures = {name.rpartition(".")[2]: value for name, value in dict(running.metrics).items() if "group(" in name}
    assert figures["stateRows"] >= 7
    assert figures["stateBytes"] > 0
    assert figures["stateSegments"] > 0
    assert materialised(topics, target) == totals(orders)


def test_tables_stay_exact_when_the_parallelism_changes(jobs, topics, topic):
    source, target = topic(partitions=2), topic(partitions=2)
    sql = jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset") + upserts(jobs, target) + GROUP
    orders = [{**order(number), "customer": f"c{number % 2003}"} for number in range(150_000)]
    for step, parallelism in enumerate((2, 8, 2)):
        topics.write(source, orders[step * 50_000 : (step + 1) * 50_000])  # enough for two tasks
        settings = f"SET 'penstock.available-now' = 'true'; SET 'parallelism.default' = '{parallelism}';"
        result = jobs.run(settings + sql)
        assert result.progress.records_in == 50_000
        assert result.progress.state_rows >= 2003
        assert result.progress.state_bytes > 0
        assert materialised(topics, target) == totals(orders[: (step + 1) * 50_000])


def test_groups_a_copy_and_dead_letters_are_one_commit(jobs, topics, topic):
    source, target, copies, letters = topic(partitions=2), topic(partitions=2), topic(), topic()
    orders = [order(number) for number in range(300)]
    topics.write(source, [*orders, b"no json"])
    sql = jobs.bounded("orders", ORDERS, source, scan_dead__letter_topic=letters)
    sql += upserts(jobs, target) + jobs.exactly_once("copies", ORDERS, copies)
    sql += f"EXECUTE STATEMENT SET BEGIN {GROUP} INSERT INTO copies SELECT * FROM orders WHERE amount > 5; END;"
    jobs.run(sql)
    assert materialised(topics, target) == totals(orders)
    assert sorted(each.json["id"] for each in topics.read(copies)) == [n for n in range(300) if n % 11 > 5]
    assert [each.value for each in topics.read(letters)] == [b"no json"]


@pytest.fixture
def halted(jobs, topics, topic):
    """A job that has done two batches and was stopped: its SQL, what it reads and writes, and its orders."""
    source, target = topic(partitions=2), topic(partitions=2)
    orders = [order(number) for number in range(400)]
    sql = jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset") + upserts(jobs, target) + GROUP
    running = jobs.start(sql)
    for upto in (200, 400):
        topics.write(source, orders[upto - 200 : upto])
        while_running(running, lambda upto=upto: materialised(topics, target) == totals(orders[:upto]))
    eventually(jobs.idle)
    running.stop()
    return sql, source, target, orders


@pytest.mark.rule("state commits with the output")
def test_a_committed_batch_that_spark_replays_runs_no_operator(jobs, topics, halted):
    sql, source, target, orders = halted
    last = max((jobs.checkpoint() / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    state, before = jobs.checkpoint() / "state", len(topics.read(target))
    files = {path.name for path in state.iterdir()}
    running = jobs.start(sql)
    eventually(jobs.idle)
    assert {path.name for path in state.iterdir()} == files
    assert len(topics.read(target)) == before
    more = [order(number) for number in range(50)]
    topics.write(source, more)
    while_running(running, lambda: materialised(topics, target) == totals(orders + more))


@pytest.mark.rule("state commits with the output")
def test_an_attempt_that_is_aborted_changes_no_state(jobs, topics, topic, monkeypatch):
    source, target = topic(partitions=2), topic(partitions=2)
    orders = [order(number) for number in range(500)]
    topics.write(source, orders)
    fail = failures(2, lambda: AbortableError("the broker aborted it"))
    before_commit(monkeypatch, fail)
    sql = jobs.bounded("orders", ORDERS, source, scan_max__records__per__trigger="100")
    result = jobs.run(sql + upserts(jobs, target) + GROUP)
    assert sum("is retried" in each for each in jobs.warnings) == 2
    assert materialised(topics, target) == totals(orders)
    assert result.progress.batches >= 5


@pytest.mark.rule("state commits with the output")
def test_a_manifest_that_was_changed_stops_the_job(jobs, topics, halted):
    sql, source, *_ = halted
    last = max((jobs.checkpoint() / "state").glob("*.manifest"))
    last.write_bytes(last.read_bytes().replace(b'"version":1', b'"version": 1'))
    topics.write(source, [order(1)])
    with pytest.raises(CheckpointError, match=rf"'{last.name}'.*is not the one that was committed"):
        jobs.start(sql)


def test_files_of_former_batches_are_deleted(jobs, topics, halted):
    sql, source, target, orders = halted
    running, state = jobs.start(sql), jobs.checkpoint() / "state"
    for number in range(8):
        orders.append(order(number))
        topics.write(source, orders[-1:])
        while_running(running, lambda: materialised(topics, target) == totals(orders))
    eventually(jobs.idle)
    running.stop()
    assert len(list(state.glob("*.manifest"))) <= 4


def test_state_counts_each_row_once_at_least_once(jobs, topics, topic, monkeypatch):
    source, target = topic(), topic()
    orders = [order(number) for number in range(300)]
    topics.write(source, orders)
    sql = jobs.bounded("orders", ORDERS, source, scan_max__records__per__trigger="100")
    options = {"sink.delivery-guarantee": "at-least-once"}
    sql += upserts(jobs, target, **options).replace("'sink.transactional-id-prefix'", "'properties.client.id'")
    jobs.run(sql + GROUP)
    assert materialised(topics, target) == totals(orders)


def test_a_left_join_of_two_topics_follows_both_sides(jobs, topics, topic):
    left, right, target = topic(), topic(), topic()
    sql = jobs.table("orders", ORDERS, left, scan_startup_mode="earliest-offset")
    sql += jobs.table("customers", "name STRING, country STRING", right, scan_startup_mode="earliest-offset")
    columns = "id BIGINT, amount BIGINT, country STRING, PRIMARY KEY (id) NOT ENFORCED"
    sql += upserts(jobs, target, columns)
    sql += (
        "INSERT INTO totals SELECT o.id, SUM(o.amount), MAX(c.country) FROM orders AS o LEFT JOIN customers AS c "
        "ON o.customer = c.name GROUP BY o.id;"
    )
    running = jobs.start(sql)

    def found():
        rows = {}
        for message in topics.read(target):
            rows[json.loads(message.key)["id"]] = message.json and message.json["country"]
        return rows

    topics.write(left, [order(number) for number in range(20)])
    while_running(running, lambda: found() == dict.fromkeys(range(20)))
    topics.write(right, [{"name": f"c{number}", "country": f"L{number}"} for number in range(5)])
    expected = {number: f"L{number % 7}" if number % 7 < 5 else None for number in range(20)}
    while_running(running, lambda: found() == expected)


@pytest.mark.rule("state commits with the output")
@pytest.mark.rule("look before taking over")
def test_a_start_that_would_lose_state_takes_nothing_over(jobs, halted):
    """The group is taken out, with and without another step with state in its place; files of the state are missing."""
    sql, _, target, _ = halted
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": jobs.bootstrap}))
    before, run = describe_transaction(session, f"tx-{target}-job"), document(jobs, "run")
    assert before is not None
    assert run["run"] == document(jobs, "stopped")["run"]
    latest = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id DESC) AS n FROM orders) WHERE n = 1"
    for read in ("orders", latest):
        other = sql.replace(GROUP, f"INSERT INTO totals SELECT customer, id, amount FROM {read};")
        with pytest.raises(CheckpointError, match=r"has state of 'totals: group\(orders\)', which the job does not"):
            jobs.start(other)
    shutil.rmtree(jobs.checkpoint() / "state")
    with pytest.raises(CheckpointError, match="is missing"):
        jobs.start(sql)
    assert describe_transaction(session, f"tx-{target}-job") == before
    assert document(jobs, "run") == run


def document(jobs, name):
    return json.loads((jobs.checkpoint() / "penstock" / f"{name}.json").read_text())


def test_an_aggregate_that_is_added_to_a_group_is_refused(jobs, topics, halted):
    sql, source, *_ = halted
    topics.write(source, [order(1)])
    other = sql.replace("SUM(amount) FROM", "MAX(amount) FROM")
    with pytest.raises(CheckpointError, match=r"does not fit the job: the aggregates were COUNT\(\*\), SUM\(amount\)"):
        jobs.start(other)
