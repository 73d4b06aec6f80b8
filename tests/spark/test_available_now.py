"""Jobs that read what is there when they start, and end: the next run goes on."""

from __future__ import annotations

import pytest

from penstock.connectors import values
from penstock.errors import AbortableError
from tests.spark.failpoints import before_commit, failures
from tests.spark.test_stateful_jobs import GROUP, ORDERS, materialised, order, totals, upserts

NOW = "SET 'penstock.available-now' = 'true';\n"


def test_each_run_reads_what_has_come_since_the_one_before(jobs, topics, topic):
    source, target = topic(partitions=2), topic(partitions=2)
    sql = NOW + jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    sql += upserts(jobs, target) + GROUP
    orders = [order(number) for number in range(900)]
    for upto in (300, 600, 900):
        topics.write(source, orders[upto - 300 : upto])
        assert jobs.run(sql).progress.records_in == 300
        assert materialised(topics, target) == totals(orders[:upto])
    result = jobs.run(sql)
    assert (result.progress.records_in, result.stopped) == (0, False)
    assert materialised(topics, target) == totals(orders)


@pytest.mark.slow
def test_a_limit_of_records_makes_several_batches_of_a_run(jobs, topics, topic):
    source, target = topic(partitions=2), topic()
    topics.write(source, [order(number) for number in range(50)])
    options = {"scan_startup_mode": "earliest-offset", "scan_max__records__per__trigger": "20"}
    sql = NOW + jobs.table("orders", ORDERS, source, **options) + jobs.table("copies", ORDERS, target)
    result = jobs.run(sql + "INSERT INTO copies SELECT * FROM orders;")
    assert (result.progress.records_in, result.progress.batches) == (50, 3)
    assert len(topics.read(target)) == 50


def test_a_run_that_failed_in_a_batch_is_finished_by_the_next(jobs, topics, topic, monkeypatch):
    source, target = topic(partitions=2), topic(partitions=2)
    sql = NOW + jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    sql += upserts(jobs, target) + GROUP
    orders = [order(number) for number in range(200)]
    topics.write(source, orders[:100])
    with monkeypatch.context() as patch:
        before_commit(patch, failures(3, lambda: AbortableError("the broker aborted it")))
        with pytest.raises(AbortableError):
            jobs.run(sql)
    topics.write(source, orders[100:])
    assert jobs.run(sql).progress.records_in == 200
    assert materialised(topics, target) == totals(orders)


@pytest.mark.slow
def test_partitions_that_were_added_between_two_runs_are_read(jobs, topics, topic, kafka_admin):
    source, target = topic(partitions=1), topic()
    sql = NOW + jobs.table("orders", ORDERS, source, scan_startup_mode="earliest-offset")
    sql += jobs.table("copies", ORDERS, target) + "INSERT INTO copies SELECT * FROM orders;"
    topics.write(source, [order(1)])
    jobs.run(sql)
    kafka_admin.create_partitions({source: 2})
    topics.write(source, [order(2)], partition=1)
    jobs.run(sql)
    assert sorted(each.json["id"] for each in topics.read(target)) == [1, 2]


def test_windows_stay_open_when_a_run_ends(jobs, topics, topic):
    """The watermark does not go to the end of time: the input is not over."""
    source, target = topic(), topic()
    columns = "id BIGINT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts"
    sql = NOW + jobs.table("events", columns, source, scan_startup_mode="earliest-offset")
    sql += jobs.table("marks", "id BIGINT, mark BIGINT", target)
    sql += "INSERT INTO marks SELECT id, EXTRACT(YEAR FROM CURRENT_WATERMARK(ts)) FROM events;"
    for number in range(3):
        topics.write(source, [{"id": number, "ts": f"2026-01-0{number + 1} 00:00:00Z"}])
        jobs.run(sql)
    marks = {each.json["id"]: each.json["mark"] for each in topics.read(target)}
    assert set(marks.values()) <= {None, 2026}


@pytest.mark.slow
def test_an_unbounded_table_of_rows_ends_too(jobs):
    values.forget("copies")
    sql = NOW + (
        "CREATE TABLE orders (id BIGINT) WITH ('connector' = 'values', 'bounded' = 'false', 'data-id' = "
        f"'{values.register([(1,), (2,)])}'); CREATE TABLE copies (id BIGINT) WITH ('connector' = 'values');"
        "INSERT INTO copies SELECT id FROM orders;"
    )
    jobs.run(sql)
    assert sorted(tuple(each) for each in values.rows("copies")) == [(1,), (2,)]
