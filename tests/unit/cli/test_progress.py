"""The lines that tell how far jobs are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.reporter import Reporter
from penstock.cli.run import _say_result
from penstock.engine import JobProgress, StepProgress
from penstock.flow.state.table_totals import Total

#: Committed a moment ago.
DONE = JobProgress(records_in=3, records_out=1000, batches=1, committed_at=2e9)


@dataclass
class Running:
    progress: JobProgress
    behind: int | None = 7
    job: Any = field(default_factory=lambda: SimpleNamespace(name="copy"))

    def lag(self) -> int | None:
        return self.behind


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said since the last call, without the times."""
    found = capsys.readouterr().err.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", each) for each in found)
    return [each[20:] for each in found]


def line(capsys: pytest.CaptureFixture[str], *running: Running) -> str:
    Reporter().progress(running)  # type: ignore[arg-type]
    (found,) = lines(capsys)
    return re.sub("-?[0-9]+ s ago", "0 s ago", found)


def test_before_the_first_batch_nothing_sounds_like_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(capsys, Running(JobProgress(), None)) == "job 'copy': no batch yet in this run"
    assert line(capsys, Running(JobProgress())) == "job 'copy': no batch yet in this run, lag 7"


def test_a_job_without_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(capsys, Running(DONE)).startswith("job 'copy': 3 read (")
    assert line(capsys, Running(DONE)).endswith("/s), 1,000 written, lag 7, last commit 0 s ago")


def test_files_are_counted_as_files(capsys: pytest.CaptureFixture[str]) -> None:
    """A source of files knows how many files it has read, and not how many records they had."""
    files = replace(DONE, records_in=0, files_in=1, files_left=0)
    assert line(capsys, Running(files, None)).startswith("job 'copy': 1 file read, 1,000 written, last commit")
    files = replace(files, files_in=3, files_left=2)
    assert line(capsys, Running(files, None)).startswith("job 'copy': 3 files read (2 left), 1,000 written, ")
    found = line(capsys, Running(replace(files, records_in=5), None))
    assert re.match(r"job 'copy': 5 read \([\d,]+/s\), 3 files read \(2 left\), 1,000 written", found)


def test_the_last_line_counts_files_as_files(capsys: pytest.CaptureFixture[str]) -> None:
    files = replace(DONE, records_in=0, files_in=2)
    result: Any = SimpleNamespace(job="copy", progress=files, seconds=1.0, continued=False)
    _say_result(Reporter(), SimpleNamespace(), result, stopped=False)  # type: ignore[arg-type]
    assert lines(capsys) == ["job 'copy': finished: 2 files read, 1,000 written in 1 batch and 1.0 s"]


def test_several_jobs_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(capsys, Running(DONE), Running(DONE)).startswith("2 jobs: 6 read (")


def test_one_step_without_event_time_is_the_whole_state(capsys: pytest.CaptureFixture[str]) -> None:
    found = line(capsys, Running(replace(DONE, state_bytes=2048, steps={"job: group(t)": StepProgress(3, 2048)})))
    assert found.endswith(", last commit 0 s ago, state 2.0 KiB")


def test_each_step_has_its_state_its_watermark_and_its_late_rows(capsys: pytest.CaptureFixture[str]) -> None:
    steps = {
        "job: join(a, b)": StepProgress(3, 2048),
        "job: window(a)": StepProgress(1, 512, 1_700_000_000_000, 2),
    }
    shown = "job: join(a, b): 2.0 KiB; job: window(a): 512 B, watermark 2023-11-14 22:13:20 UTC, 2 late rows"
    assert line(capsys, Running(replace(DONE, state_bytes=2560, steps=steps))).endswith(f", state 2.5 KiB ({shown})")


def test_an_idle_job_gives_a_sign_of_life_that_becomes_rarer(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    reporter, running = Reporter(clock=lambda: now), Running(DONE)
    told = []
    for second in range(24 * 3600):
        now = float(second)
        reporter.progress([running])  # type: ignore[list-item]
        told += [second] * len(lines(capsys))
    assert told[:6] == [0, 60, 180, 420, 900, 1860]
    assert len(told) < 40  # 17,280 lines once

    running.progress = replace(DONE, records_in=4, batches=2)
    reporter.progress([running])  # type: ignore[list-item]
    now += 60
    reporter.progress([running])  # type: ignore[list-item]
    assert len(lines(capsys)) == 2


def test_a_quiet_job_says_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter(quiet=True)
    reporter.say("job 'copy': starting")
    reporter.progress([Running(DONE)])  # type: ignore[list-item]
    reporter.warn("look out")
    assert lines(capsys) == ["warning: look out"]


def test_tables_are_named_that_have_the_most_rows_or_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """A line stays one line, with any number of tables."""
    tables = {f"shop.t{number:05}": Total(number, 0) for number in range(10_000)}
    found = line(capsys, Running(replace(DONE, tables=tables)))
    assert found.endswith(", 9,999 tables (shop.t09999 9,999, shop.t09998 9,998, shop.t09997 9,997, ...)")
    tables = {"a": Total(3, 0), "b": Total(5, 2), "": Total(0, 7)}
    found = line(capsys, Running(replace(DONE, tables=tables)))
    assert found.endswith(", 2 tables (b 5, a 3), 9 left out ((unknown) 7, b 2)")
