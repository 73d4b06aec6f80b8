"""Tests against a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that `-m "not broker"` leaves them out."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.broker)
