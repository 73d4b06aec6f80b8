"""When a job needs another batch although there is nothing to read."""

from __future__ import annotations

import pytest

from penstock.engine.runs.operator_reports import OperatorReport, next_wake, operator_times
from penstock.flow.time.watermarks import NEVER, OperatorTime


@pytest.mark.parametrize(
    ("wakes", "before", "expected"),
    [
        ([30, 20, None], 5, 20),  # the first of all operators
        ([None], 5, None),  # the last window was closed
        ([], 5, None),
        ([30], 10, 11),  # the clock was set back: others did not run, and may have windows that are due
    ],
)
def test_the_next_batch_is_for_the_first_operator(wakes: list[int | None], before: int, expected: int | None) -> None:
    assert next_wake([OperatorReport(0, NEVER, each) for each in wakes], before, 10) == expected


def test_late_rows_add_up_and_the_watermark_is_the_last_one() -> None:
    before = {"a": OperatorTime(20, 1), "quiet": OperatorTime(5, 2)}
    reports = {"a": OperatorReport(2, 30), "b": OperatorReport(0, 30), "clock": OperatorReport(0, NEVER)}
    found = operator_times(before, reports)
    assert found == {"a": OperatorTime(30, 3), "b": OperatorTime(30, 0), "quiet": OperatorTime(5, 2)}
