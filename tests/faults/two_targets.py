"""F13: a job that writes to Kafka and to PostgreSQL is killed between the two commits of a batch, or does not hear that
PostgreSQL has committed."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from contextlib import closing, suppress
from pathlib import Path

from adbc_driver_postgresql import dbapi

from penstock.connectors.postgres.address import parse_address
from penstock_testing import Then, Trap
from penstock_testing.services.postgres import PostgresServer
from tests.faults.checkpoints import must_stop
from tests.faults.driver_deaths import ENOUGH_FOR_A_SHUFFLE, die
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.states import state_of
from tests.relay import Relay


class _CommitLoss(Relay):
    """A relay before a database that loses the answer to one COMMIT, and cuts its connection: the next one, once it is
    armed, of a transaction that records a job's progress."""

    #: In what the driver sends when it records progress, and what the server answers to a COMMIT (CommandComplete).
    _RECORDED, _DONE = b"SET query_id = ", b"C\x00\x00\x00\x0bCOMMIT\x00"

    def __init__(self, target: int):
        self.armed, self.lost = threading.Event(), threading.Event()
        self._recording: set[socket.socket] = set()  # the servers' ends of connections
        super().__init__(target=target)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self._RECORDED in data and self.armed.is_set():
                    self._recording.add(sink)
                if self._DONE in data and source in self._recording and not self.lost.is_set():
                    self.lost.set()
                    break
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR if source in self._recording else socket.SHUT_WR)


class Database:
    """A table that the job writes beside its topic. ``port``: where the job finds it."""

    def __init__(self, trial: Trial):
        self._trial = trial
        self._server = trial.stack.enter_context(PostgresServer())
        self.port = self._server.port
        self._ask("CREATE TABLE numbers (k text, n bigint)", rows=False)

    def job(self, first: str, then: str, *, batches: int = 8) -> JobProcess:
        """The job ``copy`` with both targets; ``first`` is committed first in each batch."""
        # A target that commits the group's offsets would be last.
        source = {} if then == "kafka" else {"properties.commit.offsets.on.checkpoint": "false"}
        head, _, _ = self._trial.sql(source=source, batches=batches).rpartition("INSERT INTO")
        inserts = {
            "kafka": "INSERT INTO t SELECT k, n, h FROM s;",
            "postgres": "INSERT INTO numbers SELECT k, n FROM s;",
        }
        return self._trial.job(f"{head}{self.table}EXECUTE STATEMENT SET BEGIN {inserts[first]} {inserts[then]} END;\n")

    @property
    def table(self) -> str:
        """The statement that makes the table known to a job."""
        return (
            "CREATE TABLE numbers (k STRING, n BIGINT) WITH ('connector' = 'postgres', "
            f"'url' = '{self._url}', 'table-name' = 'numbers', 'username' = '{self._server.user}', "
            f"'password' = '{self._server.password}');\n"
        )

    @property
    def _url(self) -> str:
        return self._server.url.replace(f":{self._server.port}/", f":{self.port}/")

    def committed(self) -> int:
        """The last batch in the database."""
        ((batch,),) = self._ask("SELECT batch_id FROM penstock_progress")
        return batch

    def problem(self) -> str:
        """What is wrong with the table; nothing when it holds each record once."""
        written = self._trial.numbered.written
        expected = {(place, number) for place, count in written.items() for number in range(count)}
        found = [(int(key.partition("-")[0]), number) for key, number in self._ask("SELECT k, n FROM numbers")]
        lost, strange = expected - set(found), set(found) - expected
        repeated = len(found) - len(set(found))
        if lost or strange or repeated:
            return f"PostgreSQL: {len(lost)} lost, {repeated} duplicated, {len(strange)} strangers"
        left = self._ask("SELECT tablename::text FROM pg_tables WHERE tablename LIKE 'penstock_stage%'")
        return f"PostgreSQL: left behind {left}" if left else ""

    def _ask(self, sql: str, *, rows: bool = True) -> list[tuple]:
        address = parse_address(self._server.url, self._server.user, self._server.password)
        with (
            closing(dbapi.connect(address.connection_string(), autocommit=True)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)
            return cursor.fetchall() if rows else []


def _killed_between(trial: Trial, database: Database, job: JobProcess, trap: Trap, *, in_database: int) -> Outcome:
    """Kill the job at the trap, make sure which of the two has the batch, and let it come to its end."""
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    trial.hit(f"in PostgreSQL batch {database.committed()} was done", database.committed() == in_database)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, problem=database.problem())


@cell("F13", "killed after Kafka's commit, before PostgreSQL's")
def kafka_first(trial: Trial) -> Outcome:
    database = Database(trial)
    job = database.job("kafka", "postgres")
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return _killed_between(trial, database, job, trap, in_database=trial.before - 1)


@cell("F13", "killed after PostgreSQL's commit, before Kafka's")
def postgres_first(trial: Trial) -> Outcome:
    database = Database(trial)
    job = database.job("postgres", "kafka")
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return _killed_between(trial, database, job, trap, in_database=trial.before)


def _kept_by_tasks(trial: Trial, first: str, then: str) -> Outcome:
    """Two batches of two tasks each, whose output is so large that tasks keep it in files. The job is killed between
    the two commits of the second one. Without a file it stops; with all of them it gives the other target what the
    first one has, and runs no task again that computes."""
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    database = Database(trial)
    job = database.job(first, then, batches=2)
    at = trial.ended if first == "kafka" else trial.committing
    die(trial, job, at(2, call=lambda _: job.kill(), then=Then.DROP), planned=1, done=0)
    trial.hit(f"in PostgreSQL batch {database.committed()} was done", database.committed() == (first != "kafka"))
    (manifest,) = _attempts(job)
    output = json.loads(manifest.read_text())["output"]
    files = [state_of(job) / name for name in sorted(output["files"])]
    kept, beside = sum(each.stat().st_size for each in files), (state_of(job) / output["file"]).stat().st_size
    trial.hit(f"{len(files)} tasks have kept {kept} bytes in files, the driver {beside}", len(files) == 2)
    away = trial.folder / files[-1].name
    shutil.move(files[-1], away)
    stop = must_stop(trial, job, files[-1].name, "is missing")
    trial.hit("without one of them it stopped", database.committed() == (first != "kafka"))
    shutil.move(away, files[-1])
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit("no other attempt was made", _attempts(job) == [manifest])
    left = sorted(each.name for each in state_of(job).glob("*.output*"))
    trial.hit(f"{len(left)} files of output are left", not left)
    return trial.outcome(job, stop=stop, problem=database.problem())


def _attempts(job: JobProcess) -> list[Path]:
    """The manifests of the attempts at the second batch."""
    return sorted(state_of(job).glob("000000001-*.manifest"))


@cell(
    "F13",
    "killed after Kafka's commit, before PostgreSQL's; output in files of its tasks, one of them lost for a while",
)
def kafka_first_of_kept(trial: Trial) -> Outcome:
    return _kept_by_tasks(trial, "kafka", "postgres")


@cell(
    "F13",
    "killed after PostgreSQL's commit, before Kafka's; output in files of its tasks, one of them lost for a while",
)
def postgres_first_of_kept(trial: Trial) -> Outcome:
    return _kept_by_tasks(trial, "postgres", "kafka")


@cell("F13", "the answer to PostgreSQL's COMMIT lost, connection closed")
def postgres_unknown(trial: Trial) -> Outcome:
    """The driver finds out in the database what became of the transaction, and does not insert again."""
    database = Database(trial)
    loss = trial.stack.enter_context(_CommitLoss(database.port))
    database.port = loss.port
    job = database.job("kafka", "postgres")
    begun = trial.ended(trial.before + 1, call=lambda _: loss.armed.set())
    done: list[tuple[int, int]] = []

    def lost() -> bool:
        if loss.lost.is_set():
            done.append((database.committed(), job.done()))
        return loss.lost.is_set()

    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, begun)
    job.until(lost, PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(f"COMMIT of batch {trial.before}, its answer lost, connection closed", loss.lost.is_set())
    trial.hit(f"in PostgreSQL batch {done[-1][0]} was done then", done[-1][0] >= trial.before)
    trial.hit("nothing redone", "is retried" not in job.text)
    return trial.outcome(job, problem=database.problem())
