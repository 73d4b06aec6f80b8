"""What queries give: the cases of tests/specs/sql/results.yaml, run through the dataflow without Spark.

The queries of a group are one job: they share the tables, and what they have in common is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import RecordError, UnsupportedError
from penstock.plan.planning import plan_job
from tests.corpora import script
from tests.programs import Way, written

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/results.yaml").read_text("utf-8"))
GROUPS, ORDERED, CHANGES, FAILURES = (SPEC[part] for part in ("groups", "ordered", "changes", "failures"))
#: All rows in one batch; each row in a batch of its own, divided among two owners, with a stop and a restart half-way.
WAYS = (Way(), Way(1, 2, restart=True))


def test_no_case_is_lost():
    parts = [[case for group in GROUPS for case in group["cases"]], ORDERED, CHANGES, FAILURES]
    assert sum(len(cases) for cases in parts) == SPEC["count"]
    for cases in parts:
        assert len({(case["sql"], case["into"], *case.get("key", ())) for case in cases}) == len(cases)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group["about"])
def test_queries_give_what_is_written_down(group: dict[str, Any], tmp_path: Path):
    cases = group["cases"]
    for number, way in enumerate(WAYS):
        found = written(_program(cases), way, str(tmp_path / str(number)))

        given = [(case["sql"], sorted(found[_sink(at)].rows.elements())) for at, case in enumerate(cases)]
        assert given == [(case["sql"], sorted(case["gives"])) for case in cases], way


def test_a_batch_refuses_tables_without_an_end_and_those_whose_rows_change():
    program = _program([{"sql": "SELECT o.id FROM orders AS o, customers AS c", "into": "id INT"}], batch=True)
    tables = [{**each, "bounded": each["name"] == "customers"} for each in program["tables"]]
    (job,) = script({**program, "tables": tables}).jobs

    with pytest.raises(UnsupportedError) as caught:
        plan_job(job)
    assert sorted(str(each).partition(" (")[0] for each in caught.value.problems) == [
        "table 'customers': gives updates and deletions too, and a query in batch mode reads tables of insertions only",
        "table 'orders': is unbounded, and a query in batch mode reads tables that end",
    ]


def test_a_batch_refuses_windows_of_processing_time():
    windows = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(p), INTERVAL '1' MINUTE))"
    query = f"SELECT COUNT(*) FROM {windows} GROUP BY window_start, window_end"
    (job,) = script(_program([{"sql": query, "into": "n BIGINT"}], batch=True)).jobs

    with pytest.raises(UnsupportedError, match=r"table 'orders': tumble\(.*\) is not supported in batch mode"):
        plan_job(job)


@pytest.mark.parametrize("owners", [1, 2])
def test_a_batch_gives_what_a_stream_ends_with_as_insertions(owners: int, tmp_path: Path):
    cases = [case for group in GROUPS for case in group["cases"] if not _changing(case)]
    for number, part in enumerate(cases[first : first + 40] for first in range(0, len(cases), 40)):
        found = written(_program(part, batch=True), Way(owners=owners, batch=True), str(tmp_path / str(number)))

        given = [(case["sql"], sorted(found[_sink(at)].changes)) for at, case in enumerate(part)]
        assert given == [(case["sql"], sorted(f"+I{row}" for row in case.get("batch", case["gives"]))) for case in part]


def test_a_batch_gives_its_rows_in_order(tmp_path: Path):
    found = written(_program(ORDERED, batch=True), Way(batch=True), str(tmp_path))

    given = [(case["sql"], found[_sink(at)].changes) for at, case in enumerate(ORDERED)]
    assert given == [(case["sql"], [f"+I{row}" for row in case["gives"]]) for case in ORDERED]


def test_changes_are_those_written_down(tmp_path: Path):
    """A row at a time, so that no change is folded into another."""
    found = written(_program(CHANGES), Way(1), str(tmp_path))

    given = [(case["sql"], found[_sink(at)].changes) for at, case in enumerate(CHANGES)]
    assert given == [(case["sql"], case["gives"]) for case in CHANGES]


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case["sql"])
def test_a_row_without_a_result_is_named(case: dict[str, Any], tmp_path: Path):
    with pytest.raises(RecordError, match=re.escape(case["fails"])):
        written(_program([case]), WAYS[0], str(tmp_path))


def _sink(number: int) -> str:
    return f"case{number}"


def _changing(case: Mapping[str, Any]) -> bool:
    """Whether a case reads a table whose rows change."""
    return any(re.search(rf"\b{name}\b", case["sql"]) for name, each in SPEC["tables"].items() if "changes" in each)


def _program(cases: Sequence[Mapping[str, Any]], *, batch: bool = False) -> dict[str, Any]:
    """One job of all cases. The statements before a query stand before it in its text."""
    parts = [case["sql"].split("; ") for case in cases]
    before = [statement for *statements, _ in parts for statement in statements]
    inserts = [f"INSERT INTO {_sink(number)} {query}" for number, (*_, query) in enumerate(parts)]
    text = " ".join(case["sql"] for case in cases)
    return {
        "name": cases[0]["sql"],
        "tables": [
            {**_table(name, each), "bounded": batch}
            for name, each in SPEC["tables"].items()
            if re.search(rf"\b{name}\b", text)
        ],
        "sinks": [
            {"name": _sink(number), "schema": [case["into"]], "primary_key": case.get("key"), "options": {}}
            for number, case in enumerate(cases)
        ],
        "sql": [
            f"SET 'execution.runtime-mode' = '{'batch' if batch else 'streaming'}'",
            *before,
            "EXECUTE STATEMENT SET BEGIN " + ";\n".join(inserts),
            "END",
        ],
        "run": {"end_of_input": "finite"},
    }


def _table(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    rows = [(kind, values) for kind, *values in given["rows"]]
    half = len(rows) // 2
    return {
        "name": name,
        "schema": given["columns"],
        "primary_key": given.get("key"),
        "watermark": given.get("watermark"),
        "changelog_mode": given.get("changes", "I"),
        "before": rows[:half],
        "after": rows[half:],
    }
