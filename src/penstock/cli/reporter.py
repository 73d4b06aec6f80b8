"""What a running job prints on standard error: news, warnings, and progress."""

from __future__ import annotations

import heapq
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.cli.display import count, format_event_time, format_size

if TYPE_CHECKING:
    from penstock.engine import JobProgress, RunningJob, StepProgress

#: How often a log gets a line while something changes.
_LOG_EVERY_SECONDS = 5.0
#: How long an idle job is silent: first this, then each time twice as long, up to an hour.
_IDLE_SECONDS, _MOST_IDLE_SECONDS = 60.0, 3600.0
#: How many tables are named of those with the most rows, and of those with the most records left out.
_SHOWN_TABLES = 3


class Reporter:
    """Shows the progress of jobs: on a terminal in a line that is rewritten, elsewhere in lines with the time, when
    something has changed, and from time to time when nothing has. A ``quiet`` one shows warnings only."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = sys.stderr.isatty()
        self._quiet = quiet
        self._clock = clock
        self._show_step = 0
        self._last = (clock(), 0)
        self._logged = -_LOG_EVERY_SECONDS
        self._state: object = None
        self._patience = _IDLE_SECONDS

    def say(self, text: str) -> None:
        """Prints a line, unless quiet."""
        if not self._quiet:
            self._print(text)

    def warn(self, text: str) -> None:
        """Prints a warning."""
        self._print(f"warning: {text}")

    def progress(self, running: Sequence[RunningJob]) -> None:
        """Shows the jobs' progress: records per second, lag, time since the last commit."""
        if self._quiet:
            return
        now = self._clock()
        done = [each.progress for each in running]
        if not self._live and not self._is_due(now, done):
            return
        read = sum(each.records_in for each in done)
        before, records = self._last
        rate = (read - records) / max(now - before, 1e-9)
        self._last = (now, read)
        text = _format_progress(done, [each.lag() for each in running], rate, live=self._live)
        if self._live:
            text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps cannot be rewritten
            print("\r" + text.ljust(self._show_step), end="", file=sys.stderr, flush=True)
            self._show_step = len(text)
        else:
            job = running[0].job.name if len(running) == 1 else ""
            self._print(f"job '{job}': {text}" if job else f"{len(running)} jobs: {text}")

    def close(self) -> None:
        """Ends the line that is being rewritten."""
        if self._show_step:
            print(file=sys.stderr)
            self._show_step = 0

    def _is_due(self, now: float, done: Sequence[JobProgress]) -> bool:
        """Whether a log gets a line now."""
        if now - self._logged < _LOG_EVERY_SECONDS:
            return False
        state = [
            (each.batches, each.records_in, each.files_in, each.records_out, each.restarts, each.steps) for each in done
        ]
        if state != self._state:
            self._patience = _IDLE_SECONDS
        elif now - self._logged < self._patience:
            return False
        else:
            self._patience = min(2 * self._patience, _MOST_IDLE_SECONDS)
        self._state, self._logged = state, now
        return True

    def _print(self, text: str) -> None:
        self.close()
        stamp = "" if self._live else f"{datetime.now():%Y-%m-%d %H:%M:%S} "
        print(f"{stamp}{text}", file=sys.stderr, flush=True)


def describe_restarts(restarts: int) -> str:
    """``, after 2 restarts``; empty without any."""
    return f", after {count(restarts, 'restart')}" if restarts else ""


def read_text(done: Sequence[JobProgress], records: str) -> str:
    """What jobs have read: the text for ``records``, and files of sources that read whole files."""
    files, left = sum(each.files_in for each in done), sum(each.files_left for each in done)
    if not files:
        return records
    of_files = f"{count(files, 'file')} read{f' ({left:,} left)' if left else ''}"
    return f"{records}, {of_files}" if any(each.records_in for each in done) else of_files


def _format_progress(done: Sequence[JobProgress], lags: Sequence[int | None], rate: float, *, live: bool) -> str:
    read, written = sum(each.records_in for each in done), sum(each.records_out for each in done)
    lag = "" if None in lags else f", lag {sum(filter(None, lags)):,}"
    commits = [each.committed_at for each in done if each.committed_at]
    if commits:
        ago = f"{time.time() - min(commits):.0f} s ago"
        text = f"{read_text(done, f'{read:,} read ({rate:,.0f}/s)')}, {written:,} written{lag}, last commit {ago}"
    else:
        text = f"no batch yet in this run{lag}"
    held = [each.state_bytes for each in done if each.state_bytes is not None]
    steps = [step for each in done for step in each.steps.items()]
    text += describe_restarts(sum(each.restarts for each in done))
    if live:
        late = sum(step.late for _, step in steps)
        text += f", {count(late, 'late row')}" if late else ""
    text += f", state {format_size(sum(held))}" if held else ""
    text += _describe_tables(done)
    if not live and (len(steps) > 1 or any(step.watermark is not None for _, step in steps)):
        text += f" ({'; '.join(_show_step(uid, step) for uid, step in steps)})"
    return text


def _describe_tables(done: Sequence[JobProgress]) -> str:
    """The number of tables, those with the most rows, and those with the most records that were left out; empty for
    jobs that find none."""
    rows, refused = Counter[str](), Counter[str]()
    for table, total in (pair for each in done for pair in each.tables.items()):
        if total.rows:
            rows[table] += total.rows
        if total.refused:
            refused[table or "(unknown)"] += total.refused
    text = f", {count(len(rows), 'table')}{_name_largest(rows)}" if rows else ""
    return text + (f", {refused.total():,} left out{_name_largest(refused)}" if refused else "")


def _name_largest(numbers: Mapping[str, int]) -> str:
    """The few tables with the largest numbers, in brackets."""
    largest = heapq.nsmallest(_SHOWN_TABLES, numbers.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{table} {number:,}" for table, number in largest]
    shown += ["..."] if len(numbers) > len(largest) else []
    return f" ({', '.join(shown)})" if shown else ""


def _show_step(uid: str, step: StepProgress) -> str:
    """A step's part of the progress."""
    time = "" if step.watermark is None else f", watermark {format_event_time(step.watermark)}"
    late = f", {count(step.late, 'late row')}" if step.late else ""
    return f"{uid}: {format_size(step.bytes)}{time}{late}"
