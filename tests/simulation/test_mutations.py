"""Each safeguard of the protocol is needed: the walks notice when it is missing, and do not when it is there."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS

_SEEDS = 80


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.rule(MUTATIONS[name].rule)) for name in sorted(MUTATIONS)]
)
def test_the_walks_notice_when_a_safeguard_is_missing(name: str) -> None:
    mutation = MUTATIONS[name]
    seed = next((seed for seed in range(_SEEDS) if _harmed(mutation.walk(seed).violations)), None)
    assert seed is not None, f"none of {_SEEDS} walks noticed"
    found = mutation.walk_with_it(seed)
    assert not found.violations, f"not for want of the safeguard:\n{found}"


def _harmed(violations: list[str]) -> bool:
    """Whether a rule was broken, and not merely the mutant itself."""
    return bool(violations) and not any("trips over its own state" in each for each in violations)
