"""Batch mode on Spark: one batch of all rows, with final results in order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.connectors import values
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.savepoints import write_savepoint
from penstock.errors import CheckpointError, UnsupportedError
from tests.spark.conftest import Jobs, Topics
from tests.waiting import eventually

pytestmark = pytest.mark.spark

BATCH = "SET 'execution.runtime-mode' = 'batch';\n"
ORDERS = [(1, "apple", 3), (2, "pear", 5), (3, "apple", 4), (4, "plum", 1)]
TABLES = """
CREATE TABLE orders (id BIGINT, name STRING, amount INT) WITH (
  'connector' = 'values', 'data-id' = 'orders', 'scan.max-records-per-trigger' = '1'
);
CREATE TABLE result (name STRING, amount BIGINT) WITH ('connector' = 'values', 'data-id' = 'result');
"""


@pytest.fixture
def orders() -> None:
    values.register(ORDERS, "orders")
    values.register([], "result")


def found() -> list[tuple[object, ...]]:
    return [tuple(row) for row in values.rows("result")]


def test_groups_are_given_once_and_in_order(orders: None, jobs: Jobs) -> None:
    query = "SELECT name, SUM(amount) AS amount FROM orders GROUP BY name ORDER BY amount DESC"
    done = jobs.run(f"{BATCH}{TABLES}INSERT INTO result {query};")

    assert found() == [("apple", 7), ("pear", 5), ("plum", 1)]
    assert done.progress.batches == 1


@pytest.mark.parametrize("condition", ["TRUE", "amount > 1000"])
def test_an_aggregate_of_all_rows_reads_no_more_records_than_there_are(
    orders: None, jobs: Jobs, condition: str
) -> None:
    """The row that it gives where there are none is not one of them."""
    query = f"SELECT CAST(COUNT(*) AS STRING), CAST(SUM(amount) AS INT) FROM orders WHERE {condition}"
    done = jobs.run(f"{BATCH}{TABLES}INSERT INTO result {query};")
    assert len(found()) == 1
    assert (done.progress.records_in, done.progress.records_out) == (len(ORDERS), 1)


def test_a_topic_is_one_batch_whatever_limits_its_rate(
    orders: None, jobs: Jobs, topics: Topics, topic: Callable[..., str]
) -> None:
    source = topic(2)
    for partition in (0, 1):
        rows = [{"name": name, "amount": 1} for name in ("apple", "pear", "apple") * 10]
        topics.write(source, rows, partition=partition)
    limits = {"scan_max__records__per__second": "5", "scan_max__records__per__trigger": "7"}
    sql = f"{BATCH}{TABLES}{jobs.bounded('sales', 'name STRING, amount INT', source, **limits)}"
    done = jobs.run(
        f"{sql}INSERT INTO result SELECT name, SUM(amount) AS amount FROM sales GROUP BY name ORDER BY amount DESC;"
    )

    assert found() == [("apple", 40), ("pear", 20)]
    assert done.progress.batches == 1


def test_the_batch_waits_for_records_of_all_tables_up_to_their_stops(
    orders: None, jobs: Jobs, topics: Topics, topic: Callable[..., str]
) -> None:
    """One table is there at once, the other waits for records that are not written yet."""
    source = topic(2)
    topics.write(source, [{"name": "apple", "amount": 10}] * 2, partition=0)
    stops = {
        "scan_bounded_mode": "specific-offsets",
        "scan_bounded_specific__offsets": "partition:0,offset:3;partition:1,offset:2",
    }
    sql = f"{BATCH}{TABLES}{jobs.bounded('sales', 'name STRING, amount INT', source, **stops)}"
    both = "(SELECT name, amount FROM orders UNION ALL SELECT name, amount FROM sales)"
    running = jobs.start(f"{sql}INSERT INTO result SELECT name, SUM(amount) FROM {both} GROUP BY name;")
    assert not running.wait(timeout=5)
    topics.write(source, [{"name": "pear", "amount": 10}] * 2, partition=1)
    assert not running.wait(timeout=3)
    assert (running.progress.batches, running.status, running.lag(), found()) == (0, "running", None, [])
    topics.write(source, [{"name": "plum", "amount": 10}] * 2, partition=0)
    eventually(lambda: running.wait(timeout=1))

    assert sorted(found()) == [("apple", 27), ("pear", 25), ("plum", 11)]
    assert (running.progress.batches, running.status) == (1, "finished")


def test_a_job_that_waits_for_records_can_be_stopped(orders: None, jobs: Jobs, topic: Callable[..., str]) -> None:
    stops = {
        "scan_bounded_mode": "specific-offsets",
        "scan_bounded_specific__offsets": "partition:0,offset:3",
    }
    sql = f"{BATCH}{TABLES}{jobs.bounded('sales', 'name STRING, amount INT', topic(1), **stops)}"
    running = jobs.start(f"{sql}INSERT INTO result SELECT name, SUM(amount) FROM sales GROUP BY name;")
    running.stop()

    assert (running.result().stopped, running.status, found()) == (True, "canceled", [])


@pytest.mark.parametrize("now", ["false", "true"])
def test_the_windows_of_a_topic_close_with_its_end(
    orders: None, jobs: Jobs, topics: Topics, topic: Callable[..., str], now: str
) -> None:
    source = topic(2)
    topics.write(source, [{"name": "a", "ts": f"2026-01-01 {hour}:10:00"} for hour in (10, 10, 11)], partition=0)
    columns = "name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    sql = f"{BATCH}SET 'penstock.available-now' = '{now}';\n{TABLES}{jobs.bounded('visits', columns, source)}"
    windows = "TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    done = jobs.run(
        f"{sql}INSERT INTO result SELECT CAST(window_start AS STRING), COUNT(*) FROM {windows} "
        "GROUP BY window_start, window_end;"
    )

    assert sorted(found()) == [("2026-01-01 10:00:00.000", 2), ("2026-01-01 11:00:00.000", 1)]
    assert done.progress.batches == 1


def test_without_rows_there_is_a_count(orders: None, jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    tables = (
        TABLES
        + f"""CREATE TABLE none (id INT) WITH (
      'connector' = 'filesystem', 'path' = '{tmp_path / "empty"}', 'format' = 'json'
    );"""
    )
    jobs.run(f"{BATCH}{tables}INSERT INTO result SELECT MAX('x'), COUNT(*) FROM none;")

    assert found() == [(None, 0)]


def test_a_folder_without_files_does_not_hold_back_event_time(orders: None, jobs: Jobs, tmp_path: Path) -> None:
    for name in ("some", "none"):
        (tmp_path / name).mkdir()
    rows = ({"name": "a", "ts": f"2026-01-01 10:{minute}:00"} for minute in (10, 50))
    (tmp_path / "some" / "rows.json").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    tables = "".join(
        f"CREATE TABLE {name} (name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path / name}', 'format' = 'json');\n"
        for name in ("some", "none")
    )
    both = "(SELECT * FROM some UNION ALL SELECT * FROM none)"
    windows = f"TABLE(TUMBLE({both}, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    query = f"SELECT name, COUNT(*) FROM {windows} GROUP BY name, window_start, window_end"
    jobs.run(f"{BATCH}{TABLES}{tables}INSERT INTO result {query};")

    assert found() == [("a", 2)]


def test_files_are_one_batch_and_the_results_are_files(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        rows = ({"id": number * 10 + each, "name": "even" if each % 2 == 0 else "odd"} for each in range(10))
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
    table = "CREATE TABLE {} ({}) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}');\n"
    tables = table.format("numbers", "id INT, name STRING", tmp_path / "in")
    tables += table.format("sums", "name STRING, n BIGINT, total INT", tmp_path / "out")
    by_name = table.format("by_name", "`i.d` INT, name STRING", tmp_path / "by name").replace(
        "WITH", "PARTITIONED BY (name) WITH"
    )
    inserts = (
        "INSERT INTO sums SELECT name, COUNT(*), SUM(id) FROM numbers GROUP BY name ORDER BY name;"
        "INSERT INTO by_name SELECT id, name FROM numbers WHERE id < 4;"
    )
    done = jobs.run(f"{BATCH}{tables}{by_name}EXECUTE STATEMENT SET BEGIN {inserts} END;")

    (file,) = (tmp_path / "out").iterdir()
    run = r"[0-9a-f]{12}"
    assert re.fullmatch(rf"part-{run}-0-000000000-{run}-{run}-\d{{5}}-{run}\.json", file.name)
    assert file.read_text() == '{"name":"even","n":15,"total":210}\n{"name":"odd","n":15,"total":225}\n'
    lines = [(each.parent.name, each.read_text()) for each in sorted((tmp_path / "by name").rglob("part-*"))]
    assert lines == [("name=even", '{"i.d":0}\n{"i.d":2}\n'), ("name=odd", '{"i.d":1}\n{"i.d":3}\n')]
    assert done.progress.batches == 1


def test_insert_overwrite_leaves_the_rows_of_the_last_run(jobs: Jobs, tmp_path: Path) -> None:
    table = "CREATE TABLE {} ({}) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}');\n"
    columns = "name STRING, amount BIGINT"
    tables = table.format("sold", columns, tmp_path / "sold") + table.format("total", columns, tmp_path / "total")
    for folder, amount in (("sold", 3), ("total", 9)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "before.json").write_text(json.dumps({"name": "apple", "amount": amount}) + "\n")
    query = "INSERT OVERWRITE total SELECT name, SUM(amount) FROM sold WHERE amount {} GROUP BY name;"

    def total() -> list[str]:
        return [line for file in sorted((tmp_path / "total").glob("[!.]*")) for line in file.read_text().splitlines()]

    jobs.run(BATCH + tables + query.format("> 0"), name="first")
    assert total() == ['{"name":"apple","amount":3}']
    jobs.run(BATCH + tables + query.format("> 5"), name="second")
    assert total() == []


def test_names_with_dots_and_folders_of_partitions_are_read(
    jobs: Jobs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in" / "day=2026-01-02").mkdir(parents=True)
    (tmp_path / "in" / "day=2026-01-02" / "rows").write_text('{"i.d":1}\n{"i.d":2}\n')
    values.register([(3, "late")], "dotted")
    values.register([], "copied")
    tables = f"""
    CREATE TABLE files (day DATE, `i.d` INT) PARTITIONED BY (day) WITH (
      'connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path / "in"}'
    );
    CREATE TABLE dotted (`i.d` INT, `n.a.me` STRING) WITH ('connector' = 'values', 'data-id' = 'dotted');
    CREATE TABLE copied (`i.d` INT, `n.a.me` STRING) WITH ('connector' = 'values', 'data-id' = 'copied');
    CREATE TABLE shown (`i.d` INT, `n.a.me` STRING) WITH ('connector' = 'print');
    CREATE VIEW every AS SELECT `i.d`, CAST(day AS STRING) AS `n.a.me` FROM files UNION ALL SELECT * FROM dotted;
    """
    inserts = "INSERT INTO copied SELECT * FROM every ORDER BY `i.d`; INSERT INTO shown SELECT * FROM every"
    jobs.run(f"{BATCH}{tables}EXECUTE STATEMENT SET BEGIN {inserts}; END;")

    assert [tuple(row) for row in values.rows("copied")] == [(1, "2026-01-02"), (2, "2026-01-02"), (3, "late")]
    printed = [line for line in capfd.readouterr().out.splitlines() if line.startswith("+I[")]
    assert sorted(printed) == ["+I[1, 2026-01-02]", "+I[2, 2026-01-02]", "+I[3, late]"]


def test_a_table_without_an_end_is_refused(jobs: Jobs) -> None:
    sql = "CREATE TABLE t (i INT) WITH ('connector' = 'datagen'); CREATE TABLE s (i INT) WITH ('connector' = 'print');"
    with pytest.raises(UnsupportedError, match="table 't': is unbounded, and a query in batch mode reads tables that"):
        jobs.run(f"{BATCH}{sql}INSERT INTO s SELECT i FROM t;")


def test_made_up_rows_are_those_of_their_number(orders: None, jobs: Jobs) -> None:
    tables = (
        TABLES
        + """CREATE TABLE made (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH (
      'connector' = 'datagen', 'rows-per-second' = '10',
      'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '100000'
    );"""
    )
    jobs.run(f"{BATCH}{tables}INSERT INTO result SELECT 'all', SUM(CAST(id AS BIGINT)) FROM made;")

    assert found() == [("all", 5_000_050_000)]


def test_a_job_that_had_its_batch_gives_nothing_more(orders: None, jobs: Jobs) -> None:
    insert = "INSERT INTO result SELECT name, COUNT(*) FROM orders GROUP BY name;"
    jobs.run(f"{BATCH}{TABLES}{insert}", "once")
    jobs.run(f"{BATCH}{TABLES}{insert}", "once")

    assert sorted(found()) == [("apple", 2), ("pear", 1), ("plum", 1)]


def test_a_stream_cannot_go_on_from_a_batch(orders: None, jobs: Jobs) -> None:
    insert = "INSERT INTO result SELECT DISTINCT name, CAST(amount AS BIGINT) FROM orders;"
    jobs.run(f"{BATCH}{TABLES}{insert}", "once")

    with pytest.raises(CheckpointError, match=r"has run in batch mode, which keeps no state.* another checkpoint"):
        jobs.run(f"{TABLES}{insert}", "once")


def test_a_batch_does_not_begin_with_the_state_of_a_savepoint(orders: None, jobs: Jobs, tmp_path: Path) -> None:
    insert = "INSERT INTO result SELECT DISTINCT name, CAST(amount AS BIGINT) FROM orders;"
    jobs.run(f"{TABLES}{insert}", "stream")
    write_savepoint(read_location(str(jobs.checkpoint("stream"))), read_location(str(tmp_path / "savepoint")))

    start = f"SET 'execution.state-recovery.path' = '{tmp_path / 'savepoint'}';\n{BATCH}{TABLES}{insert}"
    with pytest.raises(CheckpointError, match=r"begins without state.* start it without the savepoint"):
        jobs.run(start, "batch")
