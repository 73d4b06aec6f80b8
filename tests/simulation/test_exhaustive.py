"""Every single fault at every request of a job, and every second fault while a transaction is settled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.exhaustive import UNTIL_UNKNOWN, pairs, setting, singles
from tests.simulation.faults import Fault, Plan, Rule
from tests.simulation.walk import walk


@pytest.mark.parametrize("version", [2, 0])
@pytest.mark.parametrize("plans", [singles, pairs], ids=["one fault", "two faults"])
def test_no_fault_breaks_a_rule(plans: Callable[[int], Iterator[Plan]], version: int) -> None:
    walks = [walk(0, setting=setting(version), plan=plan) for plan in plans(version)]
    assert all(each.plan.rules[0].hits for each in walks), "a fault was never met"
    broken = [each for each in walks if each.violations]
    assert not broken, f"{len(broken)} of {len(walks)}, the first:\n{broken[0]}"


@pytest.mark.parametrize("version", [2, 0])
def test_the_outcome_of_a_first_batch_is_found_where_another_query_published_before(version: int) -> None:
    lost = Plan([Rule(Fault.UNANSWERED, "EndTxn commit", 1, UNTIL_UNKNOWN)])  # the first commit is the claim's
    found = walk(0, setting=setting(version, published_before=7), plan=lost)
    assert found.plan.rules[0].hits == UNTIL_UNKNOWN
    assert not found.violations, str(found)
