"""Arrow columns as buffers and back."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from penstock.columns.buffers import binary_array, slice_messages
from penstock.errors import RecordError


def test_messages_stand_between_their_offsets() -> None:
    data = np.frombuffer(b"--onetwo--", np.uint8)
    found = slice_messages(data, np.array([2, 5, 5, 8]), "mine")
    found.validate(full=True)
    assert found.to_pylist() == [b"one", b"", b"two"]
    assert slice_messages(data, np.array([0]), "mine").to_pylist() == []


def test_more_than_a_column_can_hold_is_refused_by_name() -> None:
    data = np.zeros(1, np.uint8)
    with pytest.raises(RecordError, match=r"format 'mine'.*exceed 2 GiB.*use smaller batches"):
        slice_messages(data, np.array([0, 2**31]), "mine")


def test_a_column_of_bytes_holds_no_reference_to_them() -> None:
    """Arrow's conversion of memoryviews never gives them back: a task would keep all that it has encoded."""
    pieces = [np.frombuffer(each, np.uint8).copy() for each in (b"abc", b"", b"de")]
    references = [weakref.ref(each) for each in pieces]
    column = binary_array([each.data for each in pieces])
    del pieces
    assert column.to_pylist() == [b"abc", b"", b"de"]
    assert [each() for each in references] == [None] * 3
    assert binary_array([]).to_pylist() == []
