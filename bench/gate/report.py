"""What the gate found, as a page of tables and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.gate.kills import Outcome
from bench.gate.sides import Run
from bench.gate.stores import PARTS


@dataclass(frozen=True)
class Measured:
    """The runs of one side with one query over ``records`` records, of which the result has ``rows``."""

    query: str
    side: str
    records: int
    rows: int
    runs: Sequence[Run]

    @property
    def rate(self) -> float:
        """Records a second: the median."""
        return self.records / statistics.median(run.seconds for run in self.runs)

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "query": self.query,
            "side": self.side,
            "records": self.records,
            "rows": self.rows,
            "records/s": round(self.rate),
            "seconds": [round(run.seconds, 3) for run in self.runs],
            "cpu seconds": [round(run.cpu, 2) for run in self.runs],
        }


@dataclass
class Report:
    """All findings, empty where nothing was measured; ``notes`` says what was left out."""

    jobs: list[Measured] = field(default_factory=list)
    stores: dict[str, dict[str, float]] = field(default_factory=dict)
    store_rows: int = 0
    restarts: dict[int, list[float]] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    kills: Outcome | None = None
    notes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "jobs": [each.document() for each in self.jobs],
            "stores": self.stores,
            "store rows": self.store_rows,
            "restarts": {str(keys): seconds for keys, seconds in self.restarts.items()},
            "latency": self.latency,
            "kills": None if self.kills is None else asdict(self.kills),
            "notes": self.notes,
        }

    def page(self) -> str:
        """As Markdown."""
        parts = [*self._job_tables(), *self._store_table(), *self._restart_table()]
        if self.latency:
            parts.append(
                "Latency at {rate:,.0f} records/s, {keys:,.0f} keys, from produced to visible: p50 {p50 ms:,.0f} ms, "
                "p99 {p99 ms:,.0f} ms".format_map(self.latency)
            )
        if self.kills is not None:
            line = "{kills} times killed, {amid} times amid a batch; {batches:,} batches, {records:,} records: "
            parts.append(line.format_map(asdict(self.kills)) + ("; ".join(self.kills.wrong) or "exact"))
        parts += [f"Left out: {note}" for note in self.notes]
        return "\n\n".join(parts) + "\n"

    def _job_tables(self) -> list[str]:
        tables = []
        for query in dict.fromkeys(each.query for each in self.jobs):
            beside = [each for each in self.jobs if each.query == query]
            first = beside[0]
            lines = [
                [
                    each.side,
                    f"{each.rate:,.0f}",
                    f"{each.rate / first.rate:.2f}",
                    f"{statistics.median(run.seconds for run in each.runs):.2f}",
                    f"{statistics.median(run.cpu for run in each.runs):.1f}",
                    f"{each.records:,}",
                    f"{each.rows:,}",
                ]
                for each in beside
            ]
            head = [query, "records/s", f"to {first.side}", "s", "CPU s", "records", "rows of the result"]
            tables.append(_table(head, lines))
        return tables

    def _store_table(self) -> list[str]:
        if not self.stores:
            return []
        lines = []
        for part in PARTS:
            ours, theirs = (self.stores[name][part] for name in ("penstock", "rocksdict"))
            rate = [f"{self.store_rows / seconds:,.0f}" for seconds in (ours, theirs)]
            lines.append([part, f"{ours * 1000:,.1f}", f"{theirs * 1000:,.1f}", *rate, f"{theirs / ours:.2f}"])
        head = [
            "a batch over kept state",
            "penstock ms",
            "rocksdict ms",
            "penstock rows/s",
            "rocksdict rows/s",
            "ratio",
        ]
        return [_table(head, lines)]

    def _restart_table(self) -> list[str]:
        lines = [
            [f"{keys:,}", f"{statistics.median(seconds):.2f}", ", ".join(f"{each:.2f}" for each in seconds)]
            for keys, seconds in self.restarts.items()
        ]
        return [_table(["keys", "s from start to the first commit", "each"], lines)] if lines else []


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))
