"""Every single fault at every request of a job, and every second fault while a transaction is settled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

import pytest

from tests.simulation.exhaustive import UNTIL_UNKNOWN, pairs, setting, singles
from tests.simulation.faults import Fault, Plan, Rule
from tests.simulation.walk import Found, walk


def assert_unbroken(walks: Sequence[Found]) -> None:
    broken = [each for each in walks if each.violations]
    assert not broken, f"{len(broken)} of {len(walks)}, the first:\n{broken[0]}"


@pytest.mark.parametrize("version", [2, 0])
@pytest.mark.parametrize(
    "plans", [pytest.param(singles, id="one fault"), pytest.param(pairs, id="two faults", marks=pytest.mark.slow)]
)
def test_no_fault_breaks_a_rule(plans: Callable[[int], Iterator[Plan]], version: int) -> None:
    walks = [walk(0, setting=setting(version), plan=plan) for plan in plans(version)]
    assert all(each.plan.rules[0].hits for each in walks), "a fault was never met"
    assert_unbroken(walks)


@pytest.mark.rule("state commits with the output")
def test_no_fault_parts_the_state_from_the_output() -> None:
    made = setting(2, stateful=True)
    walks = [walk(0, setting=made, plan=plan) for plan in singles(2, stateful=True)]
    assert all(each.plan.rules[0].hits for each in walks), "a fault was never met"
    assert_unbroken(walks)


@pytest.mark.parametrize("version", [2, 0])
def test_the_outcome_of_a_first_batch_is_found_where_another_query_published_before(version: int) -> None:
    lost = Plan([Rule(Fault.UNANSWERED, "EndTxn commit", 1, UNTIL_UNKNOWN)])  # the first commit is the claim's
    found = walk(0, setting=setting(version, published_before=7), plan=lost)
    assert found.plan.rules[0].hits == UNTIL_UNKNOWN
    assert not found.violations, str(found)


@pytest.mark.parametrize("version", [2, 0])
@pytest.mark.parametrize(
    ("fault", "batch"),
    [(Fault.PROGRESS_LOST, 0), (Fault.PROGRESS_LOST, 1), (Fault.PROGRESS_RECREATED, 0), (Fault.PROGRESS_RECREATED, 1)],
)
def test_progress_that_is_lost_while_an_outcome_is_unknown_stops_the_job(
    fault: Fault, batch: int, version: int
) -> None:
    unanswered = Rule(Fault.UNANSWERED, "EndTxn commit", 1 + batch, UNTIL_UNKNOWN)
    found = walk(0, setting=setting(version), plan=Plan([unanswered, Rule(fault, "DescribeTransactions", after=0)]))
    assert found.plan.hits[fault.value] == 1
    assert found.outcomes[0] == "CheckpointError", str(found)
    if batch:  # else the next start finds a new job, as the error has said
        *stopped, adopting = found.outcomes
        assert set(stopped) == {"CheckpointError"}, str(found)
        assert adopting == "finished", str(found)
        assert_unbroken([found])


@pytest.mark.parametrize("version", [2, 0])
def test_progress_is_not_believed_of_a_broker_that_is_cut_off(version: int) -> None:
    """It led the progress topic and has the record of the batch, not the marker that followed: that went to the next
    leader. The answer to the commit is lost."""
    rules = [
        Rule(Fault.CUT_OFF, "TxnOffsetCommit", 1),
        Rule(Fault.UNANSWERED, "EndTxn commit", times=UNTIL_UNKNOWN, after=0),
    ]
    made = replace(setting(version), brokers=2)
    walks = [walk(seed, setting=made, plan=Plan(deepcopy(rules))) for seed in range(40)]
    assert all(rule.hits for each in walks for rule in each.plan.rules)
    assert_unbroken(walks)


@pytest.mark.parametrize("version", [2, 0])
@pytest.mark.parametrize(
    "prefixes", [("walk", "walk", "walk"), ("walk", "run", "walk"), ("walk", "run", "run"), ("walk", "run", "third")]
)
def test_a_checkpoint_that_is_older_than_what_was_published_is_not_gone_on_with(
    prefixes: tuple[str, ...], version: int
) -> None:
    """It is put back, but the cluster goes on as it is. With the latest checkpoint the job does."""
    rules = [Rule(Fault.CRASH, "ApiVersions", 3), Rule(Fault.CRASH, "TxnOffsetCommit", 2, after=0)]
    made = setting(version)
    made = replace(made, pipeline=replace(made.pipeline, records=10), prefixes=prefixes, restored=(1, 2))
    found = walk(0, setting=made, plan=Plan(rules))
    *stopped, with_the_latest = found.outcomes[2:]
    assert set(stopped) == {"CheckpointError"}, str(found)
    assert with_the_latest == "finished", str(found)
    assert_unbroken([found])


@pytest.mark.parametrize("version", [2, 0])
def test_progress_is_not_read_before_a_former_owner_has_ceased_to_publish(version: int) -> None:
    """A run whose commit was lost waits for InitProducerId, and so does a copy that starts. Now and then the run is
    second, takes its id back before the copy has claimed it, publishes its batch, and dies."""
    rules = [
        Rule(Fault.LOST, "EndTxn commit", 2, UNTIL_UNKNOWN),
        Rule(Fault.SECOND_DRIVER, "DescribeTransactions", after=0),
        Rule(Fault.UNANSWERED, "InitProducerId", times=2, after=0),
        Rule(Fault.CRASH_AFTER, "EndTxn commit", after=2),
    ]
    walks = [walk(seed, setting=setting(version), plan=Plan(deepcopy(rules))) for seed in range(20)]
    assert_unbroken(walks)


@pytest.mark.rule("forgotten ids prove nothing")
def test_a_forgotten_id_does_not_hide_a_copy_that_has_published() -> None:
    """Below transaction.version 2, where a new epoch is asked for with the one that was had."""
    rules = [
        Rule(Fault.SECOND_DRIVER, "Produce", 2),
        Rule(Fault.LATE_ANSWER, "AddPartitionsToTxn", after=0),
        Rule(Fault.FORGOTTEN, "ListOffsets", 3, 2, after=1),
    ]
    walks = [walk(seed, setting=setting(0), plan=Plan(deepcopy(rules))) for seed in range(30)]
    assert_unbroken(walks)


@pytest.mark.parametrize("version", [2, 0])
def test_a_job_adopts_what_a_progress_topic_with_fewer_partitions_lacks(version: int) -> None:
    """The topic is created again after the first batch, in half of the walks with a partition alone."""
    rules = [Rule(Fault.CRASH_AFTER, "EndTxn commit", 1), Rule(Fault.PROGRESS_RECREATED, "ApiVersions", after=0)]
    made = replace(setting(version), progress_partitions=8, prefixes=("walk", "run"))
    walks = [walk(seed, setting=made, plan=Plan(deepcopy(rules))) for seed in range(10)]
    assert all(rule.hits for each in walks for rule in each.plan.rules)
    assert_unbroken(walks)
    assert {each.outcomes[-1] for each in walks} == {"finished"}
