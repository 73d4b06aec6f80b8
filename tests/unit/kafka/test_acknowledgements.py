"""The sum of a partition's acknowledgements, in any order."""

from __future__ import annotations

from itertools import permutations

import pytest

from penstock.deadline import Backoff
from penstock.kafka.produce import Ack, _Batch, _Lane


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_they_are_those_of_the_whole_in_any_order(order: tuple[int, ...]) -> None:
    """A batch that is sent again may be acknowledged behind later ones."""
    lane = _Lane(("out", 0), Backoff(1, 1))
    for number in order:
        lane.acknowledge(_Batch(bytearray(100), 10, number, 0.0, number * 10), 1000 + number * 10)
    assert lane.ack == Ack("out", 0, 0, 29, 30, 3, 300, 1000)
