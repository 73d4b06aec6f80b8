"""Records that cannot be decoded: kept in a topic of their own, with the reason, in the same transaction."""

from __future__ import annotations

import json

import pytest

from penstock.connectors.kafka.dead_letters import HEADERS
from penstock.engine.runs import query
from penstock.errors import KafkaError, RecordError

COLUMNS = "id INT, name STRING"
BAD = {7: b'{"id": 7, "na', 11: b'{"id": "eleven", "name": "n"}', 40: b"[1, 2]", 59: b"no json"}


def fill(topics, source, count=60):
    values = [BAD.get(i, json.dumps({"id": i, "name": f"n{i}"}).encode()) for i in range(count)]
    topics.write(source, values, keys=[f"k{i}".encode() for i in range(count)])


def script(jobs, source, sinks, dead, insert="SELECT id, name FROM s", guarantee="exactly-once", **options):
    text = jobs.bounded("s", COLUMNS, source, scan_dead__letter_topic=dead, **options)
    for i, sink in enumerate(sinks):
        if guarantee == "exactly-once":
            text += jobs.exactly_once(f"t{i}", COLUMNS, sink, sink_transactional__id__prefix=f"tx-{source}")
        else:
            text += jobs.table(f"t{i}", COLUMNS, sink)
    inserts = "".join(f"INSERT INTO t{i} {insert};\n" for i in range(len(sinks)))
    return text + (f"EXECUTE STATEMENT SET BEGIN {inserts} END;" if len(sinks) > 1 else inserts)


def reasons(message):
    """The headers of a dead letter that say where it came from and why."""
    return {key: value.decode() for key, value in message.headers if key in HEADERS}


def ids(topics, topic):
    return sorted(message.json["id"] for message in topics.read(topic))


GOOD = [i for i in range(60) if i not in BAD]


AS_READ = "SELECT id, name FROM s"
COMPUTED = "SELECT id + 0, name FROM s WHERE name > ''"
AS_DATAFLOW = "SELECT id + 0, UPPER(name) FROM s WHERE EXP(id) IS NOT NULL"


@pytest.mark.parametrize(
    ("insert", "branches", "guarantee"),
    [
        pytest.param(AS_READ, 1, "exactly-once", id="as they are read"),
        pytest.param(AS_READ, 1, "at-least-once", id="as they are read, at least once", marks=pytest.mark.slow),
        pytest.param(COMPUTED, 1, "exactly-once", id="computed where they are read"),
        pytest.param(AS_DATAFLOW, 1, "exactly-once", id="as a dataflow"),
        pytest.param(AS_DATAFLOW, 2, "exactly-once", id="in a statement set", marks=pytest.mark.slow),
    ],
)
def test_bad_records_are_kept_as_they_were_with_the_reason(
    jobs, topics, topic, monkeypatch, insert, branches, guarantee
):
    if insert == AS_DATAFLOW:
        monkeypatch.setattr(query, "plan_reading", lambda *_: None)
    source, dead, sinks = topic(1), topic(1), [topic(2) for _ in range(branches)]
    fill(topics, source)
    result = jobs.run(script(jobs, source, sinks, dead, insert, guarantee, scan_max__records__per__trigger="25"))

    for sink in sinks:
        assert ids(topics, sink) == GOOD
    letters = sorted(topics.read(dead), key=lambda message: int(reasons(message)[HEADERS[2]]))
    assert [(message.key, message.value) for message in letters] == [(f"k{i}".encode(), BAD[i]) for i in BAD]
    given = {message.offset: message for message in topics.read(source)}
    for message, offset in zip(letters, BAD, strict=True):
        told = reasons(message)
        assert list(told) == list(HEADERS)
        assert list(told.values())[:5] == [source, "0", str(offset), "value", "json"]
        assert told[HEADERS[6]]
        assert message.timestamp == given[offset].timestamp
    assert reasons(letters[1])[HEADERS[5]] == "id"
    assert not topics.open_transactions(dead)
    assert result.progress.records_out == len(GOOD) * branches + len(BAD)


@pytest.mark.parametrize("spark", [False, True], ids=["computed where they are read", "through Spark"])
def test_columns_may_be_named_like_those_of_penstock(jobs, topics, topic, monkeypatch, spark):
    if spark:
        monkeypatch.setattr(query, "plan_reading", lambda *_: None)
    names = [f"__{name}" for name in ("partition", "offset", "kind", "dead_letter", "report", "watermark", "hash")]
    source, dead, sinks = topic(1), topic(1), [topic(1), topic(1)]
    rows = [{"id": at, **{name: at + number for number, name in enumerate(names)}} for at in range(5)]
    topics.write(source, [*rows, b"no json"])
    columns = ", ".join(["id INT", *(f"`{name}` INT" for name in names)])
    listed = ", ".join(["id", *(f"`{name}`" for name in names)])
    text = jobs.bounded("s", f"{columns}, at AS PROCTIME()", source, scan_dead__letter_topic=dead)
    for number, sink in enumerate(sinks):
        text += jobs.exactly_once(f"t{number}", columns, sink, sink_transactional__id__prefix=f"tx-{source}")
    first = "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at) AS n FROM s"
    text += f"EXECUTE STATEMENT SET BEGIN INSERT INTO t0 SELECT {listed} FROM s; "
    text += "END;" if spark else f"INSERT INTO t1 SELECT {listed} FROM ({first}) WHERE n = 1; END;"
    jobs.run(text)

    for sink in sinks[: 1 if spark else 2]:
        assert sorted((message.json for message in topics.read(sink)), key=lambda row: row["id"]) == rows
    assert [message.value for message in topics.read(dead)] == [b"no json"]


def test_headers_of_the_record_stand_before_the_reason(jobs, topics, topic, kafka):
    from confluent_kafka import Producer

    source, sink, dead = topic(1), topic(1), topic(1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(source, b"{", headers=[("trace", b"\x00\x01"), ("empty", None), ("trace", b"2")])
    assert producer.flush(60) == 0
    jobs.run(script(jobs, source, [sink], dead))

    (message,) = topics.read(dead)
    assert message.headers[:3] == (("trace", b"\x00\x01"), ("empty", None), ("trace", b"2"))
    assert [key for key, _ in message.headers[3:]] == list(HEADERS)
    assert message.key is None


def test_a_key_that_cannot_be_decoded_makes_a_dead_letter_too(jobs, topics, topic):
    source, sink, dead = topic(1), topic(1), topic(1)
    topics.write(source, [{"name": "a"}, {"name": "b"}, b"{"], keys=[b'{"id": 1}', b"x", b"y"])
    jobs.run(
        script(
            jobs,
            source,
            [sink],
            dead,
            key_format="json",
            key_fields="id",
            value_fields__include="EXCEPT_KEY",
        )
    )

    assert ids(topics, sink) == [1]
    assert [(message.key, reasons(message)[HEADERS[3]]) for message in topics.read(dead)] == [
        (b"x", "key"),
        (b"y", "key"),
    ]


def test_what_parse_errors_make_null_is_no_dead_letter(jobs, topics, topic):
    source, sink, dead = topic(1), topic(1), topic(1)
    fill(topics, source)
    jobs.run(script(jobs, source, [sink], dead, json_ignore__parse__errors="true"))

    assert [message.json["name"] for message in topics.read(sink) if message.json["id"] is None] == ["n"]
    assert [message.value for message in topics.read(dead)] == [BAD[i] for i in (7, 40, 59)]


def test_an_array_gives_its_rows_and_a_dead_letter_for_what_is_none(jobs, topics, topic):
    source, sink, dead = topic(1), topic(1), topic(1)
    array = b'[{"id": 1, "name": "a"}, 5, {"id": 2, "name": "b"}]'
    topics.write(source, [array, {"id": 3, "name": "c"}])
    jobs.run(script(jobs, source, [sink], dead, json_ignore__parse__errors="true"))

    assert ids(topics, sink) == [1, 2, 3]
    assert [message.value for message in topics.read(dead)] == [array]


def test_a_dead_letter_topic_that_does_not_exist_is_named(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    fill(topics, source)
    sql = script(jobs, source, [sink], f"no-{source}", properties_allow_auto_create_topics="false")
    with pytest.raises(KafkaError, match=f"topic 'no-{source}' does not exist"):
        jobs.run(sql)
    assert topics.read(sink) == []


def test_a_batch_that_fails_leaves_no_dead_letters(jobs, topics, topic):
    """The row of record 30 cannot be written, so that the records of its batch, good and bad, are seen by nobody."""
    source, sink, dead = topic(1), topic(1), topic(1)
    fill(topics, source)
    columns = f"{COLUMNS}, `to` STRING NOT NULL METADATA FROM 'topic'"

    def sql(where):
        return (
            jobs.bounded("s", COLUMNS, source, scan_dead__letter_topic=dead, scan_max__records__per__trigger="25")
            + jobs.exactly_once("t", columns, f"{sink};other", sink_transactional__id__prefix=f"tx-{source}")
            + f"INSERT INTO t SELECT id, name, CASE WHEN id = 30 THEN '-' ELSE '{sink}' END FROM s{where};"
        ).replace(f"{sink};other", f"{sink};{dead}")

    with pytest.raises(RecordError):
        jobs.run(sql(""))
    assert [message.value for message in topics.read(dead)] == [BAD[7], BAD[11]]
    assert not topics.open_transactions(dead)
    jobs.run(sql(" WHERE id <> 30"))
    assert ids(topics, sink) == [i for i in GOOD if i != 30]
    assert [message.value for message in topics.read(dead)] == list(BAD.values())


def test_refused_records_are_counted_with_the_source_and_dead_letters_as_a_table(jobs, topics, topic):
    source, sink, dead = topic(1), topic(1), topic(1)
    fill(topics, source)
    running = jobs.start(script(jobs, source, [sink], dead))
    while not running.wait(timeout=60):
        pass
    running.stop()
    assert running.metrics["operator.s.numRecordsInErrors"] == len(BAD)
    assert running.metrics["operator.s.dead-letters.numRecordsOut"] == len(BAD)
    assert running.metrics["operator.t0.numRecordsOut"] == len(GOOD)


WINDOWS = """INSERT INTO t0 SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR({}), INTERVAL '1' MINUTE))
  GROUP BY window_start, window_end;"""


def timed(jobs, source, target, insert, **options):
    columns = "id INT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), at AS TO_TIMESTAMP(CAST(ms AS STRING)), "
    columns += "WATERMARK FOR {0} AS {0}".format("at" if "(at)" in insert else "ts")
    return jobs.bounded("s", columns, source, **options) + jobs.table("t0", "n BIGINT", target) + insert


def test_a_record_without_an_event_time_is_kept_or_named(jobs, topics, topic):
    source, dead, target = topic(1), topic(1), topic(1)
    topics.write(source, [{"id": 1, "ms": 1000}, {"id": 2, "ms": None}, {"id": 3, "ms": 2000}])
    insert = WINDOWS.format("ts")

    with pytest.raises(RecordError, match=f"topic '{source}', partition 0, offset 1: .*the row has no event time"):
        jobs.run(timed(jobs, source, target, insert), "named")
    with pytest.raises(RecordError, match=f"topic '{source}', partition 0, offset 0: .*the row has no event time"):
        jobs.run(timed(jobs, source, target, WINDOWS.format("at")), "computed")
    jobs.run(timed(jobs, source, target, insert, scan_dead__letter_topic=dead), "kept")
    assert [(message.json["id"], reasons(message)[HEADERS[2]]) for message in topics.read(dead)] == [(2, "1")]
    late = jobs.run("SET 'penstock.null-event-time' = 'late';\n" + timed(jobs, source, target, insert), "late")
    assert [each.late for each in late.progress.steps.values()] == [1]
    assert [message.json["n"] for message in topics.read(target)] == [2, 2]
