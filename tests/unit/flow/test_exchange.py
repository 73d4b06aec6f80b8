"""Batches on their way between tasks: to the owners of their keys, in order, in rows or in files."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from penstock.flow.graph.exchange import (
    EXCHANGE,
    ORDER,
    EdgeId,
    EdgeKind,
    Origin,
    Receiver,
    Sender,
    Spill,
    concat_batches,
    hash_range,
    owner_of,
    split_by_edge,
)
from penstock.flow.rows.envelope import HASH

ONE, TWO = EdgeId(EdgeKind.ROWS, 1), EdgeId(EdgeKind.ROWS, 2)
SCHEMA = pa.schema({"n": pa.int64(), HASH: pa.uint64()})


def batch(numbers, hashes):
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), pa.array(hashes, pa.uint64())], schema=SCHEMA)


@pytest.mark.parametrize("owners", [1, 2, 3, 7, 128])
def test_owners_have_contiguous_ranges_that_cover_all_hashes(owners):
    ranges = [hash_range(owner, owners) for owner in range(owners)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 1 << 64
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    edges = np.array([each for low, high in ranges for each in (low, high - 1)], np.uint64)
    assert owner_of(edges, owners).tolist() == [owner for owner in range(owners) for _ in range(2)]


@pytest.mark.parametrize("in_files", [True, False])
def test_rows_reach_their_owner_in_the_order_of_the_tasks(in_files, tmp_path):
    random = np.random.default_rng(5)
    sent = []
    for task in range(3):
        with Sender(Origin(0, task), str(tmp_path) if in_files else "") as sender:
            for part in range(2):
                hashes = random.integers(0, 1 << 64, 50, np.uint64)
                sender.send_by_key(ONE, batch(np.arange(50) + 1000 * task + 100 * part, hashes), 3)
                sent += [sender.take_rows()]
    table = pa.Table.from_batches(sent).sort_by([(name, "ascending") for name in ORDER])
    numbers = []
    for owner in range(3):
        mine = table.filter(pa.array([each == owner for each in table.column("owner").to_pylist()]))
        edges, rows = zip(*split_by_edge(mine.to_batches()), strict=True)
        found = concat_batches([each for part in rows for each in Receiver().batches(part)], SCHEMA)
        assert set(edges) == {ONE}
        assert set(owner_of(found.column(HASH).to_numpy(), 3)) == {owner}
        assert found.column("n").to_pylist() == sorted(found.column("n").to_pylist())
        numbers += found.column("n").to_pylist()
    assert sorted(numbers) == sorted(1000 * t + 100 * p + n for t in range(3) for p in range(2) for n in range(50))
    assert (table.column("data").null_count > 0) == in_files


def test_rows_of_several_edges_are_told_apart():
    sender = Sender(Origin(0, 0))
    sender.send_batch(EdgeId(EdgeKind.ENCODED, 1), 0, batch([4] * 3, [1] * 3))
    sender.send_by_key(TWO, batch([1], [1]), 1)
    sender.send_by_key(ONE, batch([2, 3], [1, 2]), 1)
    ordered = pa.Table.from_batches([sender.take_rows()]).sort_by([(name, "ascending") for name in ORDER])
    found = [(edge, list(Receiver().batches(rows))) for edge, rows in split_by_edge(ordered.to_batches())]
    counts = [(edge, sum(each.num_rows for each in batches)) for edge, batches in found]
    assert counts == [(ONE, 2), (TWO, 1), (EdgeId(EdgeKind.ENCODED, 1), 3)]


def test_a_task_without_rows_sends_none():
    assert Sender(Origin(0, 0)).take_rows().schema == EXCHANGE
    assert list(split_by_edge([Sender(Origin(0, 0)).take_rows()])) == []
    assert concat_batches([], SCHEMA).schema == SCHEMA


def test_bytes_above_a_limit_are_kept_in_a_file(tmp_path):
    sender = Sender(Origin(0, 0))
    sent = []
    for number in range(4):
        sender.send_by_key(ONE, batch([number] * 3, [1, 2, 3]), 1)
        sent += [sender.take_rows()]
    with Spill(str(tmp_path), sent[0].column("data").nbytes) as spill:
        kept = [spill.keep(rows) for rows in sent]
        assert [rows.column("data").null_count for rows in kept] == [0, 1, 1, 1]
        assert len(list(tmp_path.iterdir())) == 1
        found = [each.column("n").to_pylist() for rows in kept for each in Receiver().batches(rows)]
    assert found == [[number] * 3 for number in range(4)]
    assert list(tmp_path.iterdir()) == []
