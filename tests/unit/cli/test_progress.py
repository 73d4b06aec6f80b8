"""The line that tells how far jobs are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.cli.run import _Reporter
from penstock.engine import JobProgress, StepProgress


@dataclass
class Running:
    progress: JobProgress

    def lag(self) -> int:
        return 7


def line(capsys: pytest.CaptureFixture[str], progress: JobProgress) -> str:
    _Reporter().progress([Running(progress)])  # type: ignore[list-item]
    return capsys.readouterr().err.strip()


def test_a_job_without_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(capsys, JobProgress(records_out=1000)) == "0 read (0/s), 1,000 written, lag 7, last commit not yet"


def test_one_step_without_event_time_is_the_whole_state(capsys: pytest.CaptureFixture[str]) -> None:
    found = line(capsys, JobProgress(state_bytes=2048, steps={"job: group(t)": StepProgress(3, 2048)}))
    assert found.endswith(", last commit not yet, state 2.0 KiB")


def test_each_step_has_its_state_its_watermark_and_its_late_rows(capsys: pytest.CaptureFixture[str]) -> None:
    steps = {
        "job: join(a, b)": StepProgress(3, 2048),
        "job: window(a)": StepProgress(1, 512, 1_700_000_000_000, 2),
    }
    shown = "job: join(a, b): 2.0 KiB; job: window(a): 512 B, watermark 2023-11-14 22:13:20 UTC, 2 late rows"
    assert line(capsys, JobProgress(state_bytes=2560, steps=steps)).endswith(f", state 2.5 KiB ({shown})")
