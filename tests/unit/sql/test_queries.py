"""Queries with state to plans: the cases of tests/specs/sql/queries.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.plan.nodes import Node, Scan
from penstock.plan.traits import traits
from penstock.sql import parse_script
from tests.plans import check_job

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/queries.yaml").read_text("utf-8"))
CASES = SPEC["cases"]


def shown(node: Node) -> list[str]:
    """A plan as lines, each node above its inputs."""
    own = [f"scan {node.table}"] if isinstance(node, Scan) else node.explain_step()
    return [*own, *(f"  {line}" for each in node.inputs for line in shown(each))]


def bound(sql: str) -> Node:
    (job,) = parse_script(SPEC["tables"] + sql).jobs
    check_job(job)
    (sink,) = job.sinks
    return sink.input


def test_no_case_is_lost():
    assert len(CASES) == SPEC["count"]
    assert len({case["sql"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"])
def test_a_query_has_one_plan(case: dict[str, Any]):
    node = bound(case["sql"])

    assert "\n".join(shown(node)) == case["plan"].rstrip("\n")
    assert ", ".join(map(str, node.schema.fields)) == case["columns"]
    known = traits(node)
    assert " ".join(kind.short for kind in sorted(known.kinds)) == case["gives"]
    assert [list(key) for key in known.upsert_keys] == case["keys"]
