"""A harness that cannot fail proves nothing: with a safeguard taken out, cells must turn red."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import ProxiedCluster
from tests.faults.cells import CELLS
from tests.faults.harness import BROKER, run_cell

RECORDS = 2_000

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def proxied() -> Iterator[ProxiedCluster]:
    with ProxiedCluster(properties=BROKER) as cluster:
        yield cluster


def counts(name: str, mutation: str, proxied: ProxiedCluster, folder: Path) -> dict[str, int]:
    """What a cell counts when the job runs with a mutation."""
    outcome = run_cell(CELLS[name], proxied, RECORDS, folder, mutation)
    assert not outcome.good
    verdict = outcome.verdict
    return {"lost": verdict.lost, "duplicated": verdict.duplicated, "open": verdict.open_transactions}


def test_f1_needs_fencing(proxied: ProxiedCluster, tmp_path: Path) -> None:
    """The transaction that the dead driver left open is nobody's, and hides what comes after it."""
    found = counts("F1 mid-publish", "skip-fencing", proxied, tmp_path)
    assert found["open"] > 0
    assert found["lost"] > 0


def test_f3_needs_fencing(proxied: ProxiedCluster, tmp_path: Path) -> None:
    """The driver that wakes up commits what its successor has committed."""
    assert counts("F3 stopped before its first Produce of a batch", "skip-fencing", proxied, tmp_path)["duplicated"] > 0


@pytest.mark.parametrize(
    "name",
    [
        "F1 after EndTxn, before Spark's commit log",
        "F3 stopped after EndTxn; the second on a copy of the checkpoint",
        "F4 killed after EndTxn, down for longer than the time-out",
    ],
)
def test_f1_f3_and_f4_need_the_progress_record(name: str, proxied: ProxiedCluster, tmp_path: Path) -> None:
    """A batch that was committed is published again, whole."""
    assert counts(name, "ignore-progress", proxied, tmp_path)["duplicated"] >= RECORDS // 8
