"""Whole jobs: what is written is what was read, computed."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from penstock.formats.protobuf.definition import Definition
from tests.scans import delete

ROWS = [{"id": i, "name": f"n{i % 7}", "amount": i / 4} for i in range(2000)]
COLUMNS = "id BIGINT, name STRING, amount DOUBLE"


@pytest.mark.parametrize("guarantee", ["none", "at-least-once", "exactly-once"])
def test_a_bounded_job_copies_every_record(jobs, topics, topic, guarantee):
    source, sink = topic(3), topic(3)
    topics.write(source, ROWS)
    result = jobs.run(
        jobs.bounded("s", COLUMNS, source)
        + jobs.table(
            "t", COLUMNS, sink, sink_delivery__guarantee=guarantee, sink_transactional__id__prefix=f"tx-{sink}"
        )
        + "INSERT INTO t SELECT * FROM s;"
    )
    assert sorted((message.json for message in topics.read(sink)), key=lambda row: row["id"]) == ROWS
    assert result.progress.records_in == result.progress.records_out == len(ROWS)
    assert not result.stopped


@pytest.mark.parametrize("guarantee", ["none", pytest.param("at-least-once", marks=pytest.mark.slow)])
def test_everything_is_there_when_the_process_ends_as_soon_as_the_job_has(jobs, topics, topic, guarantee):
    source, sink = topic(3), topic(3)
    topics.write(source, ROWS * 10)
    sql = (
        f"SET 'execution.checkpointing.dir' = '{jobs.folder}';\n"
        + jobs.bounded("s", COLUMNS, source)
        + jobs.table("t", COLUMNS, sink, sink_delivery__guarantee=guarantee)
        + "INSERT INTO t SELECT * FROM s;"
    )
    script = (
        "import os, sys\n"
        "from penstock import engine\n"
        "from penstock.sql import parse_script\n"
        "(job,) = parse_script(sys.argv[1], file='job.sql', default_name='job').jobs\n"
        "engine.run(job)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, sql], check=True, timeout=300)
    assert len(topics.read(sink)) == len(ROWS) * 10


def test_filters_and_projections_are_applied(jobs, topics, topic):
    source, sink = topic(2), topic(1)
    topics.write(source, ROWS)
    jobs.run(
        jobs.bounded("s", COLUMNS, source)
        + jobs.table("t", "label STRING, twice BIGINT", sink)
        + "INSERT INTO t SELECT UPPER(name), id * 2 FROM s WHERE amount > 490 AND MOD(id, 2) = 0;"
    )
    wanted = {(row["name"].upper(), row["id"] * 2) for row in ROWS if row["amount"] > 490 and row["id"] % 2 == 0}
    assert {(each.json["label"], each.json["twice"]) for each in topics.read(sink)} == wanted


@pytest.mark.rule("one query per job")
def test_a_statement_set_reads_once_and_evaluates_each_branch_alone(jobs, topics, topic):
    """The division fails for id 0, which its branch leaves out: it must not be computed for the other branch's row."""
    source, small, rest = topic(2), topic(1), topic(1)
    topics.write(source, ROWS)
    result = jobs.run(
        jobs.bounded("s", COLUMNS, source)
        + jobs.exactly_once("small", "id BIGINT", small, sink_transactional__id__prefix=f"tx-{source}")
        + jobs.exactly_once("rest", "share BIGINT", rest, sink_transactional__id__prefix=f"tx-{source}")
        + """EXECUTE STATEMENT SET BEGIN
          INSERT INTO small SELECT id FROM s WHERE id < 5;
          INSERT INTO rest SELECT 100000 / id FROM s WHERE id > 0;
        END;"""
    )
    assert result.progress.records_in == len(ROWS)
    assert sorted(message.json["id"] for message in topics.read(small)) == [0, 1, 2, 3, 4]
    assert sorted(each.json["share"] for each in topics.read(rest)) == sorted(100000 // i for i in range(1, 2000))


def test_keys_metadata_and_headers_go_through(jobs, topics, topic):
    source, sink = topic(3), topic(3)
    topics.write(source, ROWS[:50], keys=[f"k{i}" for i in range(50)])
    jobs.run(
        jobs.bounded(
            "s",
            "k STRING, id BIGINT, p INT METADATA FROM 'partition' VIRTUAL, o INT METADATA FROM 'offset' VIRTUAL, "
            "at TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, kind STRING METADATA FROM 'timestamp-type' VIRTUAL",
            source,
            key_format="raw",
            key_fields="k",
            value_fields__include="EXCEPT_KEY",
        )
        + jobs.table(
            "t",
            "k STRING, id BIGINT, p INT, o INT, kind STRING, h MAP<STRING, BYTES> METADATA FROM 'headers'",
            sink,
            key_format="raw",
            key_fields="k",
            value_fields__include="EXCEPT_KEY",
        )
        + "INSERT INTO t (k, id, p, o, kind) SELECT k, id, p, o, kind FROM s;"
    )
    there = {message.key: (message.partition, message.offset) for message in topics.read(source)}
    written = topics.read(sink)
    assert len(written) == 50
    for message in written:
        assert message.json["kind"] == "CreateTime"
        assert (message.json["p"], message.json["o"]) == there[message.key]
        # librdkafka's consistent_random is not murmur2; ours must agree with Java's partitioner.
        assert message.headers == ()


def test_raw_keys_values_and_timestamps_are_copied_as_they_are(jobs, topics, topic):
    """As Flink's documentation declares them: STRING and VIRTUAL, on the source and on the sink."""

    source, sink = topic(2), topic(2)
    values = [b'{"no": json', "né".encode(), b"", b"x"]
    topics.write(source, values, keys=[b"k1", None, b"", b"k2"])
    raw = (
        "k STRING METADATA FROM '__raw_key__' VIRTUAL, v STRING METADATA FROM '__raw_value__' VIRTUAL, "
        "ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL"
    )
    places = "`offset` INT NOT NULL METADATA, part BIGINT NOT NULL METADATA FROM 'partition'"
    jobs.run(
        jobs.bounded("s", f"id STRING, {raw}, {places}", source, format="raw")
        + jobs.table("t", f"{raw}, h MAP<STRING, BYTES> METADATA FROM 'headers'", sink)
        + "INSERT INTO t (k, v, ts, h) SELECT k, v, ts, MAP['at', CAST(CAST(part AS STRING) || '-' || "
        "CAST(`offset` AS STRING) AS BYTES)] FROM s;"
    )
    before = {
        f"{message.partition}-{message.offset}".encode(): (message.key, message.value)
        for message in topics.read(source)
    }
    assert {message.headers[0][1]: (message.key, message.value) for message in topics.read(sink)} == before
    assert len(before) == 4


def test_metadata_is_cast_as_sql_casts(jobs, topics, topic):
    """On the way in and on the way out, where a local time is one of the session's zone."""
    source, sink = topic(2), topic(1)
    for partition in (0, 1):
        topics.write(source, [{"id": partition}], partition=partition)
    jobs.run(
        "SET 'table.local-time-zone' = 'Asia/Tokyo';"
        + jobs.bounded(
            "s",
            "id INT, used BOOLEAN METADATA FROM 'partition', start VARCHAR(4) METADATA FROM 'topic', "
            "at STRING METADATA FROM 'timestamp'",
            source,
        )
        + jobs.table(
            "t", "id INT, used BOOLEAN, start STRING, at STRING, ts TIMESTAMP(3) METADATA FROM 'timestamp'", sink
        )
        + "INSERT INTO t SELECT id, used, start, at, CAST(at AS TIMESTAMP(3)) FROM s;"
    )
    times = {message.json["id"]: message.timestamp for message in topics.read(source)}
    written = topics.read(sink)

    assert sorted((each.json["id"], each.json["used"]) for each in written) == [(0, False), (1, True)]
    assert {each.json["start"] for each in written} == {source[:4]}
    for message in written:
        assert message.timestamp == times[message.json["id"]]
        there = datetime.fromtimestamp(message.timestamp / 1000, ZoneInfo("Asia/Tokyo"))
        assert message.json["at"] == f"{there:%Y-%m-%d %H:%M:%S}.{message.timestamp % 1000:03d}"


def test_avro_is_read_by_one_schema_and_written_by_another(jobs, topics, topic):
    def record(*fields):
        return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}

    def written(schema, value):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
        return out.getvalue()

    item = {**record(("sku", "string"), ("amount", ["null", "int"])), "name": "Item"}
    there = record(
        ("id", "int"),
        ("more", "string"),
        ("items", {"type": "array", "items": item}),
        ("tags", ["null", {"type": "map", "values": "string"}]),
    )
    here = record(
        ("tags", ["null", {"type": "map", "values": ["null", "string"]}]),
        ("id", "long"),
        ("items", there["fields"][2]["type"]),
    )
    rows = [
        {"id": i, "items": [{"sku": f"s{i}", "amount": i}] * (i % 3), "tags": {"k": str(i)} if i % 2 else None}
        for i in range(50)
    ]
    source, sink = topic(2), topic(2)
    topics.write(source, [written(there, {**row, "more": "x"}) for row in rows])
    items = "ARRAY<ROW<sku STRING NOT NULL, amount INT> NOT NULL>"
    columns = f"id BIGINT NOT NULL, items {items} NOT NULL, tags MAP<STRING, STRING>"
    jobs.run(
        jobs.bounded("s", columns, source, format="avro", avro_schema=json.dumps(there))
        + jobs.exactly_once("t", columns, sink, format="avro", avro_schema=json.dumps(here))
        + "INSERT INTO t SELECT * FROM s;"
    )
    parsed = fastavro.parse_schema(here)
    found = [fastavro.schemaless_reader(io.BytesIO(message.value), parsed, None) for message in topics.read(sink)]
    assert sorted(found, key=lambda row: row["id"]) == rows


def test_protobuf_keys_and_values_are_read_and_written(jobs, topics, topic, tmp_path):
    file = tmp_path / "orders.proto"
    file.write_text(
        'syntax = "proto3"; package p; message Key { int64 id = 1; } message Item { string sku = 1; int32 amount = 2; }'
        "message Order { int64 id = 1; repeated Item items = 2; map<string, string> tags = 3; "
        "optional string note = 4; }"
    )
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(Definition.load("p.Order", None, str(file), ()).files).file:
        pool.Add(each)
    key, order = (GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("p.Key", "p.Order"))
    rows = [
        {
            "id": i,
            "items": [{"sku": f"s{n}", "amount": n} for n in range(i % 3)],
            "tags": {"k": str(i)} if i % 2 else {},
            **({"note": ""} if i % 5 else {}),
        }
        for i in range(50)
    ]
    source, sink = topic(2), topic(2)
    topics.write(
        source,
        [order(**row).SerializeToString() for row in rows],
        keys=[key(id=i).SerializeToString() for i in range(50)],
    )
    options = {"value_format": "protobuf", "value_protobuf_message__class__name": "p.Order"}
    options |= {"key_format": "protobuf", "key_protobuf_message__class__name": "p.Orders$Key"}
    options |= {f"{side}_protobuf_proto__file": str(file) for side in ("key", "value")}
    options |= {"key_fields": "k_id", "key_fields__prefix": "k_", "value_fields__include": "EXCEPT_KEY"}
    columns = "k_id BIGINT, id BIGINT, items ARRAY<ROW<sku STRING, amount INT>>, tags MAP<STRING, STRING>, note STRING"
    jobs.run(
        jobs.bounded("s", columns, source, **options)
        + jobs.exactly_once("t", columns, sink, **options)
        + "INSERT INTO t SELECT * FROM s;"
    )
    found = [(key.FromString(message.key).id, order.FromString(message.value)) for message in topics.read(sink)]
    assert sorted(found, key=lambda pair: pair[0]) == [(row["id"], order(**row)) for row in rows]


def test_every_metadata_column_is_read_in_another_type_and_every_writable_one_is_written(jobs, topics, topic):
    """The columns' own types can be cast to these; offset and partition have those of Flink's documentation."""
    from confluent_kafka import Producer

    created, appended = topic(2), topic(1, configs={"message.timestamp.type": "LogAppendTime"})
    one, two, sink = topic(1), topic(1), topic(1)
    marks = [("a", b"1"), ("b", None), ("a", "é".encode())]
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    producer.produce(created, b'{"n": 1}', b"k1", partition=1, timestamp=1_600_000_000_123, headers=marks)
    producer.produce(created, b'{"n": 2}', partition=0, timestamp=1_600_000_001_000)
    producer.produce(appended, b'{"n": 3}', b"k3", timestamp=1_600_000_002_000, headers=[("c", b"")])
    assert producer.flush(60) == 0
    before = {message.json["n"]: message for name in (created, appended) for message in topics.read(name)}
    jobs.run(
        "SET 'table.local-time-zone' = 'UTC';\n"
        + jobs.bounded(
            "s",
            "n BIGINT, name VARCHAR(200) NOT NULL METADATA FROM 'topic' VIRTUAL, "
            "`partition` BIGINT METADATA VIRTUAL, `offset` INT METADATA VIRTUAL, "
            "epoch STRING METADATA FROM 'leader-epoch' VIRTUAL, at TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, "
            "ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, "
            "kind STRING METADATA FROM 'timestamp-type' VIRTUAL, headers MAP<STRING, STRING> METADATA VIRTUAL, "
            "list ARRAY<ROW<`key` STRING, `value` BYTES>> METADATA FROM 'header-list' VIRTUAL, "
            "k STRING METADATA FROM '__raw_key__' VIRTUAL, v STRING METADATA FROM '__raw_value__' VIRTUAL",
            f"{created};{appended}",
        )
        + jobs.table(
            "t",
            "n BIGINT, name STRING, `partition` BIGINT, `offset` INT, epoch STRING, at TIMESTAMP(3), kind STRING, "
            "headers MAP<STRING, STRING>, k STRING, v STRING",
            sink,
        )
        + jobs.table(
            "u",
            "n BIGINT, target STRING METADATA FROM 'topic', ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
            "list ARRAY<ROW<`key` STRING, `value` BYTES>> METADATA FROM 'header-list'",
            f"{one};{two}",
        )
        + "EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO t SELECT n, name, `partition`, `offset`, epoch, at, kind, headers, k, v FROM s; "
        f"INSERT INTO u SELECT n, CASE WHEN n = 2 THEN '{two}' ELSE '{one}' END, ts, list FROM s; END;"
    )
    read = {message.json["n"]: message.json for message in topics.read(sink)}
    common = {"offset": 0, "epoch": "0"}
    assert read == {
        1: {
            **common,
            "n": 1,
            "name": created,
            "partition": 1,
            "at": "2020-09-13 12:26:40.123",
            "kind": "CreateTime",
            "headers": {"a": "é", "b": None},  # of one key the last counts
            "k": "k1",
            "v": '{"n": 1}',
        },
        2: {
            **common,
            "n": 2,
            "name": created,
            "partition": 0,
            "at": "2020-09-13 12:26:41",
            "kind": "CreateTime",
            "headers": {},
            "k": None,
            "v": '{"n": 2}',
        },
        3: {
            **common,
            "n": 3,
            "name": appended,
            "partition": 0,
            "at": read[3]["at"],
            "kind": "LogAppendTime",
            "headers": {"c": ""},
            "k": "k3",
            "v": '{"n": 3}',
        },
    }
    assert before[3].timestamp > 1_700_000_000_000  # as the broker has put it, whatever the producer said
    written = {name: {message.json["n"]: message for message in topics.read(name)} for name in (one, two)}
    assert {name: sorted(found) for name, found in written.items()} == {one: [1, 3], two: [2]}
    for number, message in (written[one] | written[two]).items():
        assert message.timestamp == before[number].timestamp
        assert message.headers == before[number].headers
    assert written[one][1].headers == tuple(marks)


@pytest.mark.parametrize("include", ["ALL", "EXCEPT_KEY"])
def test_keys_in_a_format_of_their_own_are_read_and_written(jobs, topics, topic, include):
    """With ALL the value has the key's columns too, and on reading its own count; without, prefixes may tell them."""
    source, sink = topic(2), topic(1)
    topics.write(source, [{"id": 7, "name": "value"}, {"id": 8}], keys=['{"id": 1, "area": "x"}', '{"id": 2}'])
    if include == "ALL":
        columns, fields, prefixes = "id BIGINT, area STRING, name STRING", "area;id", {}
        names = "id", "area", "name"
    else:
        columns, fields = "v_id BIGINT, k_id BIGINT, v_name STRING, k_area STRING", "k_area;k_id"
        prefixes = {"key_fields__prefix": "k_", "value_fields__prefix": "v_"}
        names = "v_id", "k_id", "v_name", "k_area"
    keyed = {"key_format": "json", "key_fields": fields, "value_fields__include": include, **prefixes}
    jobs.run(
        jobs.bounded("s", columns, source, **keyed)
        + jobs.table("t", columns, sink, **keyed)
        + f"INSERT INTO t SELECT {', '.join(names)} FROM s;"
    )
    found = sorted((message.key, message.value) for message in topics.read(sink))
    if include == "ALL":
        assert found == [
            (b'{"area":null,"id":7}', b'{"id":7,"area":null,"name":"value"}'),
            (b'{"area":null,"id":8}', b'{"id":8,"area":null,"name":null}'),
        ]
    else:
        assert found == [
            (b'{"area":"x","id":1}', b'{"id":7,"name":"value"}'),
            (b'{"area":null,"id":2}', b'{"id":8,"name":null}'),
        ]


def test_an_empty_topic_ends_at_once(jobs, topics, topic):
    source, sink = topic(2), topic(1)
    result = jobs.run(
        jobs.bounded("s", COLUMNS, source) + jobs.exactly_once("t", COLUMNS, sink) + "INSERT INTO t SELECT * FROM s;"
    )
    assert result.progress.records_in == 0
    assert topics.read(sink) == []


@pytest.mark.parametrize(
    "time", ["", ", ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts"], ids=["without event time", "with event time"]
)
def test_a_bounded_job_has_finished_at_the_ends_of_its_sources_whatever_is_left_there(
    jobs, kafka_admin, topics, topic, time
):
    """That is how it is told from one whose query somebody has stopped."""
    source, sink = topic(2), topic(1)
    table = jobs.bounded("s", f"id BIGINT{time}", source, scan_max__records__per__trigger="3")
    insert = jobs.exactly_once("t", "id BIGINT", sink) + "INSERT INTO t SELECT id FROM s;"

    def read(name, scan=table):
        result = jobs.run(scan + insert, name)
        assert not result.stopped
        return result.progress.records_in

    assert read("unmatched", table.replace(f"'topic' = '{source}'", "'topic-pattern' = 'no such topic'")) == 0
    assert read("empty") == 0
    topics.write(source, [{"id": i, "ts": "2026-11-22 10:00:00Z"} for i in range(10)])
    assert [read("full"), read("full")] == [10, 0]
    topics.write(source, [{"id": 10, "ts": "2026-11-22 10:00:00Z"}])
    assert [read("empty"), read("full")] == [0, 0]  # stops are those of the first start
    delete(kafka_admin, source)
    assert [read("empty"), read("full")] == [0, 0]
    assert sorted(message.json["id"] for message in topics.read(sink)) == list(range(10))


def test_reading_stops_where_transactions_end(jobs, topics, topic):
    """The last offset before the stop is a control record: it is passed, not waited for."""
    source, middle, sink = topic(1), topic(1), topic(1)
    topics.write(source, ROWS[:10])
    jobs.run(
        jobs.bounded("s", COLUMNS, source) + jobs.exactly_once("t", COLUMNS, middle) + "INSERT INTO t SELECT * FROM s;",
        "first",
    )
    jobs.run(
        jobs.bounded("s", COLUMNS, middle, properties_isolation_level="read_committed")
        + jobs.exactly_once("t", COLUMNS, sink)
        + "INSERT INTO t SELECT * FROM s;",
        "second",
    )
    assert [message.json for message in topics.read(sink)] == ROWS[:10]


def test_offsets_of_the_group_are_committed(jobs, topics, topic, kafka):
    from confluent_kafka import Consumer, TopicPartition

    source, sink = topic(1), topic(1)
    topics.write(source, ROWS[:30])
    for guarantee in ("at-least-once", "exactly-once"):
        group = f"group-{guarantee}-{source}"
        jobs.run(
            jobs.bounded("s", COLUMNS, source, properties_group_id=group)
            + jobs.table(
                "t", COLUMNS, sink, sink_delivery__guarantee=guarantee, sink_transactional__id__prefix=f"tx-{sink}"
            )
            + "INSERT INTO t SELECT * FROM s;",
            guarantee,
        )
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
        (committed,) = consumer.committed([TopicPartition(source, 0)], timeout=60)
        consumer.close()
        assert committed.offset == 30


def test_without_checkpointing_offsets_are_committed_when_the_automatic_is_on(jobs, topics, topic, kafka):
    from dataclasses import replace

    from confluent_kafka import Consumer, TopicPartition

    from penstock import engine

    source, sink = topic(1), topic(1)
    topics.write(source, ROWS[:30])

    def committed(name, checkpointing, **options):
        """What the group has committed after a job of three batches."""
        group = f"group-{name}-{source}"
        job = jobs.parse(
            jobs.bounded(
                "s", COLUMNS, source, properties_group_id=group, scan_max__records__per__trigger="10", **options
            )
            + jobs.table("t", COLUMNS, sink)
            + "INSERT INTO t SELECT * FROM s;",
            name,
        )
        result = engine.run(replace(job, settings=replace(job.settings, checkpointing=checkpointing)))
        assert result.progress.batches == 3
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
        (found,) = consumer.committed([TopicPartition(source, 0)], timeout=60)
        consumer.close()
        return found.offset

    nothing = -1001
    hourly = {"properties_enable_auto_commit": "true", "properties_auto_commit_interval_ms": "3600000"}
    assert committed("off", False) == nothing
    assert committed("asked", False, properties_commit_offsets_on_checkpoint="true") == nothing
    assert committed("automatic", False, **hourly) == 30
    assert committed("on", True, **hourly) == 30
    assert committed("not", True, **hourly, properties_commit_offsets_on_checkpoint="false") == nothing


def test_checkpointing_can_be_off_but_not_with_exactly_once(jobs, topics, topic):
    from dataclasses import replace

    from penstock import engine
    from penstock.errors import OptionsError

    source, sink = topic(1), topic(1)
    topics.write(source, ROWS[:5])
    for guarantee in ("at-least-once", "exactly-once"):
        job = jobs.parse(
            jobs.bounded("s", COLUMNS, source)
            + jobs.table(
                "t", COLUMNS, sink, sink_delivery__guarantee=guarantee, sink_transactional__id__prefix=f"tx-{sink}"
            )
            + "INSERT INTO t SELECT * FROM s;"
        )
        job = replace(job, settings=replace(job.settings, checkpointing=False))
        if guarantee == "exactly-once":
            with pytest.raises(OptionsError, match="needs checkpointing"):
                engine.run(job)
        else:
            engine.run(job)
            engine.run(job)
    assert len(topics.read(sink)) == 10
    assert not jobs.checkpoint().exists()


def test_a_group_that_is_in_use_is_refused_when_asked(jobs, topics, topic, kafka):
    from confluent_kafka import Consumer

    from penstock.errors import KafkaError

    source, sink = topic(1), topic(1)
    topics.write(source, ROWS[:5])
    group = f"group-{source}"
    sql = (
        jobs.bounded("s", COLUMNS, source, properties_group_id=group, scan_check_duplicated_group_id="true")
        + jobs.table("t", COLUMNS, sink)
        + "INSERT INTO t SELECT * FROM s;"
    )
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe([source])
    assert member.poll(60) is not None
    with pytest.raises(KafkaError, match="has 1 member"):
        jobs.run(sql)
    member.close()
    assert jobs.run(sql).progress.records_out == 5


def test_branches_over_python_functions_read_the_source_once_and_call_what_they_share_once(
    jobs, topics, topic, tmp_path
):
    """One sink takes rows as they are, two share a function that makes two rows of one, one has a function above it."""
    from penstock import engine
    from penstock.plan.nodes import Job, MapRows

    source, sinks, calls = topic(1), [topic(1) for _ in range(4)], tmp_path / "calls"
    calls.touch()
    topics.write(source, ROWS[:20])
    tables = [
        jobs.exactly_once(f"t{number}", COLUMNS, name, sink_transactional__id__prefix=f"tx-{source}")
        for number, name in enumerate(sinks)
    ]
    wheres = ("", "", " WHERE amount < 0", "")
    inserts = "".join(f"INSERT INTO t{number} SELECT * FROM s{where}; " for number, where in enumerate(wheres))
    job = jobs.parse(
        jobs.bounded("s", COLUMNS, source) + "".join(tables) + f"EXECUTE STATEMENT SET BEGIN {inserts} END;"
    )

    def twice(rows):
        for number, name, amount in rows:
            with calls.open("a") as log:
                log.write(".")
            yield number, name, amount
            yield number, name, -amount

    def shouted(rows):
        for number, name, amount in rows:
            yield number, name.upper(), amount

    scan = job.sinks[0].input
    doubled = MapRows(scan.schema, scan, twice)
    negative = job.sinks[2].input.with_inputs((doubled,))
    branches = (scan, doubled, negative, MapRows(scan.schema, negative, shouted))
    wired = tuple(sink.with_inputs((branch,)) for sink, branch in zip(job.sinks, branches, strict=True))
    done = engine.run(Job(job.name, wired, job.settings))
    assert done.progress.records_in == 20
    assert len(calls.read_text()) == 20
    rows = ROWS[:20]
    negated = [{**row, "amount": -row["amount"]} for row in rows]
    written = [[message.json for message in topics.read(name)] for name in sinks]
    assert written[0] == rows
    assert written[1] == [each for pair in zip(rows, negated, strict=True) for each in pair]
    assert written[2] == [each for each in negated if each["amount"] < 0]
    assert written[3] == [{**each, "name": each["name"].upper()} for each in written[2]]


def test_changes_of_rows_go_from_one_format_to_another(jobs, topics, topic, capfd):
    """Debezium's updates become deletions and insertions for Canal, as with Flink; what is computed keeps its kind."""
    source, sink = topic(1), topic(1)
    columns = "id INT, name STRING, db STRING METADATA FROM 'value.source.database' VIRTUAL"

    def change(op, before, after):
        rows = [None if name is None else {"id": 1, "name": name} for name in (before, after)]
        return {"before": rows[0], "after": rows[1], "op": op, "source": {"db": "shop", "table": "items"}, "ts_ms": 1}

    topics.write(source, [change("c", None, "a"), change("u", "a", "b"), b"", change("d", "b", None)])
    jobs.run(
        jobs.bounded("s", columns, source, format="debezium-json")
        + jobs.exactly_once("t", "id INT, name STRING", sink, format="canal-json")
        + "CREATE TABLE seen (name STRING, db STRING) "
        "WITH ('connector' = 'print', 'sink.delivery-guarantee' = 'at-least-once');"
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id, UPPER(name) FROM s; "
        "INSERT INTO seen SELECT name, db FROM s; END;"
    )
    written = [message.json for message in topics.read(sink)]
    assert [(each["type"], each["data"]) for each in written] == [
        (kind, [{"id": 1, "name": name}])
        for kind, name in (("INSERT", "A"), ("DELETE", "A"), ("INSERT", "B"), ("DELETE", "B"))
    ]
    printed = [line for line in capfd.readouterr().out.splitlines() if line[2:3] == "["]
    assert printed == ["+I[a, shop]", "-U[a, shop]", "+U[b, shop]", "-D[b, shop]"]
