"""Arrow columns as buffers and back."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.columns.buffers import slice_messages
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
