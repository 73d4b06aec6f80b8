"""All cells of the matrix: importing this module defines them."""

from tests.faults import (
    between_runs,
    brokers,
    checkpoints,
    driver_deaths,
    executors,
    foreigners,
    networks,
    nondeterminism,
    older_brokers,
    sizes,
    sources,
    two_targets,
    worker_deaths,
    zombies,
)
from tests.faults.harness import CELLS

__all__ = [
    "CELLS",
    "between_runs",
    "brokers",
    "checkpoints",
    "driver_deaths",
    "executors",
    "foreigners",
    "networks",
    "nondeterminism",
    "older_brokers",
    "sizes",
    "sources",
    "two_targets",
    "worker_deaths",
    "zombies",
]
