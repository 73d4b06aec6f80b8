"""Tests against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock_testing.services import KafkaCluster

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that `-m "not broker"` leaves them out."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def older() -> Iterator[KafkaCluster]:
    """A broker where transaction.version 2 was not switched on."""
    from penstock_testing.services import KafkaCluster

    properties = {
        "transaction.version": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    with KafkaCluster(properties=properties) as cluster:
        yield cluster
