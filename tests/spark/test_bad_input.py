"""Bad definitions, records and checkpoints: one clear error, nothing lost, and the job goes on when it is repaired.

Jobs read in small batches, so that some are committed before the bad one fails.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest

from penstock.errors import (
    CheckpointError,
    ExecutionError,
    KafkaError,
    OptionsError,
    PenstockError,
    PossibleDataLossError,
    RecordError,
    SchemaError,
)
from tests.scans import delete_below, recreate
from tests.waiting import while_running

COLUMNS = "id INT, name STRING"
BATCH = "40"
#: For the failure of a job, in seconds.
PATIENCE = 120
#: Records in each of the two partitions of :func:`spoiled`.
COUNT = 60
BAD_PARTITION, BAD_OFFSET = 1, 37


def rows(start, stop):
    return [{"id": i, "name": f"n{i}"} for i in range(start, stop)]


def copy(jobs, source, sink, *, bounded=True, **options):
    table = jobs.bounded if bounded else jobs.table
    return (
        table("s", COLUMNS, source, scan_max__records__per__trigger=BATCH, **options)
        + jobs.exactly_once("t", COLUMNS, sink, properties_allow_auto_create_topics="false")
        + "INSERT INTO t SELECT * FROM s;"
    )


def from_the_start(jobs, source, sink):
    """An unbounded copy."""
    return copy(jobs, source, sink, bounded=False, scan_startup_mode="earliest-offset")


# --- definitions ---------------------------------------------------------------------------------------------


def test_an_unknown_option_is_named_with_its_place(jobs):
    sql = jobs.bounded("s", COLUMNS, "orders").replace("'scan.startup.mode'", "\n  'scan.startup.mod'")
    with pytest.raises(OptionsError) as raised:
        jobs.parse(sql + jobs.table("t", COLUMNS, "copies") + "INSERT INTO t SELECT * FROM s;")
    (problem,) = raised.value.problems
    assert problem.key == "scan.startup.mod"
    assert "job.sql, line 4, column 3" in problem.where
    assert problem.hint == "did you mean 'scan.startup.mode'?"


def test_inserting_text_into_a_number_is_refused_before_anything_runs(jobs):
    sql = jobs.bounded("s", "name STRING", "orders") + jobs.table("t", "id INT", "copies")
    with pytest.raises(SchemaError) as raised:
        jobs.parse(sql + "INSERT INTO t\nSELECT name FROM s;")
    (problem,) = raised.value.problems
    assert "job.sql, line 6, column 8" in problem.where
    assert all(word in str(problem) for word in ("id", "INT", "STRING"))


# --- brokers and topics --------------------------------------------------------------------------------------


def test_an_unreachable_broker_is_named(jobs):
    sql = jobs.bounded(
        "s",
        COLUMNS,
        "orders",
        properties_bootstrap_servers="localhost:1",
        properties_default_api_timeout_ms="2000",
    ) + jobs.table("t", COLUMNS, "copies")
    with pytest.raises(KafkaError) as raised:
        jobs.run(sql + "INSERT INTO t SELECT * FROM s;")
    assert "localhost:1" in str(raised.value)
    assert "bootstrap.servers" in str(raised.value)


@pytest.mark.parametrize("missing", ["source", "sink"])
def test_a_missing_topic_is_named_and_can_be_made_afterwards(jobs, topics, topic, kafka_admin, missing):
    there, absent = topic(2), f"absent-{uuid.uuid4().hex[:8]}"
    source, sink = (absent, there) if missing == "source" else (there, absent)
    if missing == "sink":
        topics.write(source, rows(0, 50))
    sql = copy(jobs, source, sink)
    with pytest.raises(KafkaError, match=f"topic '{absent}' does not exist on .*create it"):
        jobs.run(sql)
    kafka_admin.create_topics({absent: {"num_partitions": 2, "replication_factor": 1}})
    kafka_admin.wait_for_topics([absent], 60_000)
    if missing == "source":
        topics.write(source, rows(0, 50))
    jobs.run(sql)
    assert topics.read_ids(sink) == list(range(50))


def test_without_committed_offsets_a_start_has_to_be_chosen(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, rows(0, 20))
    options = {"scan_startup_mode": "group-offsets", "properties_group_id": f"group-{source}"}
    with pytest.raises(KafkaError) as raised:
        jobs.run(copy(jobs, source, sink, **options))
    for named in ("table 's'", f"group 'group-{source}'", f"topic '{source}', partition 0", "auto.offset.reset"):
        assert named in str(raised.value)
    jobs.run(copy(jobs, source, sink, **options, properties_auto_offset_reset="earliest"))
    assert topics.read_ids(sink) == list(range(20))


def test_a_topic_that_the_sink_may_not_write_is_refused_with_the_row(jobs, topics, topic):
    source, one, two = topic(1), topic(1), topic(1)
    goods = [{"id": i, "to": (one, two)[i % 2]} for i in range(50)]
    topics.write(source, [*goods[:45], {"id": -1, "to": "elsewhere"}, *goods[45:]])

    def sql(where):
        return (
            jobs.bounded("s", "id INT, `to` STRING", source, scan_max__records__per__trigger=BATCH)
            + jobs.exactly_once("t", "id INT, `to` STRING NOT NULL METADATA FROM 'topic'", f"{one};{two}").replace(
                f"'tx-{one};{two}'", f"'tx-{one}'"
            )
            + f"INSERT INTO t SELECT id, `to` FROM s{where};"
        )

    with pytest.raises(RecordError) as raised:
        jobs.run(sql(""))
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (source, 0, 45)
    assert "'elsewhere'" in str(raised.value)
    assert f"{one}; {two}" in str(raised.value)
    assert sorted(topics.read_ids(one) + topics.read_ids(two)) == list(range(40))
    assert not topics.open_transactions(one)
    assert not topics.open_transactions(two)
    jobs.run(sql(" WHERE `to` <> 'elsewhere'"))
    assert topics.read_ids(one) == list(range(0, 50, 2))
    assert topics.read_ids(two) == list(range(1, 50, 2))


# --- records -------------------------------------------------------------------------------------------------


def spoiled(topics, source, render, bad):
    """Fills both partitions of ``source`` with good records and one bad one; returns the ids of the good ones."""
    for partition in range(2):
        values = [render(i) for i in range(partition * COUNT, (partition + 1) * COUNT)]
        if partition == BAD_PARTITION:
            values[BAD_OFFSET] = bad
        topics.write(source, values, partition=partition)
    return [i for i in range(2 * COUNT) if i != BAD_PARTITION * COUNT + BAD_OFFSET]


def as_json(i):
    return json.dumps({"id": i, "name": f"n{i}"}).encode()


def as_csv(i):
    return f"{i},n{i}".encode()


MALFORMED = (("json", as_json, b'{"id": 97, "name": "n', ""), ("csv", as_csv, b'97,"n97', ""))
WRONG_TYPE = (
    ("json", as_json, b'{"id": "ninety-seven", "name": "n97"}', "id"),
    ("csv", as_csv, b"ninety-seven,n97", "id"),
)


@pytest.mark.parametrize(
    ("fmt", "render", "bad", "field", "branches"),
    [
        *(pytest.param(*case, 1, id=f"{case[0]} malformed") for case in MALFORMED),
        *(
            pytest.param(*case, 2, id=f"{case[0]} malformed in a statement set", marks=pytest.mark.slow)
            for case in MALFORMED
        ),
        *(pytest.param(*case, 1, id=f"{case[0]} of a wrong type") for case in WRONG_TYPE),
    ],
)
def test_a_bad_record_stops_the_job_and_loses_nothing(jobs, topics, topic, fmt, render, bad, field, branches):
    source, sinks = topic(2), [topic(2) for _ in range(branches)]
    good = spoiled(topics, source, render, bad)

    def sql(**options):
        text = jobs.bounded("s", COLUMNS, source, scan_max__records__per__trigger=BATCH, format=fmt, **options)
        for i, sink in enumerate(sinks):
            text += jobs.exactly_once(f"t{i}", COLUMNS, sink, sink_transactional__id__prefix=f"tx-{source}")
        inserts = "".join(
            f"INSERT INTO t{i} SELECT * FROM s WHERE MOD(id, {branches}) = {i};\n" for i in range(branches)
        )
        return text + (f"EXECUTE STATEMENT SET BEGIN {inserts} END;" if branches > 1 else inserts)

    with pytest.raises(RecordError) as raised:
        jobs.run(sql())
    error = raised.value
    assert (error.topic, error.partition, error.offset) == (source, BAD_PARTITION, BAD_OFFSET)
    assert (error.format, error.field) == (fmt, field)
    assert f"{fmt}.ignore-parse-errors" in error.hint
    assert "\n" not in str(error)
    before = sorted(i for sink in sinks for i in topics.read_ids(sink))
    assert len(before) % int(BATCH) == 0, "a batch is visible in part"
    assert before
    assert set(before) < set(good)
    assert not any(topics.open_transactions(sink) for sink in sinks)

    jobs.run(sql(**{f"{fmt}_ignore__parse__errors": "true"}))
    for i, sink in enumerate(sinks):
        assert topics.read_ids(sink) == [each for each in good if each % branches == i]
        assert not topics.open_transactions(sink)


def test_a_value_that_an_expression_cannot_take_stops_the_job(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    values = [{"id": i, "name": str(i)} for i in range(50)]
    values[45]["name"] = "forty-five"
    topics.write(source, values)

    def sql(expression):
        return (
            jobs.bounded("s", COLUMNS, source, scan_max__records__per__trigger=BATCH)
            + jobs.exactly_once("t", "id INT, number INT", sink)
            + f"INSERT INTO t SELECT id, {expression} FROM s;"
        )

    with pytest.raises(ExecutionError) as raised:
        jobs.run(sql("CAST(name AS INT)"))
    assert "forty-five" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert topics.read_ids(sink) == list(range(40))
    assert not topics.open_transactions(sink)
    jobs.run(sql("TRY_CAST(name AS INT)"))
    assert [message.json["number"] for message in topics.read(sink)] == [i if i != 45 else None for i in range(50)]


# --- positions that are gone ---------------------------------------------------------------------------------


def test_records_deleted_before_they_were_read_are_told(jobs, topics, topic, kafka_admin):
    source, sink = topic(2), topic(1)
    topics.write(source, rows(0, 30), partition=1)
    sql = from_the_start(jobs, source, sink)
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_out == 30 and jobs.idle())
    running.stop()
    topics.write(source, rows(30, 60), partition=1)
    delete_below(kafka_admin, source, 41, 1)
    with pytest.raises(PossibleDataLossError) as raised:
        jobs.start(sql).wait(PATIENCE)
    for named in (f"topic '{source}'", "partition 1", "30", "41"):
        assert named in str(raised.value)
    assert topics.read_ids(sink) == list(range(30))
    assert not topics.open_transactions(sink)


def test_a_topic_that_was_created_anew_is_noticed_by_its_id(jobs, topics, topic, kafka_admin):
    """The new topic is longer than what was read, so that offsets alone would not tell."""
    source, sink = topic(1), topic(1)
    topics.write(source, rows(0, 30))
    sql = from_the_start(jobs, source, sink)
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_out == 30 and jobs.idle())
    running.stop()
    recreate(kafka_admin, source, 1)
    topics.write(source, rows(100, 200))
    with pytest.raises(PossibleDataLossError, match=f"topic '{source}', partition 0 .*deleted and recreated"):
        jobs.start(sql).wait(PATIENCE)
    assert topics.read_ids(sink) == list(range(30))
    assert not topics.open_transactions(sink)


def test_a_topic_that_is_created_anew_while_it_is_read_is_noticed(jobs, topics, topic, kafka_admin):
    source, sink = topic(1), topic(1)
    topics.write(source, rows(0, 30))
    running = jobs.start(from_the_start(jobs, source, sink))
    while_running(running, lambda: running.progress.records_out == 30 and jobs.idle())
    recreate(kafka_admin, source, 1)
    topics.write(source, rows(100, 200))
    with pytest.raises(PossibleDataLossError, match=f"topic '{source}'"):
        running.wait(PATIENCE)
    assert topics.read_ids(sink) == list(range(30))
    assert not topics.open_transactions(sink)


# --- checkpoints ---------------------------------------------------------------------------------------------


def half(path: Path) -> None:
    """Leaves the first half of a file, as a full disk may."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_positions(path: Path) -> None:
    """Leaves the head of an offset log and no line of positions."""
    path.write_text("\n".join(path.read_text().splitlines()[:2]))


DAMAGES = (
    ("offsets/1", half),
    ("offsets/1", without_positions),
    ("offsets/0", half),
    ("offsets/0", Path.unlink),
    ("commits/0", half),
    ("penstock/source-0.json", half),
    ("penstock/source-0.json", Path.unlink),
    ("penstock/job.json", half),
)


def test_a_damaged_checkpoint_is_refused_and_works_once_it_is_restored(jobs, topics, topic):
    """Batch 0 was committed and batch 1 planned when a file was damaged."""
    source, sink = topic(1), topic(1)
    topics.write(source, [*rows(0, 45), b"{", *rows(45, 60)])
    with pytest.raises(RecordError):
        jobs.run(copy(jobs, source, sink))
    sql = copy(jobs, source, sink, json_ignore__parse__errors="true")
    backup = jobs.folder.with_name("backup")
    shutil.copytree(jobs.checkpoint(), backup)

    answers = {}
    for name, damage in DAMAGES:
        path = jobs.checkpoint() / name
        damage(path)
        with pytest.raises(PenstockError) as raised:
            jobs.run(sql)
        answers[name, damage.__name__] = raised.value
        shutil.rmtree(jobs.checkpoint())
        shutil.copytree(backup, jobs.checkpoint())
    assert topics.read_ids(sink) == list(range(40))
    assert not topics.open_transactions(sink)
    jobs.run(sql)
    assert topics.read_ids(sink) == list(range(60))

    unclear = {
        (name, damage): str(error)
        for (name, damage), error in answers.items()
        if not (
            isinstance(error, CheckpointError) and f"{name}'" in str(error) and str(jobs.checkpoint()) in str(error)
        )
    }
    assert unclear == {}


def test_the_checkpoint_of_another_program_is_refused(jobs, topics, topic):
    from penstock.engine.session import spark_session
    from penstock.settings import Settings

    source, sink = topic(1), topic(1)
    topics.write(source, rows(0, 20))
    spark = spark_session(Settings(), "another")
    query = spark.readStream.format("rate").load().writeStream.format("noop")
    query.option("checkpointLocation", str(jobs.checkpoint())).trigger(availableNow=True).start().awaitTermination()
    with pytest.raises(PenstockError) as raised:
        jobs.run(copy(jobs, source, sink))
    assert isinstance(raised.value, CheckpointError)
    assert str(jobs.checkpoint()) in str(raised.value)
    assert topics.read(sink) == []
