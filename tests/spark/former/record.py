"""Records the checkpoints that a former version leaves: ``python -m tests.spark.former.record CHECKOUT``.

``CHECKOUT`` is a work tree of that version. The archive has a folder for each job: its ``checkpoint`` with words in
capitals for what belongs to a cluster, the ``savepoint`` of one, ``progress.json`` with the last record of the progress
topic, and the records of its sinks.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock_testing.services import KafkaCluster
from penstock_testing.services.postgres import PostgresServer
from tests.spark.conftest import Db
from tests.spark.former.programs import (
    ARCHIVE,
    READ,
    SOURCES,
    STEPS,
    Database,
    as_bytes,
    generated,
    records,
    steps,
    topic_of,
    two_targets,
)
from tests.spark.kept_checkpoints import replace_words
from tests.waiting import eventually

_PENSTOCK = "from penstock.cli.main import main; raise SystemExit(main())"
#: Lets PostgreSQL take its time for a commit.
_SLOW = (
    "CREATE FUNCTION wait() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(5); RETURN NULL; END $$ LANGUAGE plpgsql",
    "CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON penstock_progress DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW WHEN (NEW.batch_id = {batch}) EXECUTE FUNCTION wait()",
)
_COMMITTING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
_COMMITTED = "SELECT 1 FROM penstock_progress WHERE batch_id = {batch}"


def main() -> None:
    """Run the jobs, and write the archive."""
    checkout = Path(sys.argv[1]).resolve()
    with (
        KafkaCluster() as kafka,
        PostgresServer() as postgres,
        tempfile.TemporaryDirectory() as folder,
    ):
        recording = Recording(checkout, kafka.bootstrap, Path(folder))
        recording.create_topics()
        database = Database(postgres.url, postgres.user, postgres.password)
        db = Db(postgres, "postgres")
        db.rows("CREATE TABLE counts (who text PRIMARY KEY, orders bigint)")
        for number in range(READ):
            recording.write(number)
            recording.run("steps", steps(kafka.bootstrap))
            recording.run("generated", generated(kafka.bootstrap, 1000 * (number + 1)))
            if number < READ - 1:
                recording.run("two_targets", two_targets(kafka.bootstrap, database))
        recording.kill_between_commits(kafka, db, two_targets(kafka.bootstrap, database))
        recording.penstock("savepoint", str(recording.checkpoints / "steps"), str(recording.checkpoints / "savepoint"))
        recording.keep(db)


class Recording:
    """The jobs of a former version on a broker, in a folder."""

    def __init__(self, checkout: Path, broker: str, folder: Path):
        self.checkout, self.broker, self.folder = checkout, broker, folder
        self.checkpoints = folder / "checkpoints"

    def create_topics(self) -> None:
        """Create the topics of sources and sinks."""
        sinks = [topic_of("steps", each) for each in STEPS]
        sinks += [topic_of("generated", "totals"), topic_of("two_targets", "in_kafka")]
        topics = {**SOURCES, **dict.fromkeys(sinks, 1)}
        admin = AdminClient({"bootstrap.servers": self.broker})
        for made in admin.create_topics([NewTopic(name, each, 1) for name, each in topics.items()]).values():
            made.result()

    def write(self, number: int) -> None:
        """Write a round of records."""
        producer = Producer({"bootstrap.servers": self.broker})
        for topic, partition, key, value in records(number):
            producer.produce(topic, as_bytes(value), as_bytes(key), partition)
        assert producer.flush(60) == 0

    def run(self, name: str, sql: str) -> None:
        """Run a job until it has read what is there."""
        self.penstock("run", str(self.definition(name, sql)), "--available-now")

    def definition(self, name: str, sql: str) -> Path:
        """The file of a job."""
        file = self.folder / f"{name}.sql"
        settings = f"SET 'execution.checkpointing.dir' = '{self.checkpoints}';\nSET 'parallelism.default' = '2';\n"
        file.write_text(f"{settings}SET 'pipeline.name' = '{name}';\n{sql}")
        return file

    def penstock(self, *arguments: str) -> None:
        """Run a command of the former version."""
        process = self.begin(*arguments)
        assert process.wait() == 0, arguments

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Begin a command of the former version."""
        environment = {**os.environ, "PYTHONPATH": str(self.checkout / "src")}
        return subprocess.Popen([sys.executable, "-c", _PENSTOCK, *arguments], env=environment)

    def kill_between_commits(self, kafka: KafkaCluster, db: Db, sql: str) -> None:
        """Run the last batch of the job ``two_targets``, and kill it when PostgreSQL alone has committed."""
        batch = READ - 1
        for statement in _SLOW:
            db.rows(statement.format(batch=batch))
        process = self.begin("run", str(self.definition("two_targets", sql)), "--available-now")
        eventually(lambda: db.rows(_COMMITTING))
        kafka.pause()
        eventually(lambda: db.rows(_COMMITTED.format(batch=batch)))
        process.kill()
        process.wait()
        kafka.resume()

    def keep(self, db: Db) -> None:
        """Write the archive."""
        kept = self.folder / "kept"
        shutil.copytree(self.checkpoints, kept, ignore=shutil.ignore_patterns(".*", "lease*", "owner*"))
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": self.broker}))
        progress = ensure_progress_topic(session)
        words = {str(self.checkpoints): "CHECKPOINTS", session.cluster_id: "CLUSTER", self.broker: "BROKER"}
        words |= {str(progress.topic_id): "PROGRESS-ID", socket.gethostname(): "HOST"}
        words |= {str(session.topic(name).topic_id): f"{name.upper()}-ID" for name in SOURCES}

        last = {key: value for key, value in self.read(progress.name) if key is not None}
        (kept / "progress.json").write_text(json.dumps(last, indent=1))
        rows, table = db.rows("SELECT * FROM counts"), db.rows("SELECT * FROM penstock_progress")
        (kept / "postgres.json").write_text(json.dumps({"counts": rows, "progress": table}, default=str))
        replace_words(kept, words)
        for job, sinks in (("steps", STEPS), ("generated", ["totals"]), ("two_targets", ["in_kafka"])):
            found = {sink: list(self.read(topic_of(job, sink))) for sink in sinks}
            (kept / f"{job}.json").write_text(json.dumps(found))
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for file in sorted(each for each in kept.rglob("*") if each.is_file()):
                archive.add(file, str(file.relative_to(kept)), filter=_anonymous)
        print(f"{ARCHIVE.stat().st_size:,} bytes")

    def read(self, topic: str) -> Iterable[tuple[str | None, str | None]]:
        """The keys and values of a topic's committed records."""
        consumer = Consumer(
            {"bootstrap.servers": self.broker, "group.id": "reader", "enable.partition.eof": True},
        )
        partitions = list(consumer.list_topics(topic, 60).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        left = set(partitions)
        while left:
            record = consumer.poll(60)
            assert record is not None
            if record.error():
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                left.discard(record.partition())
                continue
            key, value = record.key(), record.value()
            yield (key and key.decode(), value and value.decode())
        consumer.close()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


if __name__ == "__main__":
    main()
