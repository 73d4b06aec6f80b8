"""A checkpoint that an earlier version left, kept as its files were.

The folder ``checkpoint-0.1.0`` holds it, with words in capitals for what belongs to a cluster: ids, the topics of
source and sink. ``progress.json`` is the last record of its progress topic. That version did not seal progress, and it
knew no uids of sources and no transactional id that stays.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.errors import CheckpointError, FencedError
from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from tests.spark.kept_checkpoints import publish_progress, replace_words
from tests.waiting import while_running

KEPT = Path(__file__).with_name("checkpoint-0.1.0")


@pytest.fixture
def left(jobs, kafka, topics, topic):
    """What the version left when it had copied 20 records in two batches: the SQL of its job, source and sink."""
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(20)])
    topics.write(sink, [{"id": i} for i in range(20)])
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
    progress = ensure_progress_topic(session)
    name = f"{sink}-copy"
    words = {
        "TRANSACTIONAL-ID": name,
        "CLUSTER": session.cluster_id,
        "READINGS-ID": str(session.topic(source).topic_id),
        "READINGS": source,
        "COPIES": sink,
        "PROGRESS-ID": str(progress.topic_id),
    }

    shutil.copytree(KEPT, jobs.checkpoint("copy"))
    replace_words(jobs.checkpoint("copy"), words)
    record = jobs.checkpoint("copy") / "progress.json"
    publish_progress(session, progress, name, record.read_bytes().strip())
    record.unlink()
    sql = (
        jobs.table("readings", "id BIGINT", source, scan_startup_mode="earliest-offset")
        + jobs.exactly_once("copies", "id BIGINT", sink, sink_transactional__id__prefix=sink)
        + "INSERT INTO copies SELECT * FROM readings;"
    )
    return sql, source, sink


@pytest.mark.parametrize("logged", [True, False], ids=["at rest", "killed before Spark's commit log"])
def test_a_checkpoint_of_0_1_0_goes_on_exactly_once(jobs, topics, left, logged):
    sql, source, sink = left
    if not logged:
        (jobs.checkpoint("copy") / "commits" / "1").unlink()
    for total in (30, 40):  # the second start finds what the first has added to the checkpoint
        topics.write(source, [{"id": i} for i in range(total - 10, total)])
        running = jobs.start(sql, "copy")
        while_running(running, lambda expected=total: len(topics.read_ids(sink)) >= expected)
        while_running(running, lambda: jobs.idle("copy"))
        running.stop()
        assert topics.read_ids(sink) == list(range(total))
    assert jobs.warnings == []


def test_an_older_copy_of_a_checkpoint_of_0_1_0_is_refused(jobs, topics, left):
    """Batch 1 is published, and the copy was made before batch 0."""
    sql, _, sink = left
    for log in ("offsets", "commits"):
        shutil.rmtree(jobs.checkpoint("copy") / log)
    with pytest.raises(CheckpointError, match="an older checkpoint was restored"):
        jobs.start(sql, "copy").wait(60)
    assert topics.read_ids(sink) == list(range(20))


def test_a_sink_that_is_added_while_a_batch_of_0_1_0_is_unfinished_is_refused(jobs, topics, topic, left, monkeypatch):
    """Its progress does not say which sinks have the batch: the new one would never get it."""
    former, source, sink = left
    other = topic(1)
    tables, insert = former.split("INSERT")
    sql = (
        tables
        + jobs.exactly_once("others", "id BIGINT", other, sink_transactional__id__prefix=sink)
        + f"EXECUTE STATEMENT SET BEGIN INSERT{insert} INSERT INTO others SELECT * FROM readings; END;"
    )
    commit = jobs.checkpoint("copy") / "commits" / "1"
    kept = commit.read_text()
    commit.unlink()

    def publish(self, batch, frame):
        raise FencedError("before the batch is done")

    with monkeypatch.context() as patch:  # a start of the former definition that does not finish the batch
        patch.setattr(KafkaCommitter, "publish", publish)
        with pytest.raises(FencedError, match="before the batch is done"):
            jobs.start(former, "copy").wait(60)
    with pytest.raises(CheckpointError, match="batch 1 is not finished, and its job wrote to kafka 'copies'"):
        jobs.start(sql, "copy").wait(60)
    commit.write_text(kept)
    topics.write(source, [{"id": 20}])
    running = jobs.start(sql, "copy")
    while_running(running, lambda: topics.read_ids(other) == [20])
    running.stop()
    assert topics.read_ids(sink) == list(range(21))
