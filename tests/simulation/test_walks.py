"""Walks whose seeds are fixed: the same in every run. ``make simulate`` takes others."""

from __future__ import annotations

import pytest

from tests.simulation.walk import walk

_WALKS, _PER_TEST = 100, 50


@pytest.mark.parametrize("first", range(0, _WALKS, _PER_TEST))
def test_no_walk_breaks_a_rule(first: int) -> None:
    broken = [found for seed in range(first, first + _PER_TEST) if (found := walk(seed)).violations]
    assert not broken, "\n\n".join(map(str, broken[:1]))


def test_a_walk_is_the_same_each_time() -> None:
    first, again = walk(3), walk(3)
    assert first.trace == again.trace
    assert len(first.trace) > 10
