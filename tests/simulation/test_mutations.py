"""Each safeguard of the protocol is needed: the walks notice when it is missing, and do not when it is there."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS

_SEEDS = 80


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_the_walks_notice_when_a_safeguard_is_missing(name: str) -> None:
    mutation = MUTATIONS[name]
    seed = next((seed for seed in range(_SEEDS) if mutation.walk(seed).violations), None)
    assert seed is not None, f"none of {_SEEDS} walks noticed"
    found = mutation.walk_with_it(seed)
    assert not found.violations, f"not for want of the safeguard:\n{found}"
