"""Small batches of a reading task, which become one."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from penstock.connectors.kafka.source.reader import merge_small_batches

SMALL, LARGE = 100, 300 << 10


@pytest.mark.parametrize("sizes", [*itertools.product((0, SMALL, LARGE), repeat=4), (SMALL,) * 3000, (100 << 10,) * 5])
def test_rows_stay_in_order_and_only_small_batches_are_joined(sizes):
    batches = [
        pa.RecordBatch.from_pydict({"n": pa.array([at] * size, pa.int16()), "t": pa.nulls(size)})
        for at, size in enumerate(sizes)
    ]
    found = list(merge_small_batches(batches))
    rows = [value for batch in found for value in batch.column("n").to_pylist()]
    assert rows == [at for at, size in enumerate(sizes) for _ in range(size)]
    assert all(any(each is given for given in batches) for each in found if len(each) == LARGE)
    assert all(each.nbytes + after.nbytes > 256 << 10 for each, after in itertools.pairwise(found))


def test_a_batch_without_rows_stays_one():
    empty = pa.RecordBatch.from_pydict({"n": pa.array([], pa.int16())})
    assert list(merge_small_batches([])) == []
    assert list(merge_small_batches([empty])) == [empty]
