from __future__ import annotations

from penstock.deadline import Backoff, Deadline


def test_a_deadline_passes_once() -> None:
    assert Deadline.after(0).passed
    assert Deadline.after(0).left == 0.0
    later = Deadline.after(3_600_000)
    assert not later.passed
    assert 3_500 < later.left <= 3_600
    assert str(later) == "3600 s"


def test_waits_double_up_to_their_bound() -> None:
    backoff = Backoff(100, 1000)
    waits = [backoff.next() for _ in range(8)]
    for wait, middle in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0), strict=True):
        assert 0.8 * middle <= wait <= 1.2 * middle
