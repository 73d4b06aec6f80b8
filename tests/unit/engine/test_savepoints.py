"""Savepoints and the state of jobs, by the files of a checkpoint alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.cli.main import main
from penstock.columns.hashing import Groups, key_hashes
from penstock.delivery import deliver
from penstock.engine.checkpoint import JobCheckpoint, read_location, savepoints
from penstock.engine.checkpoint.committed import read_committed, write_started, write_state, write_stopped
from penstock.engine.checkpoint.savepoints import check_origin, origin_of, read_savepoint, write_savepoint, write_starts
from penstock.engine.runs.batch_positions import JobProgress
from penstock.engine.runs.query import Query
from penstock.errors import (
    AbortableError,
    BatchError,
    CheckpointError,
    DatabaseUnavailableError,
    ExecutionError,
    PenstockError,
    UnknownOutcomeError,
)
from penstock.flow.state.manifest import Manifest, Sinks
from penstock.flow.state.segments import END
from penstock.flow.state.storage import LocalStorage, Storage
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import END_OF_TIME, OperatorTime
from penstock.spi import Batch, Committer, MetricGroup, Published, WriterFactory, WriteTasks
from tests.committers import Computed

pytestmark = pytest.mark.rule("savepoints fork identities")

UID = "totals: group(orders)"
TABLE = TableSpec("groups", pa.schema({"k": pa.int64()}), pa.schema({"n": pa.int64(), "name": pa.string()}), "keyed")


def position(offset: int) -> dict[str, Any]:
    return {"orders": {"id": "t", "partitions": {"0": {"offset": offset, "epoch": 0}}}}


class Checkpoint:
    """A checkpoint as a job and Spark write it."""

    def __init__(self, root: Path):
        self.root = root
        self.place: JobCheckpoint = read_location(str(root))
        self.place.write("job", {"query_id": "q-1", "secret": "s", "job": "totals", "sources": ["orders"]})
        self.place.write("source-0", {"source": {"topic": ["orders"]}, "start": position(0), "stop": None})

    def log(self, name: str, batch: int, content: str) -> None:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / str(batch)).write_text(content)

    def plan(self, batch: int) -> None:
        self.log("offsets", batch, f"v1\n{{}}\n{json.dumps(position((batch + 1) * 10))}")

    def done(self, batch: int) -> None:
        self.log("commits", batch, "v1\n{}")

    def state(
        self,
        batch: int,
        keys: dict[int, tuple[int, str]],
        uid: str = UID,
        *,
        ttl: int | None = None,
        before: str = "",
        time: OperatorTime | None = None,
    ) -> str:
        """Keep these rows as the state after a batch, beside that of the steps ``before``."""
        storage = Storage.from_uri(str(self.root / "state"))
        spec = TABLE.with_time_to_live(ttl)
        store = StateStore(storage, [spec], {}, 0, END, f"{batch:09d}-", uid=uid, now_ms=1_700_000_000_000)
        rows = pa.record_batch({"k": pa.array(list(keys), pa.int64())})
        values = pa.record_batch({"n": [n for n, _ in keys.values()], "name": [name for _, name in keys.values()]})
        groups = Groups.by_key(key_hashes(rows.columns), rows)
        order = groups.order
        store.keyed("groups").put(groups, values.take(pa.array(order)), np.ones(len(keys), np.bool_))
        own = {uid: {name: tuple(refs) for name, refs in store.flush().items()}}
        operators = {**Manifest.read(storage, before).operators, **own}
        manifest = Manifest(batch, operators, operator_times={uid: time} if time else {})
        reference = manifest.write(storage, f"{batch:09d}-x.manifest")
        end = (position((batch + 1) * 10),)
        write_state(self.place, Batch(batch, (None,), end, 1), reference)
        return reference


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def test_the_last_batch_that_spark_logged_as_done_is_committed(checkpoint: Checkpoint) -> None:
    for batch in range(3):
        checkpoint.plan(batch)
    checkpoint.done(0)
    checkpoint.done(1)
    found = read_committed(checkpoint.place)
    assert (found.batch, found.begun, found.state) == (1, 2, "")
    assert found.positions == {"orders": position(20)}


def test_a_batch_whose_state_is_noted_is_committed_though_spark_has_not_logged_it(checkpoint: Checkpoint) -> None:
    checkpoint.plan(0)
    reference = checkpoint.state(0, {1: (1, "a")})
    found = read_committed(checkpoint.place)
    assert (found.batch, found.begun, found.state) == (0, None, reference)


def test_positions_and_state_are_of_one_batch_though_spark_has_logged_a_later_one(checkpoint: Checkpoint) -> None:
    for batch in range(3):
        checkpoint.plan(batch)
        checkpoint.done(batch)
    reference = checkpoint.state(1, {1: (1, "a")})  # a former run has written it late
    checkpoint.log("offsets", 1, f"v1\n{{}}\n{json.dumps(position(17))}")  # and has planned the batch itself
    found = read_committed(checkpoint.place)
    assert (found.batch, found.state) == (1, reference)
    assert found.positions == {"orders": position(20)}


def test_a_run_that_was_taken_over_does_not_put_an_older_state_in_place(checkpoint: Checkpoint) -> None:
    for batch in range(3):
        checkpoint.plan(batch)
    first, _, last = (checkpoint.state(batch, {1: (batch, "a")}) for batch in range(3))
    write_state(checkpoint.place, Batch(0, (None,), (position(10),), 1), first)
    found = read_committed(checkpoint.place)
    assert (found.batch, found.state, found.begun) == (2, last, None)
    assert found.positions == {"orders": position(30)}


def test_the_state_is_that_of_the_attempt_which_a_target_has_committed(checkpoint: Checkpoint) -> None:
    """Batch 1 was written to at-least-once tables, which are exactly-once since, and was attempted again."""
    for batch in range(2):
        checkpoint.plan(batch)
    checkpoint.state(0, {1: (0, "a")})
    checkpoint.state(1, {1: (1, "a")})
    batch = Batch(1, (None,), (position(20),), 1)
    write_state(checkpoint.place, batch, "another", bound=True)
    assert (read_committed(checkpoint.place).batch, read_committed(checkpoint.place).state) == (1, "another")


@pytest.mark.parametrize(
    ("logged", "stopped", "batch"), [(9, 9, 9), (8, 9, 9), (9, None, 9), (2, None, 3), (None, None, 3)]
)
@pytest.mark.parametrize("manifest", [True, False])
def test_a_job_that_has_no_steps_any_more_goes_on_after_their_last_document(
    checkpoint: Checkpoint, logged: int | None, stopped: int | None, batch: int, manifest: bool
) -> None:
    """The steps of UNNEST keep nothing. Beside a table that repeats batches they have a manifest all the same."""
    for each in range(10):
        checkpoint.plan(each)
    storage = Storage.from_uri(str(checkpoint.root / "state"))
    state = Manifest(3, sinks=Sinks(repeating=("t",))).write(storage, "000000003-x.manifest") if manifest else ""
    write_state(checkpoint.place, Batch(3, (None,), (position(41),), 1), state)
    if logged is not None:
        checkpoint.done(logged)
    if stopped is not None:
        write_started(checkpoint.place, "a")
        write_stopped(checkpoint.place, "a", stopped)
    found = read_committed(checkpoint.place)
    assert (found.batch, found.begun) == (batch, None if stopped or batch == 9 else 9)
    assert found.state == (state if batch == 3 else "")
    assert found.positions == {"orders": position(41 if batch == 3 else 100)}


def test_the_state_of_a_former_version_is_found(checkpoint: Checkpoint) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    checkpoint.place.write("state", {"batch": 0, "state": "manifest#0"})
    assert (read_committed(checkpoint.place).state, read_committed(checkpoint.place).batch) == ("manifest#0", 0)


@pytest.mark.parametrize(
    ("stopped", "batch", "begun"),
    [
        ({"batch": 1, "planned": 2}, 1, None),  # the last one was aborted
        ({"batch": 2, "planned": 2}, 2, None),  # Spark's log lacks a batch that was published
        ({"batch": 0, "planned": 1}, 1, 2),  # a former run's
        ({}, 1, 2),
        ({"run": "a", "batch": 1, "planned": 2}, 1, None),
        ({"run": "b", "batch": 1, "planned": 2}, 1, 2),  # of a run that was taken over
    ],
)
def test_a_run_that_ended_in_good_order_says_what_it_published(
    checkpoint: Checkpoint, stopped: dict[str, int], batch: int, begun: int | None
) -> None:
    for each in range(3):
        checkpoint.plan(each)
    checkpoint.done(1)
    if "run" in stopped:  # former versions wrote none
        write_started(checkpoint.place, "a")
    checkpoint.place.write("stopped", stopped)
    found = read_committed(checkpoint.place)
    assert (found.batch, found.begun) == (batch, begun)
    assert found.positions == {"orders": position(10 * (batch + 1))}


def test_a_run_that_was_taken_over_from_does_not_replace_what_the_other_one_has_said(checkpoint: Checkpoint) -> None:
    """It wakes up when the other one has ended in good order."""
    place = checkpoint.place
    write_started(place, "a")
    write_started(place, "b")
    write_stopped(place, "b", 9)
    said = place.read("stopped")
    write_stopped(place, "a", 3)
    assert place.read("stopped") == said


class Target(Committer):
    """A target that takes batches until it does not."""

    def __init__(self, transactional: bool = True) -> None:
        self.keeps_state = transactional
        self.failure: Exception | None = None
        self.batches: list[int] = []

    def writers(self) -> WriterFactory:
        raise NotImplementedError

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        if self.failure is not None:
            raise self.failure
        self.batches.append(batch.id)
        return Published()


@dataclass
class Flow:
    """A dataflow without state, whose tasks give nothing."""

    targets: list[Target]
    keeps_rows = False
    state = ""

    def publish(self, batch: Batch, frame: object) -> list[Published]:
        return list(deliver(batch, self.targets, self).published)

    def run(self, batch: Batch, state: str) -> Flow:
        return self

    def tasks(self, target: int) -> Computed:
        return Computed("")

    def committed(self, batch: Batch) -> None:
        pass


def run_of(checkpoint: Checkpoint, targets: list[Target], monkeypatch: pytest.MonkeyPatch) -> Query:
    """A run without Spark that is about to publish batch 0."""
    spark: Any = None
    job: Any = SimpleNamespace(name="totals")
    place = checkpoint.place
    lease: Any = SimpleNamespace(check=lambda: None)
    query = Query(job, spark, place, pytest.fail, lambda: False, JobProgress(), MetricGroup(), "q-1", lease)
    write_started(place, query._run)
    query._committers, query._outputs = list(targets), [[] for _ in targets]
    query._writers = WriterFactory(lambda _: pytest.fail("no task runs"), pa.schema({}))
    if len(targets) > 1:
        query._flow = Flow(targets)
    monkeypatch.setattr("penstock.engine.runs.query.describe_batch", lambda number, *_: Batch(number, (), (), 1))
    return query


@pytest.mark.parametrize(
    "failure",
    [
        None,
        AbortableError("the brokers aborted it"),
        BatchError("a worker was lost"),
        UnknownOutcomeError("the brokers do not answer"),
        DatabaseUnavailableError("the answer to COMMIT was lost, and the database does not tell"),
        CheckpointError("the progress topic does not hold the claim of this run"),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize(("number", "transactional"), [(1, True), (2, True), (1, False)])
def test_a_batch_that_a_target_may_have_is_not_said_to_be_unpublished(
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    transactional: bool,
    failure: PenstockError | None,
) -> None:
    """What was sent outside of a transaction is there, whatever the error says."""
    targets = [Target(transactional) for _ in range(number)]
    query = run_of(checkpoint, targets, monkeypatch)
    frame: Any = Frame()
    for batch in (0, 1):
        checkpoint.plan(batch)
        targets[-1].failure = failure if batch else None
        with contextlib.suppress(ExecutionError):
            query._batch(frame, batch)
    query._rest()
    checkpoint.done(0)
    found = read_committed(checkpoint.place)
    sure = failure is None or (number == 1 and transactional and isinstance(failure, BatchError))
    assert (found.batch, found.begun) == (0 if failure else 1, None if sure else 1)
    made = write_savepoint(checkpoint.place, read_location(str(checkpoint.root / "savepoint")))
    assert made.note.startswith("batch 1 was begun") is not sure


def test_a_batch_that_was_planned_and_not_begun_is_said_to_be_unpublished(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = run_of(checkpoint, [Target()], monkeypatch)
    frame: Any = Frame()
    checkpoint.plan(0)
    query._batch(frame, 0)
    checkpoint.plan(1)
    query.stopping = lambda: True
    with pytest.raises(ExecutionError, match="being stopped"):
        query._batch(frame, 1)
    query._rest()
    found = read_committed(checkpoint.place)
    assert (found.batch, found.begun) == (0, None)


@pytest.mark.parametrize("before", [True, False], ids=["before it ends", "while it ends"])
def test_a_run_that_was_taken_over_does_not_say_what_the_other_published(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """It is idle after batch 0. Another run publishes batch 1, and is killed before it writes so to the checkpoint."""
    query = run_of(checkpoint, [Target()], monkeypatch)
    frame: Any = Frame()
    checkpoint.plan(0)
    query._batch(frame, 0)
    checkpoint.done(0)
    write = checkpoint.place.write

    def taken_over() -> None:
        write("run", {"run": "another"})
        checkpoint.plan(1)

    def late(name: str, document: Any) -> None:
        taken_over()
        write(name, {**document, "planned": 1})

    if before:
        taken_over()
    else:
        monkeypatch.setattr(checkpoint.place, "write", late)
    query._rest()
    found = read_committed(checkpoint.place)
    assert (found.batch, found.begun) == (0, 1)


class Frame:
    """A frame of nothing."""

    def persist(self) -> Frame:
        return self

    def unpersist(self) -> None:
        return


def test_a_savepoint_outlives_the_files_of_the_job(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    checkpoint.state(0, {1: (5, "a"), 2: (6, "b")})
    write_savepoint(checkpoint.place, read_location(str(tmp_path / "s")))
    for each in (tmp_path / "checkpoint" / "state").iterdir():
        each.unlink()
    new = read_location(str(tmp_path / "new"))
    origin = origin_of(
        read_location(str(tmp_path / "s")), new, [UID], ["orders"], allow_non_restored=False, warn=pytest.fail
    )
    new.write("job", {"query_id": "q-2", "job": "other", "sources": ["extra", "orders"], "origin": origin})
    write_starts(new, new.read("job") or {})
    assert new.read("source-1") == {"source": {"topic": ["orders"]}, "start": position(10), "stop": None}
    assert new.read("source-0") is None
    manifest = Manifest.read(Storage.from_uri(str(tmp_path / "new" / "state")), origin["state"])
    assert (manifest.batch, list(manifest.operators)) == (-1, [UID])
    assert committed_state(new) == origin["state"]


def test_files_of_a_copy_that_was_cut_short_are_copied_again(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.plan(0)
    reference = checkpoint.state(0, {1: (5, "a"), 2: (6, "b")})
    saved, state = read_location(str(tmp_path / "s")), tmp_path / "s" / "state"
    state.mkdir(parents=True)
    names = {path.name for path in (checkpoint.root / "state").iterdir()}
    for name in names:  # an attempt to copy them to another disk was killed
        (state / name).write_bytes((checkpoint.root / "state" / name).read_bytes()[:-10])
    write_savepoint(checkpoint.place, saved)
    assert {name: (state / name).read_bytes() for name in names} == {
        name: (checkpoint.root / "state" / name).read_bytes() for name in names
    }
    assert {path.name for path in state.iterdir()} == names
    assert Manifest.read(Storage.from_uri(str(state)), reference).batch == 0


def test_files_of_the_last_batch_are_copied_at_once_and_before_others(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        checkpoint.plan(batch)
    before = checkpoint.state(0, {1: (5, "a")}, "another")
    old = {path.name for path in (checkpoint.root / "state").glob("*.arrow")}
    checkpoint.state(1, {1: (6, "a")}, before=before)
    new = {path.name for path in (checkpoint.root / "state").glob("000000001-*")}
    assert len(new) == 2
    taking, take = threading.Barrier(len(new)), LocalStorage.take
    taken: list[str] = []

    def slowly(storage: LocalStorage, name: str, source: Storage) -> None:
        taken.append(name)
        if name in new:
            taking.wait(20)  # for the others of the batch
        take(storage, name, source)

    monkeypatch.setattr(savepoints, "_COPIES", 2)
    monkeypatch.setattr(LocalStorage, "take", slowly)
    write_savepoint(checkpoint.place, read_location(str(tmp_path / "s")))
    assert (set(taken[:2]), set(taken[2:])) == (new, old)


def test_a_job_that_deletes_its_files_faster_than_they_are_copied_is_told_to_stop(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = itertools.count(1)

    def late(storage: LocalStorage, name: str, source: Storage) -> None:
        checkpoint.plan(batch := next(batches))
        checkpoint.state(batch, {1: (batch, "a")})
        raise CheckpointError(f"'{name}' is missing")

    checkpoint.plan(0)
    checkpoint.state(0, {1: (5, "a")})
    monkeypatch.setattr(savepoints, "_COPIES", 1)
    monkeypatch.setattr(LocalStorage, "take", late)
    with pytest.raises(CheckpointError, match=r"20 times before they were copied.*stop it while the savepoint"):
        write_savepoint(checkpoint.place, read_location(str(tmp_path / "s")))


def committed_state(place: JobCheckpoint) -> str:
    return read_committed(place).state


def test_state_and_positions_that_a_job_has_no_place_for_are_refused_by_name(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    checkpoint.state(0, {1: (5, "a")})
    saved = read_location(str(tmp_path / "s"))
    write_savepoint(checkpoint.place, saved)
    new, warnings = read_location(str(tmp_path / "new")), list[str]()
    with pytest.raises(CheckpointError, match=r"the step 'totals: group\(orders\)', the source 'orders'.*--allow-non"):
        origin_of(saved, new, [], ["others"], allow_non_restored=False, warn=warnings.append)
    origin = origin_of(saved, new, [], ["others"], allow_non_restored=True, warn=warnings.append)
    assert (origin["state"], origin["sources"], len(warnings)) == ("", {}, 1)


def test_a_savepoint_of_a_newer_version_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    saved = read_location(str(tmp_path / "s"))
    write_savepoint(checkpoint.place, saved)
    saved.write("savepoint", {**(saved.read("savepoint") or {}), "version": 2})
    with pytest.raises(CheckpointError, match="has format 2, and this version of penstock reads up to 1"):
        read_savepoint(saved)


def test_a_place_that_is_taken_gets_no_savepoint(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has not committed a batch yet"):
        write_savepoint(checkpoint.place, read_location(str(tmp_path / "s")))
    checkpoint.plan(0)
    checkpoint.done(0)
    write_savepoint(checkpoint.place, read_location(str(tmp_path / "s")))
    for place in ("s", "checkpoint"):
        with pytest.raises(CheckpointError, match="already; name another directory"):
            write_savepoint(checkpoint.place, read_location(str(tmp_path / place)))


def test_only_a_job_that_began_with_a_savepoint_may_name_it_again(checkpoint: Checkpoint, tmp_path: Path) -> None:
    place, warnings = read_location(str(tmp_path / "s")), list[str]()
    known = {"origin": {"savepoint": place.location}}
    check_origin(place, checkpoint.place, known, warnings.append)
    assert warnings == []
    checkpoint.plan(0)
    check_origin(place, checkpoint.place, known, warnings.append)
    assert "continues from its checkpoint" in warnings[0]
    with pytest.raises(CheckpointError, match="did not begin with the savepoint"):
        check_origin(place, checkpoint.place, {}, warnings.append)


# --- penstock state ------------------------------------------------------------------------------------------------


def test_state_shows_steps_and_rows(checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    checkpoint.state(0, {1: (5, "a"), 2: (6, "b"), 3: (7, "c")}, ttl=1000)
    place = str(checkpoint.root)
    assert main(["state", place]) == 0
    head, titles, line = capsys.readouterr().out.splitlines()
    assert head == "job 'totals', after batch 0"
    assert titles.split() == ["step", "table", "key", "keys", "rows", "bytes", "segments", "oldest"]
    assert line.startswith(f"{UID}  groups  k    3     3  ")
    assert line.endswith(" ago")

    assert main(["state", place, "--uid", UID, "--limit", "2", "--format", "json"]) == 0
    rows = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2
    assert rows[0].keys() == {"k", "n", "name", "(last change)"}

    assert main(["state", place, "--uid", UID, "--table", "groups", "--format", "csv"]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "k,n,name,(last change)"
    assert sorted(lines) == [f"{k},{k + 4},{name},1700000000000" for k, name in ((1, "a"), (2, "b"), (3, "c"))]


@pytest.mark.parametrize(
    ("watermark", "shown"), [(1_700_000_000_000, "2023-11-14 22:13:20 UTC"), (END_OF_TIME, "the end")]
)
def test_state_shows_how_far_event_time_has_come(
    checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str], watermark: int, shown: str
) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    checkpoint.state(0, {1: (5, "a")}, time=OperatorTime(watermark, 1234))
    assert main(["state", str(checkpoint.root)]) == 0
    _, titles, line = capsys.readouterr().out.splitlines()
    assert titles.endswith("watermark".ljust(len(shown)) + "  late rows")
    assert line.endswith(f"  {shown.ljust(len('watermark'))}  1,234")
    assert main(["state", str(checkpoint.root), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["watermark"], found["late rows"]) == (watermark, 1234)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--uid", "other"], "the state has no step 'other' (there are 'totals: group(orders)')"),
        (["--uid", UID, "--table", "t"], "the state has no table 't' (there are 'groups')"),
    ],
)
def test_a_name_that_the_state_does_not_have(
    checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    checkpoint.plan(0)
    checkpoint.done(0)
    checkpoint.state(0, {1: (5, "a")})
    assert main(["state", str(checkpoint.root), *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_a_directory_that_is_no_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", str(tmp_path)]) == 1
    assert "is not a savepoint" in capsys.readouterr().err
    assert main(["savepoint", str(tmp_path), str(tmp_path / "s")]) == 1
    assert "is not the checkpoint of a job" in capsys.readouterr().err
