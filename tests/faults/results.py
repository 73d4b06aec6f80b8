"""What the cells of the matrix found: kept in docs/faults.json, and as the table of docs/faults.md."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.faults.harness import Cell, Outcome

__all__ = ["DATA", "Result", "Run", "load", "render", "save"]

DATA = Path(__file__).parents[2] / "docs" / "faults.json"

_MOST_TEXT = 300
_SHORTER = (
    (r"[^\s']*/penstock-fault-\w+/trial/", ""),
    (re.escape(socket.gethostname()), "host"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "..."),
)

_HEAD = """\
# The fault matrix

What happens to an exactly-once job when something fails at the worst moment. Each row is a fault at one point, put into
a running job on a real broker and a real Spark, {records} records a cell. This page is written by `make faults` from
runs that took place on {dates}; [exactly-once.md](exactly-once.md) says what is promised, and to whom.

Two readers under `read_committed` look at the output, one beside the running job and one afterwards. **Lost** and
**duplicated** count records, by either reader. **Aborted seen**: records of aborted transactions that a reader saw.
**Torn**: batches of which only a part is visible. **Order**: records that came before an earlier one of their source
partition. **Open**: partitions that an open transaction still holds back 10 s after the end. **Recovery**: from the
restart, or from the fault where nothing is restarted, to the first new record that a reader saw, in seconds; most of it
is the start of Python, the JVM and Spark.

With the fencing of former owners taken out, or the progress record ignored, F1, F3 and F4 fail: a test in every run
makes sure that they do (`tests/faults/test_mutations.py`). The kit that does all this is public:
[testing.md](testing.md).

| fault | where | runs | lost | duplicated | aborted seen | torn | order | open | recovery | outcome |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""


@dataclass(frozen=True)
class Run:
    """One run of a cell: its verdict's counts, and what went wrong besides or instead."""

    verdict: dict[str, Any] = field(default_factory=dict)
    exact: bool = False
    stop: str = ""
    note: str = ""
    failure: str = ""
    unavailable: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, outcome: Outcome) -> Run:
        """What a cell returned."""
        return cls(asdict(outcome.verdict), outcome.verdict.exact, outcome.stop, outcome.note, outcome.problem)

    @classmethod
    def read(cls, path: Path) -> Run:
        """What :meth:`write` wrote."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @property
    def good(self) -> bool:
        """Whether it came out as it should."""
        return self.exact and not self.failure


@dataclass(frozen=True)
class Result:
    """All runs of a cell, on a date."""

    fault: str
    point: str
    records: int
    date: str
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """The cell's."""
        return f"{self.fault} {self.point}"

    @property
    def good(self) -> bool:
        """Whether every run came out as it should."""
        return all(run.good for run in self.runs)

    @property
    def summary(self) -> str:
        """A line about it."""
        seconds = f"{sum(run.seconds for run in self.runs):.0f} s"
        if self.good:
            return f"exact, {seconds}"
        return (
            next(
                run.unavailable or run.failure or f"NOT EXACT {run.verdict}" for run in self.runs if not run.good
            ).splitlines()[0]
            + f", {seconds}"
        )


def load() -> dict[str, Result]:
    """What is kept, by the cells' names."""
    if not DATA.exists():
        return {}
    kept = [
        Result(**{**each, "runs": tuple(Run(**run) for run in each["runs"])}) for each in json.loads(DATA.read_text())
    ]
    return {each.name: each for each in kept}


def save(result: Result) -> None:
    """Keep it, without what is of this machine."""
    runs = [
        replace(run, stop=_masked(run.stop), note=_masked(run.note), failure=_masked(run.failure))
        for run in result.runs
    ]
    kept = load() | {result.name: replace(result, runs=tuple(runs))}
    draft = DATA.with_suffix(".draft")
    draft.write_text(json.dumps([asdict(each) for _, each in sorted(kept.items())], indent=1) + "\n")
    draft.replace(DATA)


def _masked(text: str) -> str:
    for pattern, instead in _SHORTER:
        text = re.sub(pattern, instead, text)
    return text


# --- the table ---------------------------------------------------------------------------------------------------


def render(results: Sequence[Result], cells: Sequence[Cell]) -> str:
    """The page: a row for every cell, those that were not run among them."""
    known = {result.name: result for result in results}
    dates = sorted({result.date for result in results})
    records = " or ".join(f"{each:,}" for each in sorted({result.records for result in results}))
    span = "no date yet" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    rows = []
    for cell in sorted(cells, key=lambda each: int(each.fault[1:])):
        result = known.get(cell.name)
        if result is None:
            cells_of_row = [cell.fault, cell.point, "0", *["-"] * 7, "not run"]
        else:
            cells_of_row = [cell.fault, cell.point, str(len(result.runs)), *_counts(result), _outcome(result)]
        rows.append("| " + " | ".join(cells_of_row) + " |\n")
    return _HEAD.format(records=records or "no", dates=span) + "".join(rows)


def _counts(result: Result) -> list[str]:
    verdicts = [run.verdict for run in result.runs if run.verdict]
    if not verdicts:
        return ["-"] * 7
    names = ("lost", "duplicated", "aborted_visible", "torn", "disordered", "open_transactions")
    recoveries = [each["recovery_seconds"] for each in verdicts if each["recovery_seconds"] is not None]
    longest = f"{max(recoveries):.1f}" if recoveries else "-"
    return [*(str(sum(each[name] for each in verdicts)) for name in names), longest]


def _outcome(result: Result) -> str:
    for run in result.runs:
        if run.unavailable:
            return f"cannot be run here: {_text(run.unavailable)}"
    for run in result.runs:
        if not run.good:
            return f"**fails**{f': `{_text(run.failure)}`' if run.failure else ''}"
    stops = [run.stop for run in result.runs if run.stop]
    return f"stops, and says: `{_text(stops[-1])}`" if stops else "exact"


def _text(text: str) -> str:
    """On one line of a table, and without what is of one machine or one run alone."""
    line = " ".join(_masked(text).split()).replace("|", "\\|").replace("`", "'")
    return line if len(line) <= _MOST_TEXT else line[:_MOST_TEXT].rstrip("\\") + " ..."
