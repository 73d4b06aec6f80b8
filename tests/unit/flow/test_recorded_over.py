"""Functions with OVER give Flink's results over a few rows, in streams however their rows are cut, and in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.programs import Way, written
from tests.recorded.over import BATCH, COLUMNS, STREAM, WATERMARK, query, recorded, sink

RECORDED = recorded()
STREAM_WAYS = (Way(), Way(1, 3), Way(7, 2))
BATCH_WAYS = (Way(batch=True), Way(owners=3, batch=True))


def _program(mode: str) -> dict[str, Any]:
    """A program with the queries of a mode, of which number n fills the table ``tn``."""
    queries = RECORDED[mode]
    inserts = [f"INSERT INTO t{at} {query(each['window'], each['functions'])}" for at, each in enumerate(queries)]
    statements = f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END"
    settings = ["SET 'execution.runtime-mode' = 'BATCH'"] if mode == "batch" else []
    table = {
        "name": "s",
        "schema": COLUMNS,
        "primary_key": None,
        "watermark": WATERMARK,
        "changelog_mode": "I",
        "bounded": mode == "batch",
        "before": [["+I", row] for row in RECORDED["rows"]],
        "after": [],
    }
    sinks = [
        {"name": f"t{at}", "schema": sink(len(each["functions"])), "primary_key": None, "options": {}}
        for at, each in enumerate(queries)
    ]
    return {
        "name": mode,
        "tables": [table],
        "sinks": sinks,
        "sql": [*settings, statements],
        "run": {"end_of_input": "finite"},
    }


def _shown(row: list[Any]) -> str:
    return f"[{', '.join('null' if each is None else each for each in row)}]"


@pytest.mark.parametrize("way", [*STREAM_WAYS, *BATCH_WAYS], ids=str)
def test_results_are_those_of_flink(way: Way, tmp_path: Path):
    mode = "batch" if way.batch else "stream"
    found = written(_program(mode), way, str(tmp_path))
    for at, each in enumerate(RECORDED[mode]):
        assert sorted(found[f"t{at}"].rows.elements()) == sorted(map(_shown, each["rows"])), each["window"]


def test_all_windows_are_recorded():
    for mode, windows in (("stream", STREAM), ("batch", BATCH)):
        assert {each["window"]: tuple(each["functions"]) for each in RECORDED[mode]} == {
            window: tuple(functions) for window, functions in windows.items()
        }
        assert all(len(each["rows"]) == len(RECORDED["rows"]) for each in RECORDED[mode])
