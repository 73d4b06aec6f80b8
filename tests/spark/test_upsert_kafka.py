"""Jobs over tables of upsert-kafka: changes become messages that replace and delete rows, and come back as changes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from penstock.common import Row, RowKind
from penstock.connectors import values
from penstock.errors import RecordError
from tests.spark.conftest import Jobs, Message

COLUMNS = "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED"
UPSERTS = {"connector": "upsert-kafka", "key_format": "json", "value_format": "json"}


def upsert(jobs: Jobs, name: str, topic: str, columns: str = COLUMNS, **options: str) -> str:
    """A CREATE TABLE statement of upsert-kafka."""
    return jobs.table(name, columns, topic, **{**UPSERTS, **options}).replace("'format' = 'json', ", "")


def exactly(topic: str) -> dict[str, str]:
    """The options of a table that is written exactly once."""
    return {"sink_delivery__guarantee": "exactly-once", "sink_transactional__id__prefix": f"tx-{topic}"}


def changes(*rows: tuple[RowKind, int, str | None], name: str = "given") -> str:
    """A table of these changes."""
    made = [Row(number, text) for _, number, text in rows]
    for row, (kind, *_) in zip(made, rows, strict=True):
        row.set_row_kind(kind)
    options = f"'connector' = 'values', 'data-id' = '{values.register(made)}', 'changelog-mode' = 'I,UB,UA,D'"
    return f"CREATE TABLE {name} ({COLUMNS}) WITH ({options});\n"


def messages(found: list[Message]) -> list[tuple[Any, Any]]:
    """Keys and values."""
    return [(json.loads(each.key), each.json) for each in found]


def table(found: list[Message]) -> dict[int, str]:
    """The rows that the messages leave."""
    rows: dict[int, str] = {}
    for key, value in messages(found):
        rows.pop(key["id"], None)
        if value is not None:
            rows[key["id"]] = value["name"]
    return rows


def debezium(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    """A message of debezium-json."""
    return {"before": before, "after": after, "op": op}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_change_data_becomes_messages_that_replace_and_delete(jobs, topics, topic, guarantee):
    source, target = topic(partitions=1), topic(partitions=3)
    one, two = {"id": 1, "name": "one"}, {"id": 2, "name": "two"}
    new = {"id": 1, "name": "uno"}
    topics.write(source, [debezium("c", None, one), debezium("c", None, two), debezium("u", one, new)])
    topics.write(source, [debezium("d", two, None)])
    sql = jobs.bounded("given", COLUMNS, source, format="debezium-json")
    sql += upsert(jobs, "t", target, **(exactly(target) if guarantee == "exactly-once" else {}))
    result = jobs.run(sql + "INSERT INTO t SELECT * FROM given;")

    found = topics.read(target)
    by_key = {number: [value for key, value in messages(found) if key == {"id": number}] for number in (1, 2)}
    assert by_key == {1: [one, new], 2: [two, None]}
    assert result.progress.records_out == len(found) == 4
    assert len({each.partition for each in found if each.key == b'{"id":1}'}) == 1


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_the_last_change_of_a_key_is_the_last_message_when_several_tasks_read(jobs, topics, topic, guarantee):
    """One partition of enough records is read by several tasks; an order of their own would mix the changes up."""
    source, target = topic(partitions=1), topic(partitions=4)
    rounds, keys = 300, 300
    topics.write(source, [{"id": key, "name": f"{turn}"} for turn in range(rounds) for key in range(keys)])
    sql = jobs.bounded("given", "id BIGINT, name STRING", source)
    sql += upsert(jobs, "t", target, **(exactly(target) if guarantee == "exactly-once" else {}))
    jobs.run(sql + "INSERT INTO t SELECT * FROM given;")

    found = topics.read(target)
    assert len(found) == rounds * keys
    turns: dict[int, list[int]] = {}
    for message in found:
        turns.setdefault(message.json["id"], []).append(int(message.json["name"]))
    assert turns == {key: list(range(rounds)) for key in range(keys)}


def test_both_connectors_write_in_one_transaction(jobs, topics, topic):
    plain, target = topic(), topic()
    sql = changes((RowKind.INSERT, 1, "one"), (RowKind.DELETE, 1, "one"))
    sql += jobs.exactly_once("log", "id BIGINT, name STRING", plain, format="debezium-json")
    sql += upsert(jobs, "t", target, **exactly(plain))
    sql += "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM given; INSERT INTO log SELECT * FROM given; END;"
    jobs.run(sql)

    assert messages(topics.read(target)) == [({"id": 1}, {"id": 1, "name": "one"}), ({"id": 1}, None)]
    assert [each.json["op"] for each in topics.read(plain)] == ["c", "d"]


def test_a_row_that_a_filter_no_longer_passes_is_deleted(jobs, topics, topic):
    target = topic(partitions=1)
    sql = changes(
        (RowKind.INSERT, 1, "in"),
        (RowKind.UPDATE_BEFORE, 1, "in"),
        (RowKind.UPDATE_AFTER, 1, "out"),
        (RowKind.INSERT, 2, "out"),
        (RowKind.UPDATE_BEFORE, 2, "out"),
        (RowKind.UPDATE_AFTER, 2, "in"),
    )
    sql += upsert(jobs, "t", target) + "INSERT INTO t SELECT * FROM given WHERE name = 'in';"
    jobs.run(sql)

    found = topics.read(target)
    assert messages(found) == [
        ({"id": 1}, {"id": 1, "name": "in"}),
        ({"id": 1}, None),
        ({"id": 2}, {"id": 2, "name": "in"}),
    ]
    assert table(found) == {2: "in"}


def test_what_goes_by_arrival_goes_by_the_order_of_the_messages(jobs, topics, topic):
    source, target, lists = topic(partitions=1), topic(partitions=2), topic(partitions=1)
    rows = [{"id": number, "c": 1, "a": f"a{number}"} for number in range(1, 7)]
    topics.write(source, rows, keys=[json.dumps({"id": row["id"]}).encode() for row in rows])
    columns = "id BIGINT, c BIGINT, a STRING, PRIMARY KEY (id) NOT ENFORCED"
    sql = upsert(jobs, "u", source, columns, scan_bounded_mode="latest-offset")
    sql += upsert(jobs, "o", target, "c BIGINT, a STRING, PRIMARY KEY (c) NOT ENFORCED", **exactly(target))
    sql += upsert(
        jobs, "l", lists, "c BIGINT, every STRING, first STRING, PRIMARY KEY (c) NOT ENFORCED", **exactly(target)
    )
    sql += """EXECUTE STATEMENT SET BEGIN
      INSERT INTO o SELECT c, a FROM u;
      INSERT INTO l SELECT c, LISTAGG(a), FIRST_VALUE(a) FROM u GROUP BY c;
    END;"""
    jobs.run(sql)

    assert messages(topics.read(target))[-1] == ({"c": 1}, {"c": 1, "a": "a6"})
    assert messages(topics.read(lists))[-1] == ({"c": 1}, {"c": 1, "every": "a1,a2,a3,a4,a5,a6", "first": "a1"})


def test_a_copy_of_a_table_keeps_its_rows_and_deletions_without_state(jobs, topics, topic):
    source, target = topic(partitions=3), topic(partitions=2)
    written = [(RowKind.INSERT, number, f"n{number}") for number in range(20)]
    deleted = [(RowKind.DELETE, number, None) for number in range(5)]
    made = changes(*written, *deleted) + upsert(jobs, "t", source) + "INSERT INTO t SELECT * FROM given;"
    jobs.run(made, "make")

    sql = upsert(jobs, "given", source, scan_bounded_mode="latest-offset") + upsert(
        jobs, "t", target, **exactly(target)
    )
    result = jobs.run(sql + "INSERT INTO t SELECT * FROM given;", "copy")

    found = topics.read(target)
    assert len(found) == result.progress.records_out == 25
    assert table(found) == {number: f"n{number}" for number in range(5, 20)}


def test_a_row_without_a_key_is_refused_by_its_column(jobs, topics, topic):
    source = topic(partitions=1)
    topics.write(source, [{"id": 1, "name": "one"}, {"name": "none"}])
    sql = jobs.bounded("given", "id BIGINT, name STRING", source) + upsert(jobs, "t", topic())
    with pytest.raises(RecordError, match="column 'id' of table 't' is NOT NULL") as raised:
        jobs.run(sql + "INSERT INTO t SELECT * FROM given;")
    assert (raised.value.topic, raised.value.offset) == (source, 1)


@pytest.mark.parametrize("fmt", [*(pytest.param(each, marks=pytest.mark.slow) for each in ("avro", "csv")), "json"])
def test_keys_of_several_columns_prefixes_and_timestamps_come_back_in_every_format(jobs, topics, topic, fmt):
    shared, at = topic(partitions=1), datetime(2020, 3, 8, 13, 12, 11, 123_000)
    written = [
        (1, "name 1", at, 100, 41, "payload 1"),
        (2, "name 2", at + timedelta(days=1), 101, None, "payload 2"),
        (3, "name 3", at + timedelta(days=2), 102, 43, None),
        (2, "name 2", at + timedelta(days=3), 101, 42, "payload"),
    ]
    columns = "k_user BIGINT, name STRING, at TIMESTAMP(3) {}, k_event BIGINT, user_id INT, payload STRING"
    options = {"key_format": fmt, "value_format": fmt, "key_fields__prefix": "k_", "sink_parallelism": "4"}
    options |= {f"{part}_csv_null__literal": "n/a" for part in ("key", "value") if fmt == "csv"}
    declared = columns.format("METADATA FROM 'timestamp'") + ", PRIMARY KEY (k_event, k_user) NOT ENFORCED"

    def declare(**more: str) -> str:
        return upsert(jobs, "t", shared, declared, value_fields__include="EXCEPT_KEY", **options, **more)

    given = f"'connector' = 'values', 'data-id' = '{values.register(written)}'"
    sql = f"CREATE TABLE given ({columns.format('')}) WITH ({given});"
    jobs.run(sql + declare() + "INSERT INTO t SELECT * FROM given;", "write")
    if fmt == "json":
        assert topics.read(shared)[0].key == b'{"event":100,"user":1}'
        assert list(topics.read(shared)[0].json) == ["name", "user_id", "payload"]

    bounds = {"scan_bounded_mode": "specific-offsets", "scan_bounded_specific__offsets": "partition:0,offset:3"}
    for expected, more in ((written, {"scan_bounded_mode": "latest-offset"}), (written[:3], bounds)):
        values.forget("seen")
        sql = f"CREATE TABLE seen ({columns.format('')}) WITH ('connector' = 'values', 'sink-insert-only' = 'false');"
        jobs.run(declare(**more) + sql + "INSERT INTO seen SELECT * FROM t;", f"read-{len(expected)}")
        rows: dict[tuple[int, int], tuple[Any, ...]] = {}
        for row in values.rows("seen"):
            rows.pop((row.k_user, row.k_event), None)
            if row.get_row_kind() in {RowKind.INSERT, RowKind.UPDATE_AFTER}:
                rows[row.k_user, row.k_event] = tuple(row)
        assert rows == {(row[0], row[3]): row for row in expected}
