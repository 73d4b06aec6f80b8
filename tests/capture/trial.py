"""One trial: a random workload on a database, captured by Debezium into a topic, and a pipeline that copies it.

The pipeline is killed twice, each time within a batch. At the end every row of both databases is compared with what it
has to be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock.machine.java import find_java
from penstock_testing.services import KafkaCluster
from penstock_testing.services.postgres import PostgresServer
from penstock_testing.services.process import launch
from tests.capture.column_types import MOOD, MOODS
from tests.capture.comparison import Content, compare_copy, compare_origin
from tests.capture.databases import Database, run, run_transaction
from tests.capture.jars import fetch_classpath
from tests.capture.workload import SCHEMA, Table, Workload
from tests.faults.processes import JobProcess
from tests.jvm import UNOPTIMISED
from tests.waiting import eventually

__all__ = ["Outcome", "run_trial"]

TOPIC, ORIGIN, COPY = "changes", "origin", "copy"
_PARTITIONS = 4
_KILLS = 2
#: Long, since it only ends what has failed, and machines may be busy.
_PATIENCE = 900.0
#: The table whose first row ends the capture.
_LAST = "finished"

#: What Debezium is told beside its defaults where messages contain no schema: then values have to tell their types.
_READABLE = {"decimal.handling.mode": "string", "time.precision.mode": "isostring"}


@dataclass
class Outcome:
    """What a trial found. ``kills`` are the batches within which the pipeline was killed, ``done`` says how many
    changes of each kind there were, and ``rows`` how many rows there are at the end."""

    differences: list[str] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether both kills have hit, and nothing is different."""
        return not self.differences and len(self.kills) == _KILLS


def run_trial(
    folder: Path, seed: int, changes: int, *, with_schema: bool, progress: Callable[[str], None] = lambda line: None
) -> Outcome:
    """Run one trial in an empty folder."""
    with ExitStack() as stack:
        trial = _Trial(folder, Random(seed), Workload(seed, changes, dated_texts=with_schema), with_schema, progress)
        return trial.run(stack, changes)


class _Trial:
    def __init__(
        self, folder: Path, random: Random, workload: Workload, with_schema: bool, progress: Callable[[str], None]
    ):
        self._folder, self._random, self._workload = folder, random, workload
        self._with_schema, self._progress = with_schema, progress
        self._outcome = Outcome()
        #: How often the pipeline was killed within a batch.
        self._hits = 0
        self._failure: list[BaseException] = []

    def run(self, stack: ExitStack, changes: int) -> Outcome:
        begun = time.monotonic()
        java = find_java()
        classpath = fetch_classpath(java, self._progress)
        cluster = stack.enter_context(KafkaCluster(jvm_options=[UNOPTIMISED]))
        settings = {"wal_level": "logical", "timezone": "UTC"}
        self._origin = Database.create(stack.enter_context(PostgresServer(settings=settings)), ORIGIN)
        self._copy = Database.create(stack.enter_context(PostgresServer(settings={"timezone": "UTC"})), COPY)
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap}))
        create_topic(session, TOPIC, partitions=_PARTITIONS)
        with self._origin.connect() as connection:
            run(connection, f"CREATE SCHEMA {SCHEMA}")
            moods = ", ".join(f"'{each}'" for each in MOODS)
            run(connection, f"CREATE TYPE {MOOD} AS ENUM ({moods})")
            run_transaction(connection, self._workload.begin())

        log = self._folder / "capture.log"
        capture = launch(
            [str(java.executable), "-Xmx768m", UNOPTIMISED, "-cp", classpath,
             str(Path(__file__).with_name("Capture.java")), str(self._write_properties(cluster.bootstrap))],
            log,
        )  # fmt: skip
        stack.callback(capture.close)
        job = self._make_job("job", cluster.bootstrap)
        stack.callback(job.kill)
        job.start()
        # Debezium's snapshot fails if tables change meanwhile.
        eventually(lambda: self._is_streaming() or not capture.identity.alive(), _PATIENCE)
        worker = threading.Thread(target=self._work, args=(changes,), daemon=True)
        worker.start()
        for _ in range(_KILLS):
            self._kill_within_batch(job)
        worker.join(_PATIENCE)
        self._is_going_on()
        assert not worker.is_alive(), "the workload has not ended"
        self._progress("the workload is done")
        eventually(lambda: "captured" in _text(log) or not capture.identity.alive(), _PATIENCE)
        assert "captured" in _text(log), f"the capture has ended:\n{_text(log)[-4000:]}"
        self._progress("all changes are captured")
        job.until(lambda: job.done() > self._outcome.kills[-1], _PATIENCE)
        job.stop(_PATIENCE)
        rest = self._make_job("rest", cluster.bootstrap, "--available-now")
        stack.callback(rest.kill)
        rest.start().finish(_PATIENCE)
        self._compare()
        self._outcome.done = self._workload.done
        self._outcome.seconds = time.monotonic() - begun
        return self._outcome

    def _make_job(self, name: str, bootstrap: str, *arguments: str) -> JobProcess:
        """The pipeline; all of this trial's have one checkpoint."""
        more = ("debezium-json.schema-include: true",)
        if not self._with_schema:
            more = ("debezium-json.timestamp-format.standard: ISO-8601",)
        parts = {
            "source": (
                "type: kafka",
                f"properties.bootstrap.servers: {bootstrap}",
                f"topic: {TOPIC}",
                "scan.startup.mode: earliest-offset",
                "scan.max-records-per-trigger: 4000",
                "value.format: debezium-json",
                *more,
            ),
            "sink": (
                "type: postgres",
                f"url: {self._copy.url}",
                f"username: {self._copy.server.user}",
                f"password: {self._copy.server.password}",
            ),
            "pipeline": ("name: copy",),
        }
        text = "".join(f"{part}:\n" + "".join(f"  {each}\n" for each in lines) for part, lines in parts.items())
        text += "transform:\n"
        for kind, key in (("one", "id"), ("two", "region,number"), ("named", "name")):
            text += f"  - source-table: {ORIGIN}.{SCHEMA}.{kind}_\\.*\n    primary-keys: {key}\n"
        checkpoint = self._folder / "checkpoints"
        return JobProcess(self._folder / name, text, checkpoint, name="copy", arguments=arguments, file="pipeline.yaml")

    def _write_properties(self, bootstrap: str) -> Path:
        """The properties of the capture."""
        server = self._origin.server
        engine = {
            "name": "capture",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(self._folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "topic.prefix": ORIGIN,
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.dbname": ORIGIN,
            "schema.include.list": SCHEMA,
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "all_tables",
            "snapshot.mode": "initial",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": str(self._with_schema).lower(),
            # Else NULL in a column with a default is written as that.
            "value.converter.replace.null.with.default": "false",
            **({} if self._with_schema else _READABLE),
        }
        producer = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": "true",
            "linger.ms": "5",
            "compression.type": "lz4",
            "max.request.size": "8000000",
        }
        lines = {
            "topic": TOPIC,
            "until": f"{ORIGIN}.{SCHEMA}.{_LAST}",
            **{f"engine.{key}": value for key, value in engine.items()},
            **{f"producer.{key}": value for key, value in producer.items()},
        }
        file = self._folder / "capture.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return file

    def _is_streaming(self) -> bool:
        with self._origin.connect() as connection:
            return bool(run(connection, "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"))

    # --- the workload ----------------------------------------------------------------------------------------

    def _work(self, changes: int) -> None:
        """Run the workload, but for each third that follows a kill wait for that one: until then there are small
        transactions, so that there are batches."""
        try:
            with self._origin.connect() as connection:
                made = 0
                for each in self._workload.transactions():
                    run_transaction(connection, each)
                    made += each.changes
                    while self._hits < _KILLS and made * (_KILLS + 1) > changes * (self._hits + 1):
                        run_transaction(connection, self._workload.draw_more())
                        time.sleep(0.05)
                run(connection, f"CREATE TABLE {SCHEMA}.{_LAST} (id integer PRIMARY KEY)")
                run(connection, f"INSERT INTO {SCHEMA}.{_LAST} VALUES (1)")
                connection.commit()
        except BaseException as error:  # noqa: BLE001 - the trial raises it
            self._failure.append(error)

    def _kill_within_batch(self, job: JobProcess) -> None:
        """Kill the pipeline at a random moment at which a batch is planned and not done, and start it again."""
        hits = self._hits
        while self._hits == hits:
            wanted = job.done() + self._random.randint(1, 4)
            job.until(lambda wanted=wanted: self._is_going_on() and job.done() >= wanted, _PATIENCE)
            time.sleep(self._random.random())
            job.until(lambda: self._is_going_on() and job.planned() > job.done(), _PATIENCE)
            time.sleep(self._random.random() ** 4 * 0.2)  # most batches are short
            running = job.running
            job.kill()
            planned, done = job.planned(), job.done()
            if running and planned > done:
                self._hits += 1
                self._outcome.kills.append(planned)
            self._progress(f"killed with batch {done} done, and batch {planned} planned")
            job.start()

    def _is_going_on(self) -> bool:
        """True. Raises what the workload has ended with."""
        if self._failure:
            raise self._failure[0]
        return True

    # --- the end ---------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        origin, copy = self._origin.read_tables(), self._copy.read_tables()
        tables = dict(self._workload.tables)
        extra = {*copy} - {*tables, _LAST}
        differences = [f"a table {each} that there never was" for each in sorted(extra)]
        for name, table in tables.items():
            differences += compare_origin(table, origin[name])
            differences += self._compare_copy(name, table, copy)
            self._outcome.rows += len(table.rows)
        if not self._outcome.rows:
            differences.append("there are no rows to compare")
        self._outcome.differences = differences

    @staticmethod
    def _compare_copy(name: str, table: Table, copy: dict[str, Content]) -> list[str]:
        if name in copy:
            return compare_copy(table, copy[name])
        return [f"there is no table {name}"] if table.shown else []


def _text(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""
