"""A harness that cannot fail proves nothing: with a safeguard taken out, cells must turn red. ``make mutants`` takes
out all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_testing import ProxiedCluster
from tests.faults.cells import CELLS
from tests.faults.harness import BROKER, run_cell
from tests.faults.mutants import MUTANTS, seed_with
from tests.faults.results import Run

RECORDS = 2_000

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def proxied() -> Iterator[ProxiedCluster]:
    with ProxiedCluster(properties=BROKER) as cluster:
        yield cluster


def run(name: str, mutation: str, proxied: ProxiedCluster, folder: Path) -> Run:
    """What a cell finds when the job runs with a mutation."""
    return Run.of(run_cell(CELLS[name], proxied, RECORDS, folder, mutation, seed_with(2)))


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.ci])
def test_a_mutant_is_noticed(name: str, proxied: ProxiedCluster, tmp_path: Path) -> None:
    """By what it has done to the records."""
    mutant = MUTANTS[name]
    found = run(mutant.cell, name, proxied, tmp_path)
    assert not found.good
    assert mutant.killed_by(found)[0], found


@pytest.mark.slow
def test_f3_needs_fencing(proxied: ProxiedCluster, tmp_path: Path) -> None:
    """The driver that wakes up commits what its successor has committed."""
    found = run("F3 stopped before its first Produce of a batch", "skip-fencing", proxied, tmp_path)
    assert found.verdict["duplicated"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "F3 stopped after EndTxn; the second on a copy of the checkpoint",
        "F4 killed after EndTxn, down for longer than the time-out",
    ],
)
def test_f3_and_f4_need_the_progress_record(name: str, proxied: ProxiedCluster, tmp_path: Path) -> None:
    """A batch that was committed is published again, whole."""
    assert run(name, "ignore-progress", proxied, tmp_path).verdict["duplicated"] >= RECORDS // 8
