"""The runner of the matrix: what it keeps, and what it writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from penstock.testing import Verdict
from tests.faults import __main__ as runner
from tests.faults import results
from tests.faults.harness import Cell, Outcome
from tests.faults.results import Result, Run, load, render, save
from tests.waiting import eventually

EXACT = Run.of(Outcome(Verdict(10, 10, 0, 0, 0, 0, 0, 0, 0, 2.25)))


def made(point: str) -> Cell:
    return Cell("F1", point, lambda trial: pytest.fail("is not run"), False, 60, 1, {}, "4.3.0")


def row(*runs: Run) -> list[str]:
    page = render([Result("F1", "here", 10, "2026-01-02", runs)], [made("here")])
    (found,) = (line for line in page.splitlines() if line.startswith("| F1 |"))
    return [each.strip() for each in found.strip("|").split(" | ")]


def test_counts_are_added_up_over_runs_and_the_longest_recovery_stands():
    other = Run.of(Outcome(Verdict(10, 9, 2, 1, 0, 3, 1, 4, 5, 11.06)))
    assert row(EXACT) == ["F1", "here", "1", "0", "0", "0", "0", "0", "0", "2.2", "exact"]
    assert row(EXACT, other) == ["F1", "here", "2", "2", "1", "3", "1", "4", "5", "11.1", "**fails**"]


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
    assert "| F1 | there | 0 | - | - | - | - | - | - | - | not run |" in render([], [made("there")])


def test_what_is_kept_is_not_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "DATA", tmp_path / "kept.json")
    monkeypatch.setattr(runner, "LOGS", tmp_path / "kept")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "TABLE", tmp_path / "faults.md")
    first, second, other = "F1 once", "F1 twice", "F10 once"
    monkeypatch.setattr(runner, "CELLS", {first: made("once"), second: made("twice"), other: made("never")})
    done: list[str] = []

    def run(cell: Cell, records: int) -> Run:
        done.append(cell.name)
        return EXACT if cell.name == first else Run(failure="it failed")

    monkeypatch.setattr(runner, "_run_apart", run)
    arguments = ["--only", "F1", "--records", "10"]
    assert runner.main(arguments) == 1
    assert f"failed: {second}" in capsys.readouterr().out
    assert runner.main(arguments) == 1
    assert runner.main([*arguments, "--fresh"]) == 1
    assert done == [first, second, second, first, second]
    assert "it failed" in (tmp_path / "faults.md").read_text()


def test_what_is_kept_comes_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "DATA", tmp_path / "kept.json")
    assert load() == {}
    kept = Result("F1", "mid-publish, once/twice", 10, "2026-01-02", (EXACT,))
    other = Result("F2", "mid-read", 10, "2026-01-02", (EXACT, Run(failure=f"it failed on {socket.gethostname()}")))
    save(other)
    save(kept)
    told = replace(other, runs=(EXACT, Run(failure="it failed on host")))
    assert load() == {kept.name: kept, other.name: told}


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
