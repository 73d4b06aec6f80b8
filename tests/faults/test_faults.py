"""The cells that every test run does: those of whole processes that die or stand still, for which no test of
``tests/spark`` stands. ``make faults`` does all of them, with more records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_testing import ProxiedCluster
from penstock_testing.services import DEFAULT_VERSION
from tests.faults.cells import CELLS
from tests.faults.harness import BROKER, run_cell
from tests.faults.results import Run

RECORDS = 4_000

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def proxied() -> Iterator[ProxiedCluster]:
    """A broker behind a proxy, for all cells."""
    with ProxiedCluster(properties=BROKER) as cluster:
        yield cluster


@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if cell.ci])
def test_fault(name: str, proxied: ProxiedCluster, tmp_path: Path) -> None:
    """Nothing is lost, repeated, torn, out of order or left open."""
    cell = CELLS[name]
    assert (cell.brokers, cell.properties, cell.version) == (1, {}, DEFAULT_VERSION), "it needs a cluster of its own"
    outcome = run_cell(cell, proxied, RECORDS, tmp_path)
    assert outcome.good, outcome
    Run.of(outcome).write(tmp_path / "run.json")  # as `make faults` keeps it
