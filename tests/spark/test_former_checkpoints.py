"""Checkpoints and savepoints that commit 73058812 left: jobs continue from them as if they had never been stopped.

``former/record.py`` made them. They have words in capitals for what belongs to a cluster.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter

import pytest

from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.progress.records import Seal
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from tests.spark.former.programs import (
    ARCHIVE,
    READ,
    ROUNDS,
    SOURCES,
    STEPS,
    Database,
    as_bytes,
    generated,
    last_records,
    records,
    steps,
    topic_of,
    two_targets,
)
from tests.spark.kept_checkpoints import publish_progress, replace_words

AVAILABLE_NOW = "SET 'penstock.available-now' = 'true';\n"
#: The jobs that continue with what each job has written.
WRITTEN = {"steps": ("steps", "saved"), "generated": ("generated",), "two_targets": ("two_targets",)}
#: The progress table of that version.
PROGRESS = (
    "CREATE TABLE penstock_progress (job text PRIMARY KEY, run_id text NOT NULL, owner text NOT NULL, query_id text, "
    "batch_id bigint, start_position text, end_position text, tables text, state text, "
    "updated_at timestamptz NOT NULL DEFAULT now())"
)
#: What a record of progress has beside its sealed fields.
HEAD = {"kind", "version", "seal"}


@pytest.fixture(scope="module")
def former(tmp_path_factory, kafka, kafka_admin):
    """The topics as the former version left them, and the folder of its checkpoints."""
    folder = tmp_path_factory.mktemp("former")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    written = {
        topic_of(target, sink): rows
        for job, targets in WRITTEN.items()
        for target in targets
        for sink, rows in json.loads((folder / f"{job}.json").read_text()).items()
    }
    topics = dict.fromkeys((*written, *(topic_of("whole", each) for each in STEPS)), 1) | SOURCES
    wanted = {name: {"num_partitions": each, "replication_factor": 1} for name, each in topics.items()}
    kafka_admin.create_topics(wanted)
    kafka_admin.wait_for_topics(list(topics), 60_000)
    for number in range(READ):
        produce(kafka, records(number))
    for name, rows in written.items():
        produce(kafka, ((name, 0, *row) for row in rows))
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
    progress = ensure_progress_topic(session)
    words = {"CLUSTER": session.cluster_id, "PROGRESS-ID": str(progress.topic_id), "BROKER": kafka.bootstrap}
    words |= {f"{name.upper()}-ID": str(session.topic(name).topic_id) for name in SOURCES}

    replace_words(folder, words)
    for name, value in json.loads((folder / "progress.json").read_text()).items():
        if "\0" not in name:  # else it is a claim or a mark
            record = seal_again(folder, name, json.loads(value))
            publish_progress(session, progress, name, json.dumps(record).encode())
    return folder


def produce(kafka, rows):
    """Write records: topics, partitions, keys and values."""
    from confluent_kafka import Producer as Librdkafka

    producer = Librdkafka({"bootstrap.servers": kafka.bootstrap})
    for topic, partition, key, value in rows:
        producer.produce(topic, as_bytes(value), as_bytes(key), partition)
    assert producer.flush(60) == 0


def seal_again(folder, name, record):
    """A record whose sealed fields are those of this cluster."""
    job = name.rpartition("-")[2]
    known = json.loads((folder / job / "penstock" / "job.json").read_text())
    fields = {key: value for key, value in record.items() if key not in HEAD}
    return {**record, "seal": Seal(known["query_id"], known["secret"]).sign(name, fields)}


@pytest.fixture
def restore(former, jobs):
    """Puts the checkpoint of a job in its place."""
    return lambda job: shutil.copytree(former / job, jobs.checkpoint(job))


@pytest.fixture(scope="module")
def complete(former, kafka):
    """The sources have all records, with those that the former version did not read."""
    for number in range(READ, ROUNDS):
        produce(kafka, records(number))
    produce(kafka, last_records())


def rows_of(topics, topic):
    """The rows in a topic: the last one of each key, or those that its changes leave."""
    keyed, rows = {}, Counter()
    for message in topics.read(topic):
        if message.key is not None:
            keyed[message.key] = message.value and json.dumps(message.json, sort_keys=True)
        elif "op" in message.json:
            for image, count in (("before", -1), ("after", 1)):
                if message.json[image] is not None:
                    rows[json.dumps(message.json[image], sort_keys=True)] += count
        else:
            rows[json.dumps(message.json, sort_keys=True)] += 1
    assert min(rows.values(), default=0) >= 0
    return rows + Counter(filter(None, keyed.values()))


def test_an_attempt_that_one_target_has_is_given_to_the_other(jobs, topics, former, restore, kafka, db, server):
    """PostgreSQL had committed the last batch, Kafka had not: Kafka gets the output that was kept."""
    left = json.loads((former / "postgres.json").read_text())
    db.rows("CREATE TABLE counts (who text PRIMARY KEY, orders bigint)")
    for who, orders in left["counts"]:
        db.rows(f"INSERT INTO counts VALUES ('{who}', {orders})")
    db.rows(PROGRESS)
    for row in left["progress"]:
        values = ", ".join("NULL" if each is None else f"'{each}'" for each in row)
        db.rows(f"INSERT INTO penstock_progress VALUES ({values})")
    restore("two_targets")
    database = Database(db.url, server.user, server.password)
    jobs.run(AVAILABLE_NOW + two_targets(kafka.bootstrap, database), "two_targets")
    assert jobs.warnings == []
    orders = Counter(value["who"] for number in range(READ) for _, _, key, value in records(number) if key is None)
    assert dict(db.rows("SELECT who, orders FROM counts")) == orders
    found = [json.loads(each) for each in rows_of(topics, topic_of("two_targets", "in_kafka"))]
    assert {each["who"]: each["orders"] for each in found} == orders


def test_the_state_that_a_checkpoint_alone_names_goes_on(jobs, topics, restore, kafka):
    restore("generated")
    jobs.run(AVAILABLE_NOW + generated(kafka.bootstrap, 5000), "generated")
    assert jobs.warnings == []
    numbers = range(1, 5001)
    found = [json.loads(each) for each in rows_of(topics, topic_of("generated", "totals"))]
    expected = {k: [each for each in numbers if each % 7 == k] for k in range(7)}
    assert {each["k"]: (each["rows_of_k"], each["total"]) for each in found} == {
        k: (len(each), sum(each)) for k, each in expected.items()
    }


@pytest.mark.rule("state commits with the output")
def test_every_step_continues_as_if_it_had_never_stopped(jobs, topics, former, restore, complete, kafka):
    """From the checkpoint, and from the savepoint."""
    jobs.run(AVAILABLE_NOW + steps(kafka.bootstrap, "whole"), "whole")
    restore("steps")
    result = jobs.run(AVAILABLE_NOW + steps(kafka.bootstrap), "steps")
    assert result.progress.records_in == sum(len(list(records(each))) for each in range(READ, ROUNDS)) + 2
    start = f"SET 'execution.state-recovery.path' = '{former / 'savepoint'}';\n"
    jobs.run(AVAILABLE_NOW + start + steps(kafka.bootstrap, "saved"), "saved")
    assert jobs.warnings == []
    for sink in STEPS:
        expected = rows_of(topics, topic_of("whole", sink))
        assert expected, sink
        assert rows_of(topics, topic_of("steps", sink)) == expected, sink
        assert rows_of(topics, topic_of("saved", sink)) == expected, sink
