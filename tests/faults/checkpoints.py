"""F7: checkpoints that are put back, copied, damaged, or find no room."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import READ_UNCOMMITTED
from penstock.kafka.record_batches import scan
from penstock_testing import Api, Then, Trap
from tests.faults.driver_deaths import die, planning
from tests.faults.harness import COMMITTED, PATIENCE, PATIENT, Outcome, Trial, Unavailable, cell, story
from tests.faults.processes import JobProcess
from tests.faults.second_starts import TAKE_OVER
from tests.faults.steps import stopped
from tests.waiting import eventually

LATEST_COPY = "latest"
#: How ``penstock run`` ends when a job has failed: worth another start, or not; and when it runs already.
FAILED, FAILED_FOR_GOOD, REFUSED = 1, 3, 4


# --- copies ------------------------------------------------------------------------------------------------------


def keep(trial: Trial, job: JobProcess, name: str) -> Path:
    """Copy the job's checkpoint as backups do it, file by file while the job goes on; what is gone by then is left
    out."""
    target = trial.folder / "kept" / name
    for path in sorted(job.checkpoint.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_file():
                copy = target / path.relative_to(job.checkpoint)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
    return target


def put_back(trial: Trial, job: JobProcess, name: str) -> None:
    """Replace the job's checkpoint by a copy that was kept."""
    shutil.rmtree(job.checkpoint)
    shutil.copytree(trial.folder / "kept" / name, job.checkpoint)


def written(trial: Trial) -> int:
    """How many records the output holds, those that no reader sees among them."""
    places = [(trial.sink, each.partition) for each in trial.session.topic(trial.sink).partitions]
    ends = list_offsets(trial.session, places, LATEST, isolation=READ_UNCOMMITTED)
    ranges = [Range(*place, 0, end.offset) for place, end in ends.items() if end is not None and end.offset]
    chunks = Fetcher(trial.session, ranges, isolation=READ_UNCOMMITTED)
    return sum(len(scan(each.records, start_offset=each.start, end_offset=each.end).offsets) for each in chunks)


def must_stop(trial: Trial, job: JobProcess, *texts: str, status: int = FAILED_FOR_GOOD) -> str:
    """Start the job, which has to end with an error that says all of ``texts``, and to write nothing. The error."""
    before = written(trial)
    ended = job.start().wait(PATIENCE)
    assert ended == status, f"it ended with status {ended}:\n{job.text[-3000:]}"
    missing = [text for text in texts if text not in job.error]
    assert not missing, f"{missing} not in the error: {job.error or job.text[-3000:]}"
    assert not job.left_over(), "processes have outlived the job"
    assert written(trial) == before, f"it wrote {written(trial) - before} records and then said: {job.error}"
    return job.error


def batches_named(error: str) -> list[int]:
    """The batches that an error names together with where they begin, and end where that is known."""
    return [int(each) for each, _ in re.findall(r"batch (\d+) of query '[^']+' \(from \S+( to \S+)?\)", error)]


def go_on(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """Start the job (again), which has to come to its end now."""
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, stop=stop)


# --- put back ----------------------------------------------------------------------------------------------------


@cell("F7", "restored three times: two older copies taken while running, then the latest")
def restored_three_times(trial: Trial) -> Outcome:
    job, older = trial.job(), (1, 2)
    for batch in older:
        trial.published(after=trial.ended(batch), call=lambda _, batch=batch: keep(trial, job, f"batch-{batch}"))
    trap = trial.published(after=trial.ended(4), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=4, done=3)
    keep(trial, job, LATEST_COPY)
    for batch in older:
        put_back(trial, job, f"batch-{batch}")
        trial.hit(
            f"a copy with batch {job.planned()} planned put back",
            (job.planned(), job.done()) == (batch, batch - 1),
        )
        stop = must_stop(trial, job, "an older checkpoint was restored")
        assert batches_named(stop) == [batch, 3], stop
    put_back(trial, job, LATEST_COPY)
    return go_on(trial, job, stop=stop)


@cell("F7", "the latest copy restored, after each of three deaths")
def latest_restored(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    points: tuple[tuple[Callable[..., Trap], int], ...] = (
        (lambda **options: trial.published(after=trial.ended(1), **options), 1),
        (lambda **options: trial.ended(2, **options), 2),
        (lambda **options: trial.committing(2, **options), 4),  # batch 2 is passed over, since it was committed
    )
    trial.numbered.write(trial.records)
    for number, (point, planned) in enumerate(points):
        trap = point(call=lambda _: job.kill(), then=Then.DROP)
        job.start()
        trap.wait(PATIENCE)
        job.kill()
        trial.died(job, trap, planned=planned)
        trial.cluster.heal()
        keep(trial, job, f"death-{number}")
        put_back(trial, job, f"death-{number}")
    return go_on(trial, job)


@cell("F7", "an older copy restored, the batch after it published with other offsets")
def published_otherwise(trial: Trial) -> Outcome:
    """More has come in since, so that Spark plans the batch after the copy larger than it was."""
    job = trial.job(trial.sql(bounded=False, batches=1))
    part = trial.records // 3
    trial.numbered.write(part)
    job.start()
    assert trial.verifier.wait_for_records(part, PATIENCE, alive=lambda: job.running), job.text[-3000:]
    job.until(lambda: job.done() >= 0, PATIENCE)
    keep(trial, job, "first")
    job.pause()  # so that it is one batch
    trial.numbered.write(part)
    job.resume()
    job.until(lambda: job.done() >= 1, PATIENCE)
    job.kill()
    keep(trial, job, LATEST_COPY)
    trial.numbered.write(trial.records - 2 * part)
    put_back(trial, job, "first")
    stop = must_stop(trial, job, "the job published from another checkpoint")
    assert batches_named(stop) == [1, 1], stop
    trial.hit("batch 1 planned again with other offsets", job.planned() == 1)
    put_back(trial, job, LATEST_COPY)
    trial.verifier.restarted()
    job.start()
    assert trial.verifier.wait_for_records(trial.records, PATIENCE, alive=lambda: job.running), job.text[-3000:]
    job.stop(PATIENCE)
    return trial.outcome(job, stop=stop)


# --- run twice ---------------------------------------------------------------------------------------------------


@cell("F7", "copied in a batch and run twice, from the same batch")
def run_twice(trial: Trial) -> Outcome:
    """The first is held in its open transaction until the second has published a batch."""
    first = trial.job(trial.sql(keyed=True, sink=PATIENT), folder="first")
    second = trial.job(trial.sql(keyed=True), folder="second", checkpoint="copied", arguments=TAKE_OVER)
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: copy_to(first, second), then=Then.HOLD)
    trial.numbered.write(trial.records)
    first.start()
    trap.wait(PATIENCE)
    published = trial.ended(1)
    trial.verifier.restarted()
    second.start()
    published.wait(PATIENCE)
    trial.hit(story(trap))
    found = (first.planned(), first.done())
    trial.hit(f"batch {found[0]} planned, batch {found[1]} done", found == (trial.before, trial.before - 1))
    trial.hit(f"the second has {story(published)} meanwhile", published.errors == (0,))
    trap.release()
    stop = fenced_by(first, second)
    second.finish(PATIENCE)
    return trial.outcome(second, stop=stop)


@cell("F7", "copied in a batch and run twice, the second from an older batch")
def run_twice_from_behind(trial: Trial) -> Outcome:
    """The second stops because it is behind, and leaves the first alone, which is about to commit a batch."""
    first = trial.job(trial.sql(sink=PATIENT), folder="first")
    second = trial.job(trial.sql(), folder="second", checkpoint="copied", arguments=TAKE_OVER)
    trial.published(after=trial.ended(1), call=lambda _: copy_to(first, second))
    trap = trial.committing(4, then=Then.HOLD)
    trial.numbered.write(trial.records)
    first.start()
    trap.wait(PATIENCE)
    behind = must_stop(trial, second, "an older checkpoint was restored")
    assert batches_named(behind) == [1, 2], behind
    trial.hit("the second said that it is behind", first.running)
    trap.release()
    trap.wait_for_answers(PATIENCE)
    trial.hit(story(trap), trap.errors == (0,))
    first.finish(PATIENCE)
    return trial.outcome(first, stop=behind)


@cell("F7", "copied after a death, both started at once")
def started_at_once(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", checkpoint="copied")
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: first.kill(), then=Then.DROP)
    die(trial, first, trap, planned=trial.before, done=trial.before - 1)
    copy_to(first, second)
    return race(trial, first, second)


@cell("F7", "one checkpoint, started twice at once")
def started_twice(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second")
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: first.kill(), then=Then.DROP)
    die(trial, first, trap, planned=trial.before, done=trial.before - 1)
    trial.verifier.restarted()
    both = (first, second)
    for job in both:
        job.start()
    ends = [job.wait(PATIENCE) for job in both]
    trial.hit(f"ended with {ends[0]} and {ends[1]}", sorted(ends) == [0, REFUSED])
    winner, loser = both[ends[0] != 0], both[ends[0] == 0]
    told = f"process {winner.pid} on" in loser.error
    return trial.outcome(winner, stop=loser.error, problem="" if told else f"the other one says: {loser.text[-2000:]}")


def race(trial: Trial, first: JobProcess, second: JobProcess) -> Outcome:
    """Start both. They are kept where each takes the id until both are there: the one whose request is answered last
    has it and comes to its end, and the other one says who that is."""
    gate = trial.cluster.add(Trap(Api.INIT_PRODUCER_ID, contains=[trial.transactional_id], times=2, then=Then.HOLD))
    trial.verifier.restarted()
    both = (first, second)
    for job in both:
        job.start()
    eventually(lambda: len(gate.frames) == 2, PATIENCE, lambda: f"{first.text[-1500:]}\n{second.text[-1500:]}")
    trial.hit(f"{story(gate)}, one of each", {frame.pid for frame in gate.frames} == {job.pid for job in both})
    gate.release()
    ends = [job.wait(PATIENCE) for job in both]
    trial.hit(f"ended with {ends[0]} and {ends[1]}", sorted(ends) == [0, FAILED_FOR_GOOD])
    loser = both[ends[0] == 0]
    stop = loser.error
    problem = "" if "was taken over by" in stop else f"the one that lost says: {stop or loser.text[-3000:]}"
    assert not loser.left_over(), "processes have outlived the job"
    return trial.outcome(both[ends[0] != 0], stop=stop, problem=problem)


def copy_to(first: JobProcess, second: JobProcess) -> None:
    """Copy the checkpoint of one job to that of another."""
    shutil.copytree(first.checkpoint, second.checkpoint, ignore=shutil.ignore_patterns(".*"))


def fenced_by(loser: JobProcess, winner: JobProcess) -> str:
    """Wait for the end of the one that was shut out, which has to name the other. Its error."""
    error = fenced(loser)
    assert f"process {winner.pid} on" in error, error
    return error


def fenced(loser: JobProcess) -> str:
    """Wait for the end of the one that was shut out. Its error."""
    assert loser.wait(PATIENCE) == FAILED_FOR_GOOD, f"the one that was shut out must stop:\n{loser.text[-3000:]}"
    assert "was taken over by" in loser.error, loser.error or loser.text[-3000:]
    assert not loser.left_over(), "processes have outlived the job"
    return loser.error


# --- damaged -----------------------------------------------------------------------------------------------------


def damaged(trial: Trial, choose: Callable[[JobProcess], list[str]]) -> Outcome:
    """Kill the job when a batch is committed and not logged, cut files of its checkpoint to a half and to nothing, and
    put them back as they were after each."""
    job = dead(trial)
    keep(trial, job, LATEST_COPY)
    names = choose(job)
    for name in names:
        path = job.checkpoint / job.name / name
        whole = path.read_bytes()
        for size in (len(whole) // 2, 0):
            path.write_bytes(whole[:size])
            stop = must_stop(trial, job, name)
            put_back(trial, job, LATEST_COPY)
        shown = re.sub(r"-[\w-]{22}(?=\.)", "-*", name)  # without the cluster's id
        trial.hit(f"{shown} cut to {len(whole) // 2} and 0 bytes", len(whole) > 1)
    return go_on(trial, job, stop=stop)


def dead(trial: Trial) -> JobProcess:
    """A job that was killed after EndTxn and before Spark's commit log."""
    job = trial.job()
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    return job


@cell("F7", "last file of Spark's offset log cut")
def offsets_cut(trial: Trial) -> Outcome:
    return damaged(trial, lambda job: [f"offsets/{job.planned()}"])


@cell("F7", "last file of Spark's commit log cut")
def commits_cut(trial: Trial) -> Outcome:
    return damaged(trial, lambda job: [f"commits/{job.done()}"])


@cell("F7", "penstock's own files cut", deadline=900)
def documents_cut(trial: Trial) -> Outcome:
    def documents(job: JobProcess) -> list[str]:
        found = sorted(path.name for path in (job.checkpoint / job.name / "penstock").glob("*.json"))
        kinds = [name.partition("-")[0] for name in found]
        assert kinds == ["alive.1.json", "identity", "job.json", "owner.1.json", "run.json", "source", "target"], found
        return [f"penstock/{name}" for name in found if name.split(".")[0] not in {"run", "owner", "alive"}]

    return damaged(trial, documents)


@cell("F7", "the file that names the last run cut")
def run_cut(trial: Trial) -> Outcome:
    """Each start writes it: the job goes on."""
    job = dead(trial)
    path = job.checkpoint / job.name / "penstock" / "run.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit(f"cut to {len(whole) // 2} bytes, and written by the start", "run" in json.loads(path.read_bytes()))
    return trial.outcome(job)


@cell("F7", "Spark's metadata file cut")
def metadata_cut(trial: Trial) -> Outcome:
    return damaged(trial, lambda job: ["metadata"])


@cell("F7", "last file of Spark's offset log removed, without a copy to put back")
def offsets_removed(trial: Trial) -> Outcome:
    """The batch is planned again as it was, since its source has not changed, and found to be committed."""
    job = dead(trial)
    (job.checkpoint / job.name / "offsets" / str(job.planned())).unlink()
    trial.hit(f"left: batch {job.planned()} planned, batch {job.done()} done", job.planned() == trial.before - 1)
    return go_on(trial, job)


@cell("F7", "last files of both of Spark's logs removed")
def logs_removed(trial: Trial) -> Outcome:
    """What is left is an older checkpoint."""
    job = dead(trial)
    keep(trial, job, LATEST_COPY)
    for name in (f"offsets/{job.planned()}", f"commits/{job.done()}"):
        (job.checkpoint / job.name / name).unlink()
    last = trial.before - 2
    trial.hit(
        f"left: batch {job.planned()} planned, batch {job.done()} done", (job.planned(), job.done()) == (last + 1, last)
    )
    stop = must_stop(trial, job, "an older checkpoint was restored")
    assert batches_named(stop) == [trial.before - 1, trial.before], stop
    put_back(trial, job, LATEST_COPY)
    return go_on(trial, job, stop=stop)


# --- no room -----------------------------------------------------------------------------------------------------


class SmallDisk:
    """A file system of its own that can be filled up. Raises Unavailable where none may be mounted."""

    def __init__(self, trial: Trial, megabytes: int = 2):
        self.path = trial.folder / "disk"
        self.path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(self.path)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode:
            raise Unavailable(f"needs a file system that is full, and may not mount one: {mounted.stderr.strip()}")
        trial.stack.callback(subprocess.run, ["umount", "--lazy", str(self.path)], check=True)
        self._filler = self.path / "filler"

    def fill(self) -> None:
        """Leave no room, not for a byte."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(os.sysconf("SC_PAGE_SIZE")))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()


NO_ROOM = "No space left on device"


@cell("F7", "disk full when Spark logs a batch as done")
def full_at_the_commit_log(trial: Trial) -> Outcome:
    disk = SmallDisk(trial)
    job = trial.job(checkpoint=disk.path / "checkpoint")
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: disk.fill())
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    return full_and_go_on(trial, job, disk, planned=trial.before, done=trial.before - 1, committed=True)


@cell("F7", "disk full when Spark plans a batch")
def full_at_the_offset_log(trial: Trial) -> Outcome:
    disk = SmallDisk(trial)
    job = trial.job(trial.sql(bounded=False), checkpoint=disk.path / "checkpoint")
    trap = planning(trial, job, after=trial.ended(trial.before), call=lambda _: disk.fill())
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    return full_and_go_on(trial, job, disk, planned=trial.before - 1, done=trial.before - 1, bounded=False)


@cell("F7", "disk full at the start")
def full_at_the_start(trial: Trial) -> Outcome:
    """Before anything is in the checkpoint, and again where a transaction was left open."""
    disk = SmallDisk(trial)
    job = trial.job(checkpoint=disk.path / "checkpoint")
    disk.fill()
    must_stop(trial, job, NO_ROOM, "cannot write to the checkpoint", status=FAILED)
    disk.free()
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    disk.fill()
    stop = must_stop(trial, job, NO_ROOM, "cannot write to the checkpoint", status=FAILED)
    disk.free()
    trial.hit("full when the checkpoint was new, and in a batch")
    return go_on(trial, job, stop=stop)


@cell("F7", "disk full where batches wait to be published, through a shuffle")
def full_at_the_shuffle(trial: Trial) -> Outcome:
    """Spark's local directories, not the checkpoint. With 100,000 records, whatever ``records`` says: fewer are not
    shuffled."""
    trial.records = 100_000
    disk = SmallDisk(trial, megabytes=64)
    job = trial.job(trial.sql(keyed=True, batches=2), environment={"SPARK_LOCAL_DIRS": str(disk.path)})
    trap = trial.ended(1, call=lambda _: disk.fill())
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    return full_and_go_on(trial, job, disk, planned=1, done=0)


def full_and_go_on(
    trial: Trial,
    job: JobProcess,
    disk: SmallDisk,
    *,
    planned: int,
    done: int,
    bounded: bool = True,
    committed: bool = False,
) -> Outcome:
    """Wait for the error, make room, and start the job again. ``committed``: what was published has to be so then."""
    assert job.wait(PATIENCE) == FAILED, job.text[-3000:]
    stop = job.error
    assert NO_ROOM in stop, stop or job.text[-3000:]
    stopped(trial, job, planned=planned, done=done)
    trial.hit("ended by the full disk")
    if committed:
        trial.stands(COMMITTED)
    assert not job.left_over(), "processes have outlived the job"
    disk.free()
    trial.verifier.restarted()
    job.start()
    if bounded:
        job.finish(PATIENCE)
    else:
        assert trial.verifier.wait_for_records(trial.records, PATIENCE, alive=lambda: job.running), job.text[-3000:]
        job.stop(PATIENCE)
    return trial.outcome(job, stop=stop)
