"""A small trial of ``make capture``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.trial import run_trial


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("with_schema", [False, True], ids=["without schemas", "with schemas"])
def test_a_copy_of_captured_changes_is_equal_after_two_kills(tmp_path: Path, with_schema: bool):
    outcome = run_trial(tmp_path, 1, 600, with_schema=with_schema)
    assert outcome.differences == []
    assert len(outcome.kills) == 2
    assert outcome.done["widened"]
