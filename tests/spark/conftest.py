"""Tests of whole jobs: SQL in, records out, on a real broker and a local Spark that all of them share."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import eventually

if TYPE_CHECKING:
    from penstock.engine import JobResult, RunningJob
    from penstock.kafka.session import Session
    from penstock.plan.nodes import Job
    from penstock_testing.services import KafkaCluster
    from penstock_testing.services.postgres import PostgresServer

_HERE = Path(__file__).parent

#: Small batches are computed by tasks too.
BY_TASKS = "SET 'penstock.driver.max-records' = '0';\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def quick_starts() -> Iterator[None]:
    """Spark's JVMs, that of the tests and those of commands, are made for jobs that live for seconds."""
    from tests.jvm import UNOPTIMISED

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", UNOPTIMISED)
        yield


@dataclass(frozen=True)
class Message:
    """A record as librdkafka reads it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1

    @property
    def json(self) -> Any:
        """The value, parsed."""
        return json.loads(self.value or b"null")


@dataclass
class Topics:
    """Writes and reads topics with librdkafka, which shares no code with what is tested."""

    bootstrap: str

    def write(self, topic: str, values: Sequence[Any], *, partition: int | None = None, keys: Any = None) -> None:
        """Produce ``values`` (bytes as they are, anything else as JSON), each with its key from ``keys``."""
        from confluent_kafka import Producer

        failed: list[Any] = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 5,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _: failed.append(error),
            }
        )
        for i, value in enumerate(values):
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            place = {} if partition is None else {"partition": partition}
            producer.produce(topic, content, key=keys[i] if keys else None, **place)
        assert (producer.flush(60), failed) == (0, [])

    def write_ids(self, topic: str, count: int, start: int = 0, *, partition: int | None = None) -> None:
        """Produce ``count`` rows with the column ``id``, numbered from ``start``."""
        self.write(topic, [{"id": number} for number in range(start, start + count)], partition=partition)

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Everything that a reader sees, partition by partition in the order of offsets."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        self._await_markers()
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                # The end of a partition is told by an empty answer.
                "fetch.wait.max.ms": 10,
                "enable.auto.commit": False,
            }
        )
        try:
            partitions = consumer.list_topics(topic, 60).topics[topic].partitions
            consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
            found, left = [], set(partitions)
            while left:
                record = consumer.poll(60)
                assert record is not None, f"no answer while reading {topic}"
                if record.error():
                    assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                    left.discard(record.partition())
                    continue
                headers = tuple(record.headers() or ())
                place = record.partition(), record.offset()
                found.append(Message(*place, record.key(), record.value(), headers, record.timestamp()[1]))
            return sorted(found, key=lambda message: (message.partition, message.offset))
        finally:
            consumer.close()

    def read_ids(self, topic: str) -> list[int]:
        """The ``id`` of every row that a reader sees, in ascending order."""
        return sorted(message.json["id"] for message in self.read(topic))

    def open_transactions(self, topic: str) -> bool:
        """Whether a transaction holds the last stable offset back."""
        from penstock.kafka.offsets import LATEST, list_offsets

        self._await_markers()
        session = self._session()
        places = [(topic, each.partition) for each in session.topic(topic).partitions]
        stable = list_offsets(session, places, LATEST, isolation="read_committed")
        return stable != list_offsets(session, places, LATEST, isolation="read_uncommitted")

    def _await_markers(self) -> None:
        """Wait for the transactions that are being ended now: who ends one is answered before readers see its records.

        Those that a running job ends after this call are not waited for.
        """
        from penstock.kafka.transactions import describe_transaction, list_transactions

        session = self._session()

        def ending(each: str) -> int | None:
            known = describe_transaction(session, each)
            return known.started_ms if known is not None and known.state.startswith("Prepare") else None

        states = list_transactions(session)
        begun = {each: ending(each) for each, state in states.items() if state.startswith("Prepare")}
        eventually(lambda: not any(began is not None and ending(each) == began for each, began in begun.items()))

    def _session(self) -> Session:
        from penstock.kafka.properties import ClientConfig
        from penstock.kafka.session import session_for

        return session_for(ClientConfig.from_properties({"bootstrap.servers": self.bootstrap}))


@pytest.fixture
def topics(kafka: KafkaCluster) -> Topics:
    """Access to the broker's topics."""
    return Topics(kafka.bootstrap)


@dataclass
class Jobs:
    """Runs SQL as a user would, each test with a checkpoint folder of its own."""

    bootstrap: str
    folder: Path
    warnings: list[str] = field(default_factory=list)
    started: list[RunningJob] = field(default_factory=list)

    def parse(self, sql: str, name: str = "job") -> Job:
        """The one job of ``sql``."""
        from penstock.sql import parse_script

        text = f"SET 'execution.checkpointing.dir' = '{self.folder}';\nSET 'pipeline.name' = '{name}';\n{sql}"
        (job,) = parse_script(text, file="job.sql", default_name=name).jobs
        return job

    def run(self, sql: str, name: str = "job") -> JobResult:
        """Run a bounded job to its end."""
        from penstock import engine

        return engine.run(self.parse(sql, name), self.warnings.append)

    def start(self, sql: str, name: str = "job") -> RunningJob:
        """Start a job; it is stopped when the test ends."""
        from penstock import engine

        running = engine.start(self.parse(sql, name), self.warnings.append)
        self.started.append(running)
        return running

    def table(self, name: str, columns: str, topic: str, **options: str) -> str:
        """A CREATE TABLE statement; option names are written with ``_`` for ``.`` and ``__`` for ``-``."""
        given = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self.bootstrap,
            "format": "json",
            **{key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
        }
        clause = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        return f"CREATE TABLE {name} ({columns}) WITH ({clause});\n"

    def bounded(self, name: str, columns: str, topic: str, **options: str) -> str:
        """A table that is read from its topic's beginning to its present end."""
        bounds = {"scan_startup_mode": "earliest-offset", "scan_bounded_mode": "latest-offset"}
        return self.table(name, columns, topic, **{**bounds, **options})

    def exactly_once(self, name: str, columns: str, topic: str, **options: str) -> str:
        """A table that is written exactly once."""
        guarantee = {"sink_delivery__guarantee": "exactly-once", "sink_transactional__id__prefix": f"tx-{topic}"}
        return self.table(name, columns, topic, **{**guarantee, **options})

    def copy(self, source: str, sink: str, *, bounded: bool = True, **options: str) -> str:
        """A job that copies the column ``id`` from topic to topic, exactly once, with ``options`` of the source."""
        table = self.bounded if bounded else self.table
        return (
            table("s", "id BIGINT", source, **{"scan_startup_mode": "earliest-offset", **options})
            + self.exactly_once("t", "id BIGINT", sink)
            + "INSERT INTO t SELECT * FROM s;"
        )

    def checkpoint(self, name: str = "job") -> Path:
        """The folder of a job's checkpoint."""
        return self.folder / name

    def idle(self, name: str = "job") -> bool:
        """Whether Spark has logged as done all that it has planned, which is a moment after the sinks have it. A job
        that is stopped before does its last batch again."""
        done, planned = (
            max((int(each.name) for each in (self.checkpoint(name) / log).glob("[0-9]*")), default=-1)
            for log in ("commits", "offsets")
        )
        return -1 < done == planned

    def copy_checkpoints(self, target: Path) -> None:
        """Copy what is in the folder, without the files that somebody is writing."""
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(".*"))


@pytest.fixture
def jobs(kafka: KafkaCluster, tmp_path: Path) -> Iterator[Jobs]:
    """Runs jobs."""
    made = Jobs(kafka.bootstrap, tmp_path / "checkpoints")
    yield made
    for running in made.started:
        running.stop()


@dataclass
class Db:
    """A database of a test's own, looked at by connections that share nothing with those of what is tested."""

    server: PostgresServer
    name: str

    @classmethod
    def create(cls, server: PostgresServer) -> Db:
        """A new, empty database."""
        made = cls(server, f"db_{uuid.uuid4().hex[:12]}")
        cls(server, "postgres").rows(f"CREATE DATABASE {made.name}")
        return made

    @property
    def url(self) -> str:
        """Its address."""
        return self.server.url.removesuffix("postgres") + self.name

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, and commit."""
        from adbc_driver_postgresql import dbapi

        from penstock.connectors.postgres.address import parse_address

        address = parse_address(self.url, self.server.user, self.server.password)
        with (
            closing(dbapi.connect(address.connection_string(), autocommit=True)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def ids(self, table: str = "t") -> list[int]:
        """The column ``id`` of a table, in ascending order."""
        return [row[0] for row in self.rows(f"SELECT id FROM {table} ORDER BY id")]

    def progress(self) -> list[tuple[Any, ...]]:
        """The jobs that have committed, and their last batches."""
        return self.rows("SELECT job, batch_id FROM penstock_progress ORDER BY job")

    def staging(self) -> list[str]:
        """The staging tables that are there; temporary ones end with their worker."""
        sql = "SELECT tablename::text FROM pg_tables WHERE tablename ~ '^penstock_stage' AND schemaname = 'public'"
        return [row[0] for row in self.rows(sql)]

    def disconnect(self) -> None:
        """End every other connection, as a network that breaks would."""
        self.rows(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    def table(self, name: str, columns: str, target: str = "", **options: str) -> str:
        """A CREATE TABLE statement of penstock's SQL."""
        given = {
            "connector": "postgres",
            "url": self.url,
            "table-name": target or name,
            "username": self.server.user,
            "password": self.server.password,
            **{key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
        }
        clause = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        return f"CREATE TABLE {name} ({columns}) WITH ({clause});\n"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL for the tests of a file."""
    from penstock_testing.services.postgres import PostgresServer

    with PostgresServer() as started:
        yield started


@pytest.fixture
def db(server: PostgresServer) -> Db:
    """A new, empty database."""
    return Db.create(server)


def spark_jobs(running: RunningJob) -> list[int]:
    """The Spark jobs of a job's last run: all of them, which Spark's trackers know a moment later."""
    context: Any = running._spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    return list(context.statusTracker().getJobIdsForGroup(running.run_id))


@pytest.fixture(scope="session", autouse=True)
def spark_session() -> Iterator[None]:
    """Ends the Spark session that the first job makes."""
    yield
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()
