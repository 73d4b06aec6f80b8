"""Jobs whose rows are encoded where they are read, and the same jobs as dataflows: the same records."""

from __future__ import annotations

import json

import pytest

from penstock.engine.runs import query
from penstock.errors import RecordError
from penstock.flow.graph.routes import describe_route
from tests.spark.conftest import BY_TASKS

COLUMNS = "id INT, name STRING, price DOUBLE, r ROW<x INT>"
COUNT = 90
BAD = {7: b'{"id": 7, "na', 40: b"[1, 2]"}
HERE = "rows are computed where they are read"


def fill(topics, source):
    for partition in range(3):
        values = [
            BAD.get(i, json.dumps({"id": i, "name": f"n{i % 7}", "price": i / 4, "r": {"x": i}}).encode())
            for i in range(partition, COUNT, 3)
        ]
        topics.write(source, values, partition=partition)


@pytest.fixture(params=["on the driver", "where they are read", "as a dataflow"])
def way(request, monkeypatch, jobs):
    """Where the rows are computed."""
    if request.param == "as a dataflow":
        monkeypatch.setattr(query, "plan_reading", lambda *_: None)
    elif request.param == "where they are read":
        parse = jobs.parse
        monkeypatch.setattr(jobs, "parse", lambda sql, *name: parse(BY_TASKS + sql, *name))
    return request.param


def found(topics, topic):
    return sorted((message.json for message in topics.read(topic)), key=lambda row: row["id"])


def source_of(jobs, source, **options):
    return jobs.bounded("s", COLUMNS, source, scan_max__records__per__trigger="50", **options)


def test_rows_are_filtered_and_computed_exactly_once(jobs, topics, topic, way):
    source, sink = topic(3), topic(2)
    fill(topics, source)
    sql = source_of(jobs, source, json_ignore__parse__errors="true")
    sql += jobs.exactly_once("t", "id BIGINT, half STRING, kind STRING", sink)
    sql += (
        "INSERT INTO t SELECT id * 2, CAST(id AS STRING), CASE WHEN price > 15 THEN 'dear' ELSE name END "
        "FROM s WHERE name <> 'n3' AND (id > 10 OR price < 1);"
    )
    if way != "as a dataflow":
        assert describe_route(jobs.parse(sql)) == HERE
    result = jobs.run(sql)

    chosen = [i for i in range(COUNT) if i not in BAD and i % 7 != 3 and (i > 10 or i / 4 < 1)]
    assert found(topics, sink) == [
        {"id": i * 2, "half": str(i), "kind": "dear" if i / 4 > 15 else f"n{i % 7}"} for i in chosen
    ]
    assert not topics.open_transactions(sink)
    assert result.progress.records_out == len(chosen)


def test_two_sinks_and_dead_letters_share_a_transaction(jobs, topics, topic, way):
    source, dead, low, high = topic(3), topic(1), topic(2), topic(1)
    fill(topics, source)
    prefix = {"sink_transactional__id__prefix": f"tx-{source}"}
    sql = source_of(jobs, source, scan_dead__letter_topic=dead)
    sql += jobs.exactly_once("low", "id INT", low, **prefix)
    sql += jobs.exactly_once("high", "id INT, name STRING", high, **prefix)
    sql += (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO low SELECT id FROM s WHERE id < 20; "
        "INSERT INTO high SELECT id + 1, name FROM s WHERE price >= 20; END;"
    )
    if way != "as a dataflow":
        assert describe_route(jobs.parse(sql)) == HERE
    result = jobs.run(sql)

    assert [row["id"] for row in found(topics, low)] == [i for i in range(20) if i not in BAD]
    assert found(topics, high) == [{"id": i + 1, "name": f"n{i % 7}"} for i in range(80, COUNT)]
    assert sorted(message.value for message in topics.read(dead)) == sorted(BAD.values())
    assert result.progress.records_out == 19 + 10 + 2


def test_a_row_that_cannot_be_computed_is_named(jobs, topics, topic):
    source, sink = topic(2), topic(1)
    topics.write(source, [{"id": i, "name": str(i)} for i in range(5)], partition=0)
    topics.write(source, [{"id": 1, "name": "1"}, {"id": 2, "name": "two"}], partition=1)
    sql = jobs.bounded("s", COLUMNS, source) + jobs.exactly_once("t", "n INT", sink)
    with pytest.raises(RecordError) as caught:
        jobs.run(sql + "INSERT INTO t SELECT CAST(name AS INT) FROM s WHERE id < 9;")
    error = caught.value
    assert (error.topic, error.partition, error.offset) == (source, 1, 1)
    assert error.reason == "[CAST_INVALID_INPUT] 'two' of type STRING is not a value of type INT"
    assert topics.read(sink) == []


def test_a_pattern_may_be_a_column(jobs, topics, topic, way):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": 1, "name": "HH:mm"}, {"id": 2, "name": None}, {"id": 3, "name": "b"}])
    sql = jobs.bounded("s", COLUMNS, source) + jobs.exactly_once("t", "id INT, m STRING, r STRING", sink)
    sql += "INSERT INTO t SELECT id, DATE_FORMAT(TIMESTAMP '2026-01-31 12:30:00', name), REGEXP_REPLACE(name, '(', '') "
    jobs.run(sql + "FROM s WHERE id < 3;")

    assert found(topics, sink) == [{"id": 1, "m": "12:30", "r": None}, {"id": 2, "m": None, "r": None}]


def test_a_row_that_cannot_be_computed_is_named_in_a_dataflow_too(jobs, topics, topic, monkeypatch):
    monkeypatch.setattr(query, "plan_reading", lambda *_: None)
    test_a_row_that_cannot_be_computed_is_named(jobs, topics, topic)
