"""A window of another length over the state of the former one: refused at the start, undone, and begun empty."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout

import pytest

from penstock.cli.main import main
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.savepoints import write_savepoint
from tests.spark.test_stateful_jobs import GROUP, ORDERS, materialised, order, totals, upserts

STEP = "per_minute: window(orders)"
CHANGED = "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)"
COLUMNS = "customer STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"


@pytest.fixture
def penstock(jobs, tmp_path):
    """Runs a script to the end of what is there: its status, and what it says."""

    def run(sql, *options, command="run"):
        file = tmp_path / "job.sql"
        file.write_text(sql)
        now = ("--available-now",) if command == "run" else ()
        out, said = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(said):
            status = main([command, str(file), "--checkpoint-dir", str(jobs.folder), *now, *options])
        return status, out.getvalue() + said.getvalue()

    return run


@pytest.mark.rule("look before taking over")
def test_a_longer_window_does_not_lose_what_is_open(jobs, topics, topic, penstock, tmp_path):
    source, target = topic(), topic()
    sql = jobs.table("orders", COLUMNS, source, scan_startup_mode="earliest-offset")
    columns = "customer STRING, window_start TIMESTAMP(3), n BIGINT, total BIGINT"
    sql += jobs.exactly_once("per_minute", columns, target)
    sql += (
        "INSERT INTO per_minute SELECT customer, window_start, COUNT(*), SUM(amount) FROM TABLE(TUMBLE(TABLE orders, "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY customer, window_start, window_end;"
    )
    longer = sql.replace("INTERVAL '1' MINUTE", "INTERVAL '2' MINUTE")

    def write(*rows):
        topics.write(source, [{"customer": "bob", "amount": n, "ts": f"2026-11-28 {at}"} for at, n in rows])

    def read():
        return [(each.json["window_start"], each.json["n"], each.json["total"]) for each in topics.read(target)]

    write(("10:12:30", 7), ("10:12:31", 8))
    assert penstock(sql)[0] == 0
    write_savepoint(read_location(str(jobs.checkpoint())), read_location(str(tmp_path / "savepoint")))
    write(("10:12:40", 1), ("10:20:00", 2))

    for options in ((), ("--from", str(tmp_path / "savepoint"), "-D", "pipeline.name=other")):
        status, said = penstock(longer, *options)
        assert status == 3
        assert f"the state of '{STEP}' does not fit the job: {CHANGED}. Undo the change; or " in said
        assert "read," not in said
        assert penstock(longer, *options, command="check")[0] == 1
    assert read() == []

    status, said = penstock(sql)  # undone
    assert (status, read()) == (0, [("2026-11-28 10:12:00", 3, 16)])
    assert f"'{STEP}' keeps its state\n" in said

    status, said = penstock(
        longer, "--from", str(tmp_path / "savepoint"), "-D", "pipeline.name=other", "--reset-state", STEP
    )
    assert f"'{STEP}' starts empty: its state is dropped ({CHANGED})\n" in said
    assert (status, read()[1:]) == (0, [("2026-11-28 10:12:00", 1, 1)])

    write(("10:30:00", 5))
    status, said = penstock(longer, "--reset-state", STEP)
    assert f"'{STEP}' starts empty: its state is dropped ({CHANGED})\n" in said
    assert (status, read()[2:]) == (0, [])
    write(("10:40:00", 6))
    status, said = penstock(longer, "--reset-state", STEP)  # once: the state fits now
    assert f"'{STEP}' keeps its state\n" in said
    assert (status, read()[2:]) == (0, [("2026-11-28 10:30:00", 1, 5)])


@pytest.mark.rule("state commits with the output")
def test_a_job_whose_last_step_is_gone_drops_its_state_and_goes_on(jobs, topics, topic, penstock):
    source, target = topic(), topic()
    sql = jobs.table("orders", "id BIGINT", source, scan_startup_mode="earliest-offset")
    sql += jobs.exactly_once("rows", "id BIGINT", target)
    distinct, plain = (f"{sql}INSERT INTO `rows` SELECT {each}id FROM orders;" for each in ("DISTINCT ", ""))

    def read():
        return [each.json["id"] for each in topics.read(target)]

    topics.write(source, [{"id": 1}, {"id": 1}])
    assert penstock(distinct)[0] == 0
    topics.write(source, [{"id": 1}, {"id": 2}])
    status, said = penstock(plain)
    assert (status, read()) == (3, [1])
    (step,) = re.findall(r"begin without this state with --reset-state '(.*?)'", said)
    for reset in (("--reset-state", step), (), ("--reset-state", step)):
        assert penstock(plain, *reset)[0] == 0
        assert read()[1:3] == [1, 2]
        topics.write(source, [{"id": 1}])
    assert read()[3:] == [1, 1]
    assert penstock(distinct)[0] == 0  # it begins empty
    assert read()[5:] == [1]


@pytest.mark.rule("state commits with the output")
def test_a_group_with_fewer_aggregates_and_other_names_goes_on(jobs, topics, topic):
    source, target = topic(partitions=2), topic(partitions=2)
    sql = "SET 'penstock.available-now' = 'true';\n"
    sql += jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset") + upserts(jobs, target)
    orders = [order(number) for number in range(300)]
    topics.write(source, orders[:200])
    jobs.run(sql + GROUP)
    assert materialised(topics, target) == totals(orders[:200])
    topics.write(source, orders[200:])
    other = GROUP.replace("FROM orders", "FROM (SELECT amount AS a, customer AS c FROM orders)")
    jobs.run(sql + other.replace("(amount)", "(a)").replace("customer", "c", 1).replace("BY customer", "BY c"))
    assert materialised(topics, target) == totals(orders)
