"""F26: jobs with state die, or find another state than they left, at each step of its commit.

The job counts, sums up and keeps the first number of each key, and joins these: a group, a deduplication, a join. It
copies the records too, which the verifier counts. When it has ended, its table and the state of its groups are compared
with a recomputation.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.flow.inspection import read_rows, stored_spec
from penstock.flow.manifest import Manifest
from penstock.flow.storage import Storage
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.progress import ProgressTopic, Seal, read_progress
from penstock.kafka.properties import READ_COMMITTED
from penstock.kafka.topics import create_topic
from penstock.testing import Then, Trap
from tests.faults.checkpoints import keep, must_stop, put_back
from tests.faults.driver_deaths import ENOUGH_FOR_A_SHUFFLE, die
from tests.faults.executors import clustered, kill_executor_of
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.steps import stopped
from tests.faults.two_targets import Database
from tests.waiting import eventually

_POINTS = Path(__file__).with_name("points")
_FIRST = "SELECT k, n FROM (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS r FROM s) WHERE r = 1"
_JOINED = (
    "SELECT a.k, a.c, a.s, b.n FROM (SELECT k, COUNT(*) AS c, SUM(n) AS s FROM s GROUP BY k) AS a "
    f"JOIN ({_FIRST}) AS b ON a.k = b.k"
)
_COLUMNS = "k STRING, c BIGINT, s BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED"
#: Batches of a job, of which those from the third on merge segments.
_BATCHES = 6


@dataclass
class Point:
    """A point of the state's commit, where a process of the job stands still until it is killed."""

    trial: Trial
    action: str
    pattern: str

    @property
    def _file(self) -> Path:
        return self.trial.folder / "reached"

    @property
    def environment(self) -> dict[str, str]:
        """For the job's processes."""
        return {"PYTHONPATH": str(_POINTS), "PENSTOCK_POINT": f"{self.action} {self.pattern} {self._file}"}

    @property
    def process(self) -> int:
        """The process that is there."""
        return int(self._file.read_text())

    def release(self) -> None:
        """Let the process go on."""
        self._file.unlink()

    def wait(self, job: JobProcess) -> None:
        """Wait until a process is there."""
        job.until(lambda: self._file.exists() and self._file.read_text(), PATIENCE)


def sql_of(trial: Trial, *, parallelism: int = 2, batches: int = _BATCHES) -> str:
    """The job."""
    table = f"counts-{trial.tag}"
    if not trial.session.topics([table]):
        create_topic(trial.session, table, partitions=2)
    options = {
        "connector": "upsert-kafka",
        "topic": table,
        "properties.bootstrap.servers": trial.cluster.bootstrap,
        "key.format": "json",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": trial.prefix,
    }
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    head, insert, copied = trial.sql(keyed=True, batches=batches).partition("INSERT INTO")
    head = head.replace("'parallelism.default' = '2'", f"'parallelism.default' = '{parallelism}'")
    head = head.replace(") WITH (", ", p AS PROCTIME()) WITH (", 1)
    return (
        f"{head}CREATE TABLE counts ({_COLUMNS}) WITH ({clause});\n"
        f"EXECUTE STATEMENT SET BEGIN\n{insert}{copied}INSERT INTO counts {_JOINED};\nEND;\n"
    )


# --- what must have come out -------------------------------------------------------------------------------------


def recomputed(trial: Trial) -> dict[str, tuple[int, int, int]]:
    """Count, sum and first number of each key."""
    found: dict[str, list[int]] = defaultdict(list)
    for partition, count in trial.numbered.written.items():
        for number in range(count):
            found[f"{partition}-{number % 16}"].append(number)
    return {key: (len(numbers), sum(numbers), min(numbers)) for key, numbers in found.items()}


def table_of(trial: Trial) -> dict[str, tuple[int, int, int]]:
    """The table that the job has written."""
    topic = f"counts-{trial.tag}"
    places = [(topic, each.partition) for each in trial.session.topic(topic).partitions]
    ends = list_offsets(trial.session, places, LATEST, isolation=READ_COMMITTED)
    ranges = [Range(*place, 0, end.offset) for place, end in ends.items() if end is not None and end.offset]
    found: dict[str, tuple[int, int, int]] = {}
    for chunk in Fetcher(trial.session, ranges, isolation=READ_COMMITTED):
        for records in chunk.slices():
            for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True):
                row = json.loads(value or b"null")
                if row is None:
                    found.pop(json.loads(key)["k"], None)
                else:
                    found[row["k"]] = row["c"], row["s"], row["n"]
    return found


def manifest_of(trial: Trial, job: JobProcess) -> Manifest:
    """The manifest that the job's progress refers to."""
    identity = json.loads((job.checkpoint / job.name / "penstock" / "job.json").read_text())
    partitions = len(trial.session.topic(PROGRESS).partitions)
    topic = ProgressTopic(PROGRESS, None, partitions, seal=Seal(identity["query_id"], identity["secret"]))
    progress = read_progress(trial.session, topic, trial.transactional_id).progress
    assert progress is not None
    return Manifest.read(storage_of(job), progress.state)


def storage_of(job: JobProcess) -> Storage:
    return Storage.of(str(state_of(job)))


def state_of(job: JobProcess) -> Path:
    return job.checkpoint / job.name / "state"


def groups_of(trial: Trial, job: JobProcess) -> dict[str, tuple[int, int]]:
    """Count and sum of each key in the state of the groups."""
    storage, found = storage_of(job), dict[str, tuple[int, int]]()
    for uid, tables in manifest_of(trial, job).operators.items():
        refs = tables.get("groups", ())
        spec = stored_spec(storage, refs, "groups", uid)
        if spec is None:
            continue
        for batch in read_rows(storage, refs, spec, uid):
            for row in batch.to_pylist():
                total = next(each for name, each in row.items() if name.startswith("SUM"))
                assert row["k"] not in found, "a key is in the state twice"
                found[row["k"]] = row["rows"], total
    return found


def outcome(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """The verdict on the copies, and the table and the state beside a recomputation."""
    expected = recomputed(trial)
    problems = []
    if (table := table_of(trial)) != expected:
        wrong = [key for key in expected if table.get(key) != expected[key]]
        problems.append(f"{len(wrong)} of {len(expected)} rows of the table are wrong, {wrong[:3]} among them")
    if groups_of(trial, job) != {key: row[:2] for key, row in expected.items()}:
        problems.append("the state of the groups is not what a recomputation gives")
    if not problems:
        trial.hit(f"{len(expected)} rows of the table and of the state as recomputed")
    return trial.outcome(job, stop=stop, problem="; ".join(problems))


def finish(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """Start the job, which has to come to its end."""
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return outcome(trial, job, stop=stop)


# --- deaths ------------------------------------------------------------------------------------------------------


def die_at(trial: Trial, action: str, name: str, batch: int) -> JobProcess:
    """A job that was killed where it keeps its state: at the file of a batch with this name."""
    point = Point(trial, action, f"{batch:09d}-{name}")
    job = trial.job(sql_of(trial), environment=point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    job.kill()
    return job


def left_of(job: JobProcess, batch: int) -> list[str]:
    """What kinds of files of a batch there are."""
    return sorted({path.suffix for path in state_of(job).glob(f"{batch:09d}-*")})


@cell("F26", "driver and workers, when a segment is written")
def at_a_segment(trial: Trial) -> Outcome:
    job = die_at(trial, "after", "*.arrow", trial.before)
    left = left_of(job, trial.before)
    trial.hit(f"files of batch {trial.before}: {', '.join(left)}", left == [".arrow"])
    stopped(trial, job, planned=trial.before)
    return finish(trial, job)


@cell("F26", "driver and workers, before the manifest is written")
def before_the_manifest(trial: Trial) -> Outcome:
    job = die_at(trial, "before", "*.manifest", trial.before)
    left = left_of(job, trial.before)
    trial.hit(f"files of batch {trial.before}: {', '.join(left)}", left == [".arrow"])
    stopped(trial, job, planned=trial.before)
    return finish(trial, job)


@cell("F26", "driver and workers, when the manifest is written; its files stay")
def at_the_manifest(trial: Trial) -> Outcome:
    job = die_at(trial, "after", "*.manifest", trial.before)
    dead = {path.name for path in state_of(job).glob(f"{trial.before:09d}-*")}
    kinds = left_of(job, trial.before)
    trial.hit(f"files of batch {trial.before}: {', '.join(kinds)}", kinds == [".arrow", ".manifest"])
    stopped(trial, job, planned=trial.before)
    found = finish(trial, job)
    left = dead & {path.name for path in state_of(job).iterdir()}
    return (
        found if left == dead else replace(found, problem=f"of {len(dead)} files that nothing names {len(left)} stay")
    )


@cell("F26", "driver and workers, between manifest and EndTxn")
def before_end_txn(trial: Trial) -> Outcome:
    job = trial.job(sql_of(trial))
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    kinds = left_of(job, trial.before)
    trial.hit(f"files of batch {trial.before}: {', '.join(kinds)}", kinds == [".arrow", ".manifest"])
    return finish(trial, job)


@cell("F26", "driver and workers, after EndTxn, before Spark's commit log")
def after_end_txn(trial: Trial) -> Outcome:
    job = trial.job(sql_of(trial))
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    manifests = len(list(state_of(job).glob(f"{trial.before:09d}-*.manifest")))
    found = finish(trial, job)
    trial.hit(f"{manifests} manifest of batch {trial.before}", manifests == 1)
    return found


@cell("F26", "driver and workers, when merged segments are written")
def at_a_merge(trial: Trial) -> Outcome:
    """In the batch that leaves out segments of the one before."""
    batch = 3
    job = die_at(trial, "after", "*.arrow", batch)
    trial.hit(f"files of batch {batch}: .arrow", left_of(job, batch) == [".arrow"])
    before = _segments(state_of(job), batch - 1)
    next_one = Point(trial, "before", f"{batch + 1:09d}-*.manifest")
    (trial.folder / "reached").unlink()
    again = trial.job(sql_of(trial), folder="again", environment=next_one.environment)
    again.start()
    next_one.wait(again)
    again.kill()
    merged = before - _segments(state_of(job), batch)
    trial.hit(f"batch {batch} has merged {len(merged)} of {len(before)} files", merged)
    return finish(trial, job)


def _segments(state: Path, batch: int) -> set[str]:
    """The files of the state after a batch."""
    manifests = sorted(state.glob(f"{batch:09d}-*.manifest"), key=lambda path: path.stat().st_mtime_ns)
    tables = json.loads(manifests[-1].read_text())["operators"].values()
    return {ref["file"] for each in tables for refs in each.values() for ref in refs}


@cell("F26", "driver, when files of former batches are deleted")
def at_garbage_collection(trial: Trial) -> Outcome:
    point = Point(trial, "delete", "*.arrow")
    job = trial.job(sql_of(trial), environment=point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    job.kill()
    batch = job.planned()
    trial.hit(f"in batch {batch}, which is committed", left_of(job, batch) == [".arrow", ".manifest"])
    stopped(trial, job, planned=batch)
    return finish(trial, job)


@cell("F26", "executor, when its task has written a segment")
def executor_at_a_segment(trial: Trial) -> Outcome:
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    point = Point(trial, "after", "000000001-*.arrow")
    job = clustered(trial, sql_of(trial, batches=2), point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    kill_executor_of(point.process)
    job.finish(PATIENCE)
    trial.hit("batch 1 is retried", "batch 1 is retried" in job.text)
    return outcome(trial, job)


# --- changes between runs ----------------------------------------------------------------------------------------


@cell("F26", "from 2 tasks to 8, killed between manifest and EndTxn before and after")
def rescaled(trial: Trial) -> Outcome:
    trial.records = max(trial.records, 2 * ENOUGH_FOR_A_SHUFFLE)
    two, eight = (sql_of(trial, parallelism=each, batches=4) for each in (2, 8))
    job = trial.job(two)
    trap = trial.committing(2, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=1, done=0)
    more = trial.job(eight, folder="more")
    trap = trial.committing(2, call=lambda _: more.kill(), then=Then.DROP)
    more.start()
    trial.wait(more, trap)
    more.kill()
    trial.died(more, trap, planned=2, done=1)
    trial.cluster.heal()
    ranges = [len({path.name.split("-")[3] for path in state_of(job).glob(f"{each:09d}-*.arrow")}) for each in (0, 1)]
    trial.hit(f"{ranges[0]} ranges of keys in batch 0, {ranges[1]} in batch 1", ranges[0] == 2 and ranges[1] == 8)
    return finish(trial, more)


# --- the checkpoint ----------------------------------------------------------------------------------------------


def halted(trial: Trial, *, after: int = 2) -> JobProcess:
    """A job that was killed when so many batches were done."""
    job = trial.job(sql_of(trial))
    trap = trial.committing(after + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=after, done=after - 1)
    return job


@cell("F26", "an older copy restored, then the latest, with their state")
def older_copy(trial: Trial) -> Outcome:
    job = trial.job(sql_of(trial))
    trial.published(after=trial.ended(1), call=lambda _: keep(trial, job, "older"))
    trap = trial.committing(4, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=3, done=2)
    keep(trial, job, "latest")
    put_back(trial, job, "older")
    trial.hit(f"a copy with batch {job.planned()} planned put back", job.planned() == 1)
    stop = must_stop(trial, job, "an older checkpoint was restored")
    put_back(trial, job, "latest")
    return finish(trial, job, stop=stop)


@cell("F26", "the checkpoint moved, with its state")
def moved(trial: Trial) -> Outcome:
    job = halted(trial)
    shutil.move(job.checkpoint, trial.folder / "elsewhere")
    again = trial.job(sql_of(trial), folder="again", checkpoint="elsewhere")
    trial.hit("the first place is gone", not job.checkpoint.exists())
    return finish(trial, again)


def without(trial: Trial, choose: Callable[[JobProcess], Path]) -> Outcome:
    """What is missing from the state stops the job, which says what; when it is back, the job goes on."""
    job = halted(trial)
    lost, away = choose(job), trial.folder / "away"
    shutil.move(lost, away)
    named = lost.name if lost.suffix else manifest_name(trial, job)
    stop = must_stop(trial, job, named, "is missing")
    trial.hit(f"'{lost.name.split('-')[0]}' was moved away")
    if lost.exists():
        shutil.rmtree(lost)
    shutil.move(away, lost)
    return finish(trial, job, stop=stop)


def manifest_name(trial: Trial, job: JobProcess) -> str:
    """The file that the job's progress refers to."""
    (found,) = state_of(job).glob("000000001-*.manifest") if state_of(job).exists() else [Path("000000001-")]
    return found.name


@cell("F26", "a file of the state is lost")
def lost_file(trial: Trial) -> Outcome:
    return without(trial, lambda job: state_of(job) / sorted(manifest_of(trial, job).files())[0])


@cell("F26", "the folder of the state is deleted")
def lost_folder(trial: Trial) -> Outcome:
    return without(trial, state_of)


@cell("F26", "a second driver on the checkpoint, while the first stands between manifest and EndTxn")
def two_drivers(trial: Trial) -> Outcome:
    """The first wakes up when the second is done."""
    point = Point(trial, "after", f"{trial.before:09d}-*.manifest")
    sql = sql_of(trial)
    first, second = trial.job(sql, folder="first", environment=point.environment), trial.job(sql, folder="second")
    trial.numbered.write(trial.records)
    first.start()
    point.wait(first)
    first.pause()
    trial.hit(
        f"batch {trial.before} planned, its manifest written", left_of(first, trial.before) == [".arrow", ".manifest"]
    )
    trial.verifier.restarted()
    second.start().finish(PATIENCE)
    point.release()
    first.resume()
    ended = first.wait(PATIENCE)
    trial.hit(f"the first ends with {ended}: {first.error[:80]}", ended != 0)
    eventually(lambda: not first.processes(), PATIENCE)
    return outcome(trial, second, stop=first.error)


@cell("F26", "a manifest is changed")
def changed_manifest(trial: Trial) -> Outcome:
    job = halted(trial)
    path = state_of(job) / manifest_name(trial, job)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"version":1', b'"version": 1'))
    trial.hit("the manifest changed", path.read_bytes() != content)
    stop = must_stop(trial, job, path.name, "its content has changed")
    path.write_bytes(content)
    return finish(trial, job, stop=stop)


# --- two targets -------------------------------------------------------------------------------------------------


def with_database(trial: Trial, database: Database, *, first: bool) -> str:
    """The job, which writes the records to PostgreSQL too: committed ``first`` in each batch, or last."""
    sql = sql_of(trial).replace("EXECUTE", f"{database.table}EXECUTE")
    insert = "INSERT INTO numbers SELECT k, n FROM s;\n"
    if first:
        return sql.replace("BEGIN\n", f"BEGIN\n{insert}")
    return sql.replace("END;", f"{insert}END;").replace(
        "'scan.startup.mode'", "'properties.commit.offsets.on.checkpoint' = 'false', 'scan.startup.mode'", 1
    )


def killed_between(trial: Trial, database: Database, job: JobProcess, trap: Trap, *, in_database: int) -> Outcome:
    """Kill the job at the trap, make sure which of the two has the batch, and let it come to its end."""
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    trial.hit(f"in PostgreSQL batch {database.committed()} was done", database.committed() == in_database)
    pattern = f"{trial.before:09d}-*.manifest"
    trial.hit("the output of the batch is kept", list(state_of(job).glob(f"{trial.before:09d}-*.output")))
    before = set(state_of(job).glob(pattern))
    trial.verifier.restarted()
    again = Point(trial, "before", f"{trial.before + 1:09d}-*.manifest")
    more = trial.job(job.sql, folder="again", environment=again.environment)
    more.start()
    again.wait(more)
    attempts = set(state_of(job).glob(pattern)) | before
    trial.hit("its operators have run once", len(attempts) == 1)
    again.release()
    more.finish(PATIENCE)
    found = outcome(trial, more)
    problem = database.problem()
    return replace(found, problem="; ".join(filter(None, (found.problem, problem))))


@cell("F26", "Kafka and PostgreSQL, killed between the two commits")
def kafka_first(trial: Trial) -> Outcome:
    database = Database(trial)
    job = trial.job(with_database(trial, database, first=False))
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return killed_between(trial, database, job, trap, in_database=trial.before - 1)


@cell("F26", "PostgreSQL and Kafka, killed between the two commits")
def postgres_first(trial: Trial) -> Outcome:
    database = Database(trial)
    job = trial.job(with_database(trial, database, first=True))
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return killed_between(trial, database, job, trap, in_database=trial.before)
