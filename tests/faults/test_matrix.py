"""The runner of the matrix: what it keeps, and what it writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from kafka.protocol.producer import EndTxnRequest, EndTxnResponse, ProduceRequest

from penstock.kafka.columns import HEADERS_TYPE
from penstock_testing import Api, Frame, Then, Trap, Verdict
from tests.faults import __main__ as runner
from tests.faults import results
from tests.faults.cells import CELLS
from tests.faults.contents import mismatched
from tests.faults.harness import Cell, Outcome, Trial, commits, committed, refused, story
from tests.faults.mutants import MUTANTS, Mutant
from tests.faults.mutated_penstock import MUTATIONS
from tests.faults.networks import same_as
from tests.faults.results import Kill, Result, Run, load, render, save
from tests.waiting import eventually

VERDICT = Verdict(10, 10, 0, 0, 0, 0, 0, 0, 0, 2.25)
HIT = "EndTxn, lost; batch 2 planned, batch 1 done"
EXACT = replace(Run.of(Outcome(VERDICT, hit=HIT), seed=7), date="2026-01-02")


def made(point: str) -> Cell:
    return Cell("F1", point, lambda trial: pytest.fail("is not run"), False, 60, 1, {}, "4.3.0")


def row(*runs: Run) -> list[str]:
    page = render([Result("F1", "here", 10, runs)], [made("here")])
    (found,) = (line for line in page.splitlines() if line.startswith("| F1 |"))
    return [each.strip() for each in found.strip("|").split(" | ")]


def test_counts_are_added_up_over_runs_and_the_longest_recovery_stands():
    other = Run.of(Outcome(Verdict(10, 9, 2, 1, 0, 3, 1, 4, 5, 11.06), hit="EndTxn, held"))
    assert row(EXACT) == ["F1", "here", "1", "0", "0", "0", "0", "0", "0", "2.2", HIT, "exact"]
    assert row(EXACT, other) == [
        "F1", "here", "2", "2", "1", "3", "1", "4", "5", "11.1", "EndTxn, held", "**fails**"
    ]  # fmt: skip


def test_a_run_whose_fault_has_not_hit_is_not_good():
    assert Outcome(VERDICT, hit=HIT).good
    assert not Outcome(VERDICT).good
    assert not Outcome(VERDICT, hit=HIT, problem="the fault has missed: x").good
    assert EXACT.good
    assert not replace(EXACT, hit="").good
    assert row(replace(EXACT, hit=""))[-2:] == ["-", "exact, and nothing looked at the hit"]
    assert row(EXACT, replace(EXACT, hit=""))[-1] == "**fails**"


def test_evidence_is_collected_and_what_is_missing_is_a_miss():
    """All that an outcome asks of its trial but for the records."""
    trial = object.__new__(Trial)
    trial.hits, trial.misses, trial.session = [], [], None
    trial.verifier = SimpleNamespace(verdict=lambda: VERDICT, outputs=())
    assert trial.outcome().problem == "nothing shows that the fault has hit"
    trial.hit("3 answers lost", 3)
    assert trial.outcome() == Outcome(VERDICT, hit="3 answers lost")
    trial.hit("0 cuts", 0)
    found = trial.outcome(stop="it stopped", problem="and left a mess")
    assert (found.good, found.hit, found.stop) == (False, "3 answers lost", "it stopped")
    assert found.problem == "and left a mess; the fault has missed: 0 cuts"


def test_records_whose_parts_are_not_of_one_record_are_found():
    def count(n: int, key: bytes | None, value: bytes) -> int:
        pairs = [("p", b"2"), ("n", str(n).encode())]
        return mismatched(pa.array([pairs], HEADERS_TYPE), pa.array([key], pa.binary()), pa.array([value]), "here")

    value = b'{"k":"2-7","n":23}'
    assert [count(23, key, value) for key in (None, b"2-7", b"2-7-23")] == [0, 0, 0]
    assert [count(23, key, value) for key in (b"2-8", b"2-7-24", b"")] == [1, 1, 1]
    assert count(24, None, value) == 1
    assert count(23, None, b"23") == 1


@pytest.mark.parametrize("version", [3, 4, 5])
def test_commits_are_told_from_aborts_and_from_refusals(version: int):
    def encoded(message: Any) -> bytes:
        message.with_header(1)
        return message.encode(header=True)

    def answer(*, commit: bool, code: int = 0) -> Frame:
        asked = EndTxnRequest[version](transactional_id="t", producer_id=1, producer_epoch=2, committed=commit)
        told = EndTxnResponse[version](throttle_time_ms=0, error_code=code, producer_id=1, producer_epoch=2)
        return Frame(Api.END_TXN, version, 1, True, ("", 0), 0, encoded(told), encoded(asked))

    assert [commits(answer(commit=each)) for each in (True, False)] == [True, False]
    assert committed(answer(commit=True))
    assert not committed(answer(commit=True, code=51))
    assert not committed(answer(commit=False))


@pytest.mark.parametrize("version", [11, 12, 13])
def test_a_record_batch_is_known_again_in_another_request(version: int):
    def produce(*batches: bytes) -> Frame:
        Topic = ProduceRequest.TopicProduceData
        data = [Topic.PartitionProduceData(index=at, records=each) for at, each in enumerate(batches)]
        asked = ProduceRequest[version](
            transactional_id="t",
            acks=-1,
            timeout_ms=1000,
            topic_data=[Topic(name="out", topic_id=UUID(int=1), partition_data=data)],
        )
        asked.with_header(1)
        return Frame(Api.PRODUCE, version, 1, False, ("", 0), 0, b"", asked.encode(header=True))

    lost, other = (bytes(range(first, first + 100)) for first in (0, 100))
    trap = Trap(Api.PRODUCE, then=Then.DROP)
    assert not same_as(trap)(produce(lost))
    trap.take(produce(lost))
    assert same_as(trap)(produce(other, lost))
    assert not same_as(trap)(produce(other))


def test_only_what_was_answered_with_errors_alone_was_refused():
    trap = Trap(Api.END_TXN, then=Then.HOLD)
    trap.release()
    assert not refused(trap)
    trap.catches = [SimpleNamespace(errors=(47,))]
    assert refused(trap)
    trap.catches.append(SimpleNamespace(errors=(0,)))
    assert not refused(trap)


def test_what_a_trap_has_caught_is_told():
    lost, held = Trap(Api.END_TXN, times=None, then=Then.DROP), Trap(Api.PRODUCE, response=True, then=Then.HOLD)
    frame = Frame(Api.END_TXN, 5, 1, False, ("", 0), 0, b"", b"")
    for _ in range(2):
        lost.take(frame)
    assert story(lost) == "2 EndTxn, lost"
    held.release()
    assert story(held) == "answer to Produce, held"


def test_a_stop_is_quoted_without_what_is_of_this_machine():
    stop = (
        f"run 01234567-89ab-cdef-0123-456789abcdef on {socket.gethostname()} read '/tmp/penstock-fault-x_1/trial/c'\n|"
    )
    assert row(Run(**{**asdict(EXACT), "stop": stop}))[-1] == "stops, and says: `run ... on host read 'c' \\|`"


def test_what_could_not_be_run_is_told_and_is_not_good():
    run = Run(unavailable="needs root")
    assert not run.good
    assert row(run)[-1] == "cannot be run here: needs root"
    assert row(Run(failure="AssertionError: x"))[-1] == "**fails**: `AssertionError: x`"


def test_a_cell_that_was_not_run_has_a_row():
    assert "| F1 | there | 0 | - | - | - | - | - | - | - | - | not run |" in render([], [made("there")])


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The runs that the runner makes: name and seed. Those of the first of three cells come out well."""
    monkeypatch.setattr(results, "DATA", tmp_path / "kept.json")
    monkeypatch.setattr(runner, "LOGS", tmp_path / "kept")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "TABLE", tmp_path / "faults.md")
    cells = (made("once"), made("twice"), replace(made("once"), fault="F10"))
    monkeypatch.setattr(runner, "CELLS", {each.name: each for each in cells})
    done: list[tuple[str, int]] = []

    def run(cell: Cell, records: int, seed: int, mutant: str | None = None) -> Run:
        done.append((cell.name, seed))
        return replace(EXACT, seed=seed) if cell.name == "F1 once" else Run(failure="it failed", seed=seed)

    monkeypatch.setattr(runner, "_run_apart", run)
    return done


def test_what_is_kept_is_not_run_again_and_failures_stay_on_record(runs, capsys):
    arguments = ["--only", "F1", "--records", "10"]
    assert runner.main(arguments) == 1
    assert "failed: F1 twice" in capsys.readouterr().out
    assert runner.main(arguments) == 1
    assert [name for name, _ in runs] == ["F1 once", "F1 twice", "F1 twice"]
    assert len(load()["F1 twice"].runs) == 2
    assert runner.main([*arguments, "--fresh"]) == 1
    assert [name for name, _ in runs[3:]] == ["F1 once", "F1 twice"]
    assert len(load()["F1 twice"].runs) == 1
    assert "it failed" in runner.TABLE.read_text()


def test_runs_add_up_with_other_seeds(runs):
    arguments = ["--only", "F1 once", "--records", "10", "--seed", "5"]
    for count in (1, 3, 3):
        assert runner.main([*arguments, "--runs", str(count)]) == 0
    assert len(runs) == len(set(runs)) == len(load()["F1 once"].runs) == 3
    assert runner.main([*arguments, "--runs", "3", "--fresh"]) == 0
    assert runs[3:] == runs[:3]  # the same seed draws the same
    assert "3 runs are on record, with 3 seeds" in runner.TABLE.read_text()


def test_runs_with_another_number_of_records_do_not_add_up(runs):
    for records in ("10", "20"):
        assert runner.main(["--only", "F1 once", "--records", records]) == 0
    assert len(runs) == 2
    assert [len(each.runs) for each in load().values()] == [1]


def test_no_run_is_begun_when_the_time_is_up(runs):
    assert runner.main(["--records", "10", "--minutes", "0", "--jobs", "2"]) == 0
    assert runs == []


def test_runs_take_place_at_the_same_time(runs):
    assert runner.main(["--records", "10", "--jobs", "3"]) == 1
    assert sorted(name for name, _ in runs) == ["F1 once", "F1 twice", "F10 once"]
    assert set(load()) == {"F1 once", "F1 twice", "F10 once"}


def test_what_is_kept_comes_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "DATA", tmp_path / "kept.json")
    assert load() == {}
    kept = Result("F1", "mid-publish, once/twice", 10, (EXACT,))
    other = Result("F2", "mid-read", 10, (EXACT, Run(failure=f"it failed on {socket.gethostname()}")))
    save(other)
    save(kept)
    told = replace(other, runs=(EXACT, Run(failure="it failed on host")))
    assert load() == {kept.name: kept, other.name: told}


def test_runs_of_which_nothing_shows_a_hit_give_way():
    result = Result("F1", "here", 10, (replace(EXACT, hit=""), Run(failure="it failed")))
    assert result.seeds == set()
    assert result.with_run(EXACT).runs == (Run(failure="it failed"), EXACT)


def test_a_mutant_is_killed_by_what_it_does_and_not_by_its_crash():
    mutant = Mutant("m", "a safeguard", "F1 here", ("lost", "torn"), ("the fault has missed",))
    torn = Run.of(Outcome(replace(VERDICT, lost=3, duplicated=4), hit=HIT))
    assert mutant.killed_by(torn) == ("3 lost", "")
    assert mutant.killed_by(Run.of(Outcome(VERDICT, hit=HIT, problem="the fault has missed: x")))[0]
    assert mutant.killed_by(replace(torn, verdict={}, failure="AssertionError: it ended")) == (
        "", "AssertionError: it ended"
    )  # fmt: skip
    assert mutant.killed_by(EXACT)[0] == ""


def test_mutants_have_rows_of_their_own():
    kills = [Kill("m", "a safeguard", "F1 here", 10, 1, "3 lost"), Kill("n", "another", "F1 here", 10, 1, "", "x")]
    page = render([], [made("here")], kills)
    assert "| m | a safeguard | F1 here | 3 lost |" in page
    assert "| n | another | F1 here | **survives**: `x` |" in page


def test_every_mutant_is_on_record():
    assert {each.mutant for each in results.load_kills()} == set(MUTANTS)


def test_every_mutant_has_a_cell():
    assert len(MUTANTS) >= 10
    assert {each.cell for each in MUTANTS.values()} <= set(CELLS)
    assert set(MUTANTS) == set(MUTATIONS)
    assert all(each.counts or each.texts for each in MUTANTS.values())


def test_the_committed_table_is_that_of_the_committed_results():
    assert runner.TABLE.read_text() == runner.page(), "run: make faults ARGS=--render"


def test_what_works_in_the_folder_of_a_cell_is_ended(tmp_path: Path):
    """Jobs have sessions of their own, so they outlive a cell that is killed."""
    (tmp_path / "cell").mkdir()
    inside, outside = (
        subprocess.Popen([sys.executable, "-c", "input()"], cwd=folder, stdin=subprocess.PIPE)
        for folder in (tmp_path / "cell", tmp_path)
    )
    try:
        eventually(lambda: Path(os.readlink(f"/proc/{inside.pid}/cwd")) == tmp_path / "cell")
        runner._end_what_is_in(tmp_path / "cell")
        assert inside.wait(60) == -9
        assert outside.poll() is None
    finally:
        for each in (inside, outside):
            each.kill()
            each.communicate()
