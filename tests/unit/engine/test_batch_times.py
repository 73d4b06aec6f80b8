"""The times of batches where the clock of the machine was wrong."""

from __future__ import annotations

from penstock.engine.runs.batch_times import BatchTimes

NOW, YEAR, SECOND = 1_700_000_000_000, 365 * 24 * 3600 * 1000, 1000


def test_no_batch_is_earlier_than_the_one_before_and_a_clock_that_is_far_behind_is_told_once() -> None:
    warnings: list[str] = []
    times = BatchTimes("totals", warnings.append)
    assert times.next(0, NOW) == NOW
    assert times.next(NOW, NOW + 5) == NOW + 5
    assert times.next(NOW + 30 * SECOND, NOW) == NOW + 30 * SECOND
    assert not warnings
    assert times.next(NOW + YEAR, NOW) == NOW + YEAR
    assert times.next(NOW + YEAR, NOW + SECOND) == NOW + YEAR
    (warning,) = warnings
    assert "job 'totals'" in warning
    assert "last batch is 2024-11-13 22:13:20 UTC, and this machine's clock says 2023-11-14 22:13:20 UTC" in warning
