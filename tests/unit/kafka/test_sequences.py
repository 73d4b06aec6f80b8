"""The sequence numbers of a partition's batches."""

from __future__ import annotations

import pytest

from penstock.kafka.produce import next_sequence


@pytest.mark.parametrize(
    ("sequence", "records", "expected"),
    [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (5, 0, 5)],
)
@pytest.mark.rule("one writer per partition")
def test_sequences_continue_at_zero_after_the_largest(sequence: int, records: int, expected: int) -> None:
    assert next_sequence(sequence, records) == expected
