"""A few thousand of the broken messages that ``make fuzz`` makes a million of."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import one_batch
from tests.fuzz.subjects import SUBJECTS


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_format_answers_as_its_second_decoder(name: str) -> None:
    refused = sum(one_batch(name, f"test-{number}") for number in range(8))
    assert refused
