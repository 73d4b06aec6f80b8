"""The end of an output: weights become the kinds of rows that a sink takes."""

import pyarrow as pa
import pytest

from penstock.columns.hashing import key_hashes
from penstock.flow.operators.changes import ChangelogWriter, Mode
from penstock.flow.operators.nested import run_nested
from penstock.flow.rows.envelope import HASH, WEIGHT
from penstock.flow.state.store import StateStore
from penstock.spi import KIND
from penstock.types import RowKind

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


def told(mode, rows, keys=("id",), **options):
    """The rows of ``(id, name, weight)`` as ``(kind, id, name)``."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    ids, names, weights = pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.string()), columns[2]
    given = {"id": ids, "name": names}
    hashes = pa.array(key_hashes([given[key] for key in keys or ()], rows=len(rows)))
    batch = pa.RecordBatch.from_arrays(
        [ids, names, pa.array(weights, pa.int64()), hashes], names=["id", "name", WEIGHT, HASH]
    )
    found = run_nested(ChangelogWriter("sink", SCHEMA, keys, mode, **options), (batch,), StateStore.empty(()))
    assert found.schema.names == ["id", "name", KIND]
    return [(RowKind(kind).short, id_, name) for id_, name, kind in zip(*found.to_pydict().values(), strict=True)]


def test_an_upsert_is_the_last_row_of_its_key():
    rows = [(1, "old", -1), (2, "gone", -1), (1, "new", 1), (3, "first", 1)]
    assert told(Mode.UPSERTS, rows) == [("-D", 2, "gone"), ("+U", 1, "new"), ("+I", 3, "first")]


def test_an_addition_before_the_retraction_of_its_key_is_an_update_too():
    assert told(Mode.UPSERTS, [(1, "new", 1), (1, "old", -1)]) == [("+U", 1, "new")]


def test_rows_that_cancel_one_another_are_no_deletion():
    rows = [(1, "a", 1), (1, "a", -1), (2, "b", -1)]
    assert told(Mode.UPSERTS, rows, netting=True) == [("-D", 2, "b")]


def test_of_several_rows_of_a_key_the_last_one_is_written_that_was_not_taken_back():
    rows = [(1, "b", 1), (2, "x", 1), (1, "a", 1), (1, "c", 1), (2, "y", 1), (1, "c", -1), (2, "y", -1), (2, "w", 1)]
    assert told(Mode.UPSERTS, rows, netting=True, ordered=True) == [("+I", 1, "a"), ("+I", 2, "w")]


def test_a_retraction_and_an_addition_of_one_key_are_an_update():
    rows = [(1, "old", -1), (2, "gone", -1), (1, "new", 1), (3, "first", 1)]
    found = told(Mode.RETRACTIONS, rows)
    assert sorted(found) == [("+I", 3, "first"), ("+U", 1, "new"), ("-D", 2, "gone"), ("-U", 1, "old")]
    assert found.index(("-U", 1, "old")) + 1 == found.index(("+U", 1, "new"))


@pytest.mark.parametrize(
    ("mode", "kinds"), [(Mode.UPSERTS, ["+U"]), (Mode.RETRACTIONS, ["-U", "+U"])], ids=["upserts", "retractions"]
)
def test_the_only_row_of_an_output_is_updated(mode, kinds):
    assert [kind for kind, _, _ in told(mode, [(1, "old", -1), (2, "new", 1)], keys=())] == kinds


def test_without_a_key_retractions_come_first_and_rows_repeat_by_their_weight():
    rows = [(1, "a", 2), (2, "b", -1)]
    assert told(Mode.RETRACTIONS, rows, keys=None) == [("-D", 2, "b"), ("+I", 1, "a"), ("+I", 1, "a")]


@pytest.mark.parametrize("weight", [1, 3])
def test_insertions_repeat_by_their_weight(weight):
    assert told(Mode.INSERTIONS, [(1, "a", weight)], keys=None) == [("+I", 1, "a")] * weight
