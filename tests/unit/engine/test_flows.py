"""What a Spark session on a cluster must not do in a job with state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.runs.flows import check_attempts
from penstock.errors import OptionsError

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
