"""The findings: as JSON, as a page, and as plots."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bench.gate.sides import Run
from bench.plots import bars

_ROOT = Path(__file__).parents[2]
_RESULTS = _ROOT / "bench" / "results" / "latest.json"
_DOCS = _ROOT / "docs"
_NAMES = {
    "penstock": "penstock",
    "flink_heap": "Flink, heap",
    "flink_rocksdb": "Flink, RocksDB",
    "spark": "Spark",
}
_GIB = 1 << 30
#: The parts of a run whose least and greatest latencies are told.
_PARTS = 3


@dataclass
class Report:
    """What was found, by work and system; ``notes`` says what is missing."""

    work: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    ratio: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, work: str, records: int, runs: Mapping[str, Sequence[Run]]) -> None:
        """Take in the runs of a work. A ratio is the median over rounds of how much faster penstock was."""
        of = {name: each for name, each in runs.items() if each}
        self.work[work] = {name: _summarize(records, each) for name, each in of.items()}
        ours = of.get("penstock")
        if ours:
            self.ratio[work] = {
                name: round(statistics.median(b.seconds / a.seconds for a, b in zip(ours, each, strict=False)), 3)
                for name, each in of.items()
                if name != "penstock"
            }

    def latency(self, millis: np.ndarray) -> None:
        """Take in the milliseconds from produced to visible of each record, in the order of the records."""
        for percent in (50, 99):
            parts = [float(np.percentile(part, percent)) for part in np.array_split(millis, _PARTS)]
            found = {"median": float(np.percentile(millis, percent)), "min": min(parts), "max": max(parts)}
            self.work[f"latency_p{percent}_ms"] = {"penstock": {key: round(each, 1) for key, each in found.items()}}

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, {_memory_gib()} GiB",
            "work": self.work,
            "ratio": self.ratio,
            "notes": self.notes,
        }

    def page(self) -> str:
        """As Markdown."""
        return page(self.document())

    def write(self) -> None:
        """Write the findings down, with a plot."""
        document = self.document()
        _RESULTS.parent.mkdir(exist_ok=True)
        _RESULTS.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        publish(document)


def publish(document: Mapping[str, Any]) -> None:
    """Put findings into docs/performance.md, between its marks, and draw the plots beside it."""
    path = _DOCS / "performance.md"
    text, marks = path.read_text("utf-8"), ("<!-- peers -->", "<!-- /peers -->")
    between = f"{marks[0]}\n{page(document)}{marks[1]}"
    path.write_text(re.sub(f"{marks[0]}.*{marks[1]}", lambda _: between, text, flags=re.DOTALL), "utf-8")
    for name, (title, works) in _plots(document).items():
        shown = {
            _short_name(work): {_NAMES[system]: found["median"] for system, found in document["work"][work].items()}
            for work in works
        }
        (_DOCS / "images").mkdir(exist_ok=True)
        (_DOCS / "images" / f"{name}.svg").write_text(bars(title, shown), "utf-8")


def page(document: Mapping[str, Any]) -> str:
    """Findings as Markdown: tables of rates, and pictures of them."""
    parts = [f"Measured on {document['date']}: {document['machine']}."]
    for name, (title, works) in _plots(document).items():
        parts += [f"![{title}](images/{name}.svg)", _rates(document, works)]
        geometric = _means(document, works)
        if name == "nexmark" and geometric:
            parts.append("Geometric means of the ratios: " + ", ".join(geometric) + ".")
    delays = {name: found["penstock"]["median"] for name, found in document["work"].items() if "latency" in name}
    if delays:
        shown = ", ".join(f"{name.split('_')[1]} {value:,.0f} ms" for name, value in delays.items())
        parts.append(f"From produced to visible at 1,000 records/s, JSON through a filter to JSON: {shown}.")
    if document["notes"]:
        parts.append("\n".join(f"- {note}" for note in document["notes"]))
    return "\n\n".join(parts) + "\n"


def _plots(document: Mapping[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """The plots, each with its title and works."""
    throughput = [name for name in document["work"] if "latency" not in name]
    queries = [name for name in throughput if name.startswith("nexmark_")]
    plain = [name for name in throughput if name not in queries]
    found = {"stateless": ("Without state, records/s", plain), "nexmark": ("Nexmark, events/s", queries)}
    return {name: each for name, each in found.items() if each[1]}


def _rates(document: Mapping[str, Any], works: Sequence[str]) -> str:
    systems = [each for each in _NAMES if any(each in document["work"][work] for work in works)]
    head = ["records/s (least to most)", *(_NAMES[each] for each in systems), "ratio", "CPU s per million", "peak GiB"]
    lines = []
    for work in works:
        found = document["work"][work]
        there = [each for each in systems if each in found]
        lines.append(
            [
                _short_name(work),
                *(_format_spread(found.get(each)) for each in systems),
                ", ".join(f"{value:.1f}" for value in document["ratio"].get(work, {}).values()),
                ", ".join(f"{found[each]['cpu_seconds_per_million']:.1f}" for each in there),
                ", ".join(f"{found[each]['peak_bytes'] / _GIB:.1f}" for each in there),
            ]
        )
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def _format_spread(found: Mapping[str, float] | None) -> str:
    return "" if found is None else f"{found['median']:,.0f} ({found['min']:,.0f} to {found['max']:,.0f})"


def _means(document: Mapping[str, Any], works: Iterable[str]) -> list[str]:
    """The geometric mean of the ratios to each peer, and the least of them."""
    ratios: dict[str, list[float]] = {}
    for work in works:
        for peer, value in document["ratio"].get(work, {}).items():
            ratios.setdefault(peer, []).append(value)
    return [
        f"{statistics.geometric_mean(values):.2f} to {_NAMES[peer]} (least {min(values):.2f})"
        for peer, values in ratios.items()
    ]


def _short_name(work: str) -> str:
    return work.removeprefix("nexmark_")


def _summarize(records: int, runs: Sequence[Run]) -> dict[str, float]:
    rates = sorted(records / run.seconds for run in runs)
    return {
        "median": round(statistics.median(rates)),
        "min": round(rates[0]),
        "max": round(rates[-1]),
        "cpu_seconds_per_million": round(statistics.median(run.cpu for run in runs) / records * 1e6, 3),
        "peak_bytes": max(run.memory for run in runs),
    }


def _memory_gib() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB)
