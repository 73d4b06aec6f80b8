"""What a job says about where its sources start, and a start in the middle by the offsets of another job."""

from __future__ import annotations

import pytest

from penstock import engine
from penstock.cli.run import _explain_nothing_read
from penstock.connectors import values
from penstock.errors import RecordError
from penstock.types import RowKind

NOW = "SET 'penstock.available-now' = 'true';\n"


def run(jobs, sql, name):
    """The result of a job, and what it said."""
    said: list[str] = []
    return engine.run(jobs.parse(NOW + sql, name), jobs.warnings.append, said.append), said


def test_a_start_at_the_offsets_of_another_job_is_told(jobs, topics, topic):
    source, target = topic(), topic()
    topics.write(source, [{"id": number} for number in range(8)])
    copy = jobs.table("copies", "id BIGINT", target) + "INSERT INTO copies SELECT * FROM orders;"
    first = jobs.table("orders", "id BIGINT", source, scan_startup_mode="earliest-offset") + copy
    second = jobs.table("orders", "id BIGINT", source) + copy

    result, said = run(jobs, first, "dbz")
    assert (result.progress.records_in, result.continued) == (8, False)
    assert said == [
        f"job 'dbz': table 'orders' starts at the earliest offsets, by 'scan.startup.mode': {source}-0 at 0"
    ]
    _, said = run(jobs, first, "dbz")
    assert said == [f"job 'dbz': table 'orders' continues from the checkpoint: {source}-0 at 8"]
    assert jobs.warnings == []

    result, said = run(jobs, second, "other")
    assert (result.progress.records_in, result.continued) == (0, False)
    place = "at the offsets of group 'KafkaSource-orders', which job 'dbz' committed"
    assert said == [f"job 'other': table 'orders' starts {place}: {source}-0 at 8"]
    (warning,) = jobs.warnings
    assert "table 'orders' starts where job 'dbz' left off" in warning
    assert "checkpoint" not in _explain_nothing_read(jobs.parse(second, "other"), result).split(";")[0]


def test_a_group_s_offsets_in_a_transaction_name_the_job_too(jobs, topics, topic):
    source, target = topic(), topic()
    topics.write_ids(source, 3)
    run(jobs, jobs.copy(source, target), "exact")
    sql = jobs.table("s", "id BIGINT", source) + jobs.table("t", "id BIGINT", target) + "INSERT INTO t SELECT * FROM s;"
    _, said = run(jobs, sql, "other")
    assert f"'KafkaSource-s', which job 'exact' committed: {source}-0 at 3" in said[0]


def test_other_tables_begin_at_their_beginning(jobs):
    data_id = values.register([(1,)])
    sql = f"CREATE TABLE v (id INT) WITH ('connector' = 'values', 'data-id' = '{data_id}');\n"
    sql += "CREATE TABLE p (id INT) WITH ('connector' = 'print');\nINSERT INTO p SELECT * FROM v;"
    assert run(jobs, sql, "values")[1] == ["job 'values': table 'v' starts at its beginning"]
    assert run(jobs, sql, "values")[1] == ["job 'values': table 'v' continues from the checkpoint"]


def test_a_key_that_is_not_there_does_not_count_as_one(jobs, topics, topic):
    source = topic()
    topics.write(source, [{"v": 1}, {"v": 2}], keys=[b"kk", None])
    columns = "v INT, k STRING {} METADATA FROM '__raw_key__' VIRTUAL"
    out = "CREATE TABLE out (k BIGINT, n BIGINT) WITH ('connector' = 'values', 'sink-insert-only' = 'false');\n"
    insert = "INSERT INTO out SELECT COUNT(k), COUNT(*) FROM s;"
    nullable, sure = (jobs.bounded("s", columns.format(each), source) + out + insert for each in ("", "NOT NULL"))
    jobs.run(nullable, "nullable")
    assert [tuple(row) for row in values.rows("out") if row.get_row_kind() is not RowKind.UPDATE_BEFORE][-1] == (1, 2)
    with pytest.raises(RecordError, match="offset 1: field 'k'"):
        jobs.run(sure, "sure")
