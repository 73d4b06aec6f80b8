"""Programs whose results are written down: the cases of tests/specs/sql/programs.yaml, cut into batches and with a stop
and a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import WAYS
from tests.unit.flow.test_programs import check

CASES = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/programs.yaml").read_text("utf-8"))


@pytest.mark.parametrize("program", CASES, ids=lambda program: program["name"])
def test_a_program_gives_what_is_written_down(program: dict[str, Any], tmp_path: Path):
    check({"run": {"end_of_input": "finite", "modes": ["streaming"]}, "one_run": {}} | program, WAYS, tmp_path)
