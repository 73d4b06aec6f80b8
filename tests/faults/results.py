"""What the cells of the matrix found: kept in docs/faults.json, and as the table of docs/faults.md."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.faults.harness import Cell, Outcome

__all__ = ["DATA", "Kill", "Result", "Run", "load", "load_kills", "render", "save", "save_kill"]

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
is the start of Python, the JVM and Spark. **Hit** is what the last run saw of its fault: requests and answers that the
proxy caught, what the brokers answered to them, what Spark's logs held and what the coordinator said about the
transaction. A run in which a fault misses its point fails, however exact it is.

Runs of a cell differ in their seed, from which it draws which batch is hit, how many partitions the output has, how
connections end, and Python's hash seed. {runs} runs are on record, with {seeds} seeds, which
[faults.json](faults.json) holds; `.venv/bin/python -m tests.faults --cell CELL --seed SEED --folder DIR` repeats one.
The kit that does all this is public: [testing.md](testing.md).

| fault | where | runs | lost | duplicated | aborted seen | torn | order | open | recovery | hit | outcome |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
"""

_MUTANTS = """
## Without a safeguard

A matrix that cannot fail proves nothing. Each of these mutants is penstock with one safeguard taken out, run through
one cell of the matrix ({records} records), which has to turn red by what it counts or by what it sees of its fault, not
because the mutant breaks down. `make mutants` runs them all (the last time on {dates}), every test run some
(`tests/faults/test_mutations.py`).

| mutant | what is taken out | cell | seen |
| --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Run:
    """One run of a cell: its verdict's counts, what went wrong besides or instead, and the ``seed`` it drew from."""

    verdict: dict[str, Any] = field(default_factory=dict)
    exact: bool = False
    stop: str = ""
    hit: str = ""
    failure: str = ""
    unavailable: str = ""
    seconds: float = 0.0
    seed: int = 0
    date: str = ""

    @classmethod
    def of(cls, outcome: Outcome, seed: int = 0) -> Run:
        """What a cell returned."""
        verdict = asdict(outcome.verdict)
        return cls(
            verdict, outcome.verdict.exact, outcome.stop, outcome.hit, outcome.problem,
            seed=seed, date=time.strftime("%Y-%m-%d"),
        )  # fmt: skip

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
        """Whether its fault has hit, and it came out as it should."""
        return self.exact and bool(self.hit) and not self.failure


@dataclass(frozen=True)
class Result:
    """All runs of a cell that are on record."""

    fault: str
    point: str
    records: int
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
    def seeds(self) -> set[int]:
        """Those of the runs that came out as they should."""
        return {run.seed for run in self.runs if run.good}

    def with_run(self, run: Run) -> Result:
        """One run more. Runs of which nothing shows that their fault has hit give way to it."""
        return replace(self, runs=(*(each for each in self.runs if each.hit or each.failure), run))

    @property
    def summary(self) -> str:
        """A line about it."""
        last = self.runs[-1]
        found = "exact" if last.good else last.unavailable or last.failure or f"NOT EXACT {last.verdict}"
        return f"{found.splitlines()[0]}, seed {last.seed}, {last.seconds:.0f} s"


@dataclass(frozen=True)
class Kill:
    """What a cell saw of a mutant: ``seen`` where that has turned it red, ``failure`` where nothing has."""

    mutant: str
    safeguard: str
    cell: str
    records: int
    seed: int
    seen: str = ""
    failure: str = ""
    date: str = ""


def load() -> dict[str, Result]:
    """What is kept, by the cells' names."""
    kept = [Result(**{**each, "runs": tuple(Run(**run) for run in each["runs"])}) for each in _read()["cells"]]
    return {each.name: each for each in kept}


def load_kills() -> list[Kill]:
    """What is kept of the mutants."""
    return [Kill(**each) for each in _read()["mutants"]]


def save(result: Result) -> None:
    """Keep it, without what is of this machine."""
    runs = [
        replace(run, stop=_masked(run.stop), hit=_masked(run.hit), failure=_masked(run.failure)) for run in result.runs
    ]
    kept = load() | {result.name: replace(result, runs=tuple(runs))}
    _write(_read() | {"cells": [asdict(each) for _, each in sorted(kept.items())]})


def save_kill(kill: Kill) -> None:
    """Keep it, without what is of this machine."""
    kept = {each.mutant: each for each in load_kills()}
    kept[kill.mutant] = replace(kill, seen=_masked(kill.seen), failure=_masked(kill.failure))
    _write(_read() | {"mutants": [asdict(each) for _, each in sorted(kept.items())]})


def _read() -> dict[str, Any]:
    return json.loads(DATA.read_text()) if DATA.exists() else {"cells": [], "mutants": []}


def _write(kept: dict[str, Any]) -> None:
    draft = DATA.with_suffix(".draft")
    draft.write_text(json.dumps(kept, indent=1) + "\n")
    draft.replace(DATA)


def _masked(text: str) -> str:
    for pattern, instead in _SHORTER:
        text = re.sub(pattern, instead, text)
    return text


# --- the table ---------------------------------------------------------------------------------------------------


def render(results: Sequence[Result], cells: Sequence[Cell], kills: Sequence[Kill] = ()) -> str:
    """The page: a row for every cell, those that were not run among them, and one for every mutant."""
    known = {result.name: result for result in results}
    every = [run for result in results for run in result.runs]
    dates = sorted({run.date for run in every})
    records = " or ".join(f"{each:,}" for each in sorted({result.records for result in results}))
    span = "no date yet" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    rows = []
    for cell in sorted(cells, key=lambda each: int(each.fault[1:])):
        result = known.get(cell.name)
        if result is None:
            cells_of_row = [cell.fault, cell.point, "0", *["-"] * 8, "not run"]
        else:
            cells_of_row = [
                cell.fault,
                cell.point,
                str(len(result.runs)),
                *_counts(result),
                _hit(result),
                _outcome(result),
            ]
        rows.append("| " + " | ".join(cells_of_row) + " |\n")
    seeds = len({run.seed for run in every})
    head = _HEAD.format(records=records or "no", dates=span, runs=len(every), seeds=seeds)
    return head + "".join(rows) + _mutants(kills)


def _mutants(kills: Sequence[Kill]) -> str:
    if not kills:
        return ""
    records = " or ".join(f"{each:,}" for each in sorted({kill.records for kill in kills}))
    rows = []
    for each in kills:
        seen = _text(each.seen) or f"**survives**: `{_text(each.failure)}`"
        rows.append(f"| {each.mutant} | {_text(each.safeguard)} | {each.cell} | {seen} |\n")
    dates = " and ".join(sorted({kill.date for kill in kills}))
    return _MUTANTS.format(records=records, dates=dates) + "".join(rows)


def _hit(result: Result) -> str:
    return next((_text(run.hit) for run in reversed(result.runs) if run.hit), "-")


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
    if all(run.exact and not run.hit and not run.failure for run in result.runs):
        return "exact, and nothing looked at the hit"
    for run in result.runs:
        if not run.good:
            return f"**fails**{f': `{_text(run.failure)}`' if run.failure else ''}"
    stops = [run.stop for run in result.runs if run.stop]
    return f"stops, and says: `{_text(stops[-1])}`" if stops else "exact"


def _text(text: str) -> str:
    """On one line of a table, and without what is of one machine or one run alone."""
    line = " ".join(_masked(text).split()).replace("|", "\\|").replace("`", "'")
    return line if len(line) <= _MOST_TEXT else line[:_MOST_TEXT].rstrip("\\") + " ..."
