"""What a Spark session on a cluster must not do in a job with state; the output of several targets that is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.runs.flows import check_attempts, choose_output
from penstock.errors import OptionsError
from penstock.flow.graph.exchange import ENCODED, EXCHANGE, REPORTS, RESULTS, STATE, edge_of_target

STAGES, ADAPTIVE = "spark.stage.maxConsecutiveAttempts", "spark.sql.adaptive.enabled"


def session(master: str, conf: dict[str, str]) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, getConf=lambda: conf), conf=conf)


@pytest.mark.rule("state commits with the output")
@pytest.mark.parametrize(
    ("conf", "keys"),
    [
        ({STAGES: "1", ADAPTIVE: "false"}, []),
        ({STAGES: "1", ADAPTIVE: "true"}, [ADAPTIVE]),
        ({}, [STAGES, ADAPTIVE]),
    ],
)
def test_no_part_of_a_stage_runs_again_on_a_cluster(conf: dict[str, str], keys: list[str]) -> None:
    check_attempts(session("local[2]", conf))
    found: list[str] = []
    try:
        check_attempts(session("spark://host:7077", conf))
    except OptionsError as error:
        found = [each.key for each in error.problems]
    assert found == keys


@pytest.mark.rule("the first commit binds the attempt")
def test_what_targets_need_to_commit_later_is_kept() -> None:
    """Of those that keep the state: encoded rows, and the results of writers that have written where the rows are. One
    that repeats batches has been written before."""
    committers: Any = [SimpleNamespace(keeps_state=keeps) for keeps in (True, False, True)]
    edges = [STATE, REPORTS, *(edge_of_target(edge, target) for target in range(3) for edge in (ENCODED, RESULTS))]
    rows = pa.Table.from_pylist([{"edge": edge} for edge in edges], schema=EXCHANGE)
    kept = choose_output(rows, committers).column("edge").to_pylist()
    assert sorted(kept) == sorted(edge_of_target(edge, target) for target in (0, 2) for edge in (ENCODED, RESULTS))
