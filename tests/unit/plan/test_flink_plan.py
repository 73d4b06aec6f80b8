"""What EXPLAIN prints for every query that can be planned: whole trees, whatever their steps are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from penstock.sql import parse_script

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/queries.yaml").read_text("utf-8"))
QUERIES = [case["sql"] for case in SPEC["cases"] if case["sql"].startswith("INSERT INTO")]


@pytest.mark.parametrize("sql", QUERIES)
def test_every_step_is_shown_in_each_section(sql: str):
    (text,) = parse_script(SPEC["tables"] + f"EXPLAIN JSON_EXECUTION_PLAN {sql}").printed
    logical, physical, execution, steps, route = (part.strip() for part in re.split(r"(?m)^== .* ==\n", text)[1:])

    assert route.startswith("rows ")
    assert logical.startswith("LogicalSink(")
    lines = physical.splitlines()
    assert all("changelogMode=[" in line for line in lines)
    assert re.sub(r", changelogMode=\[[^]]*\]", "", physical) == re.sub(r"\(reuse_id=\[\d+\]\)", "", execution) or (
        "Reused" in execution
    )
    shown = [line for line in lines if "Exchange(" not in line]
    assert 0 < len(json.loads(steps)["nodes"]) <= len(shown)
    for line in lines:
        if "state=[" in line:
            below = lines[lines.index(line) + 1]
            assert "Exchange(distribution=[" in below


def test_equal_steps_of_a_statement_set_are_computed_once():
    """Also where their table has a column that differs each time it is asked for, which nobody reads."""
    insert = "INSERT INTO s SELECT COUNT(*) FROM timed GROUP BY id"

    (text,) = parse_script(f"{SPEC['tables']} EXPLAIN STATEMENT SET BEGIN {insert}; {insert}; END").printed

    assert text.count("Reused(reference_id=[1])") == 1
    assert text.count("(reuse_id=[1])") == 1
