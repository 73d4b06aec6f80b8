"""Segments in files: what is written is read, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.hashing import Groups, key_hashes
from penstock.errors import CheckpointError
from penstock.flow.state.inspection import TableSize, find_oldest_seen, read_rows, read_spec
from penstock.flow.state.segments import END, VERSION, SegmentRef
from penstock.flow.state.storage import LocalStorage, Storage
from penstock.flow.state.store import StateStore, TableSpec

KEY = pa.schema([("id", pa.int64())])
VALUE = pa.schema([("id", pa.string()), ("count", pa.int64())])
SPEC = TableSpec("groups", KEY, VALUE, "keyed")
BAG = TableSpec("bag", KEY, VALUE, "multiset")

Refs = dict[str, list[SegmentRef]]


def store(storage: Storage, refs: Refs, *specs: TableSpec, now_ms: int = 0, ttl_ms: int | None = None) -> StateStore:
    living = [each.with_time_to_live(ttl_ms) for each in specs]
    return StateStore(storage, living, refs, 0, END, "batch-", uid="agg-1", now_ms=now_ms)


def values(count: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([f"v{at}" for at in range(rows)]), pa.array([count] * rows)], schema=VALUE)


def groups(ids: list[int]) -> Groups:
    keys = pa.record_batch([pa.array(ids)], schema=KEY)
    return Groups.by_key(key_hashes(keys.columns), keys)


def flushed(state: StateStore) -> Refs:
    return {name: list(refs) for name, refs in state.flush().items()}


def put(storage: Storage, refs: Refs, ids: list[int], count: int = 1, spec: TableSpec = SPEC, now_ms: int = 0) -> Refs:
    state = store(storage, refs, spec, now_ms=now_ms, ttl_ms=1000 if now_ms else None)
    state.keyed(spec.name).put(groups(ids), values(count, len(ids)), np.ones(len(ids), np.bool_))
    return flushed(state)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.from_uri(str(tmp_path / "state"))


def test_all_tables_of_a_batch_share_a_file(storage: Storage) -> None:
    state = store(storage, {}, SPEC, BAG, replace(SPEC, name="unused"))
    given = groups([1, 2, 3])
    state.keyed("groups").put(given, values(1, 3), np.array([True, True, False]))
    state.multiset("bag").add(given.hashes, given.keys, values(1, 3), np.array([1, 2, 3]))
    refs = flushed(state)
    assert len(list(storage.files())) == 1
    assert [len(refs[name]) for name in ("groups", "bag", "unused")] == [1, 1, 0]
    assert len({ref.file for name in refs for ref in refs[name]}) == 1
    state = store(storage, refs, SPEC, BAG)
    assert state.keyed("groups").get(given)[0].tolist() == [True, True, False]
    assert sorted(state.multiset("bag").get(given)[2].tolist()) == [1, 2, 3]


def test_a_batch_without_changes_writes_nothing(storage: Storage) -> None:
    refs = put(storage, {}, [1])
    state = store(storage, refs, SPEC)
    state.keyed("groups").put(groups([]), values(1, 0), np.zeros(0, np.bool_))
    assert flushed(state) == refs
    assert len(list(storage.files())) == 1


def test_names_of_files_are_unique_per_attempt(storage: Storage) -> None:
    first, second = put(storage, {}, [1]), put(storage, {}, [1])
    assert first["groups"][0].file != second["groups"][0].file
    assert first["groups"][0].file.startswith("batch-")


def test_references_survive_json(storage: Storage) -> None:
    ref = put(storage, {}, [1, 2])["groups"][0]
    assert SegmentRef.from_json(json.loads(json.dumps(ref.to_json()))) == ref


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": VERSION + 1}, r"has format 2, and this version of penstock reads up to 1; run the newer version"),
        ({"low": "?"}, r"a reference to a segment of the job's state cannot be read: .*'low': '\?'"),
        ({"rows": None}, r"cannot be read: .*restore the checkpoint"),
    ],
)
def test_a_damaged_or_newer_reference_is_refused(storage: Storage, change: dict[str, object], message: str) -> None:
    document = {**put(storage, {}, [1])["groups"][0].to_json(), **change}
    document = {name: value for name, value in document.items() if value is not None}
    with pytest.raises(CheckpointError, match=message):
        SegmentRef.from_json(document)


def test_tables_are_of_their_kind(storage: Storage) -> None:
    state = store(storage, {}, SPEC, BAG)
    assert state.table("groups") is state.keyed("groups")
    assert state.table("bag") is state.multiset("bag")
    with pytest.raises(KeyError):
        state.keyed("bag")
    with pytest.raises(KeyError):
        state.multiset("groups")


def test_added_value_columns_are_null(storage: Storage) -> None:
    refs = put(storage, {}, [1, 2])
    more = replace(SPEC, value=pa.schema([("new", pa.float64()), *reversed(list(VALUE))]))
    found, rows = store(storage, refs, more).keyed("groups").get(groups([1, 2]))
    assert found.all()
    assert rows.schema == more.value
    assert rows.column("new").null_count == 2
    assert rows.column("count").to_pylist() == [1, 1]
    state = store(storage, refs, more)
    new = pa.record_batch([pa.array([0.5]), pa.array([2]), pa.array(["z"])], schema=more.value)
    state.keyed("groups").put(groups([2]), new, np.ones(1, np.bool_))
    _, rows = store(storage, flushed(state), more).keyed("groups").get(groups([1, 2]))
    assert sorted(rows.column("new").to_pylist(), key=str) == [0.5, None]


def test_rows_of_before_columns_were_added_are_still_the_same_rows(storage: Storage) -> None:
    state, given = store(storage, {}, BAG), groups([1])
    state.multiset("bag").add(given.hashes, given.keys, values(1, 1), np.array([2]))
    more = replace(BAG, value=pa.schema([*VALUE, ("new", pa.float64())]))
    wider = values(1, 1).append_column("new", pa.nulls(1, pa.float64()))
    state = store(storage, flushed(state), more)
    state.multiset("bag").add(given.hashes, given.keys, wider, np.array([-1]))
    _, rows, weights = store(storage, flushed(state), more).multiset("bag").get(given)
    assert (rows.to_pylist(), weights.tolist()) == ([{"id": "v0", "count": 1, "new": None}], [1])


@pytest.mark.parametrize(
    ("spec", "differs"),
    [
        (replace(SPEC, value=VALUE.remove(1)), "the value column 'count' is gone"),
        (replace(SPEC, key=pa.schema([*KEY, ("b", pa.int8())])), "the key column 'b' is new: int8"),
        (replace(SPEC, key=pa.schema([("other", pa.int64())])), "'other' is new: int64; the key column 'id' is gone"),
        (replace(SPEC, key=pa.schema([("id", pa.int32())])), "the key column 'id' had the type int64, now int32"),
        (
            replace(SPEC, value=pa.schema([("id", pa.binary()), ("count", pa.int64())])),
            "the value column 'id' had the type string, now binary",
        ),
        (replace(SPEC, kind="multiset"), "its kind was keyed, now it is multiset"),
    ],
)
def test_state_that_does_not_fit_is_refused_by_name(storage: Storage, spec: TableSpec, differs: str) -> None:
    refs = put(storage, {}, [1])
    with pytest.raises(CheckpointError) as failure:
        store(storage, refs, spec).table("groups").get(groups([1]))
    assert differs in str(failure.value)
    assert "the state 'groups' of the operator 'agg-1' in the checkpoint does not fit the job" in str(failure.value)


def test_a_table_that_the_operator_does_not_have_is_refused(storage: Storage) -> None:
    refs = put(storage, {}, [1])
    with pytest.raises(
        CheckpointError, match=r"operator 'agg-1' has the state 'groups' in the checkpoint, which the job"
    ):
        store(storage, refs, BAG)


def test_files_that_are_missing_or_damaged_are_named(storage: Storage, tmp_path: Path) -> None:
    refs = put(storage, {}, [1, 2, 3])
    path = tmp_path / "state" / refs["groups"][0].file
    whole = path.read_bytes()
    for damaged in (b"", whole[:-8], bytes(64) + whole[64:]):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=rf"'{path.name}', part of .*'agg-1', cannot be read: .*restore"):
            store(storage, refs, SPEC).keyed("groups").get(groups([1]))
    path.unlink()
    with pytest.raises(CheckpointError, match=rf"'{path.name}' in '.*' is missing"):
        store(storage, refs, SPEC).keyed("groups").get(groups([1]))


def test_reading_a_table_as_rows(storage: Storage) -> None:
    refs: Refs = {}
    for batch in range(20):
        refs = put(storage, refs, list(range(batch * 50, batch * 50 + 100)), batch)
    spec = read_spec(storage, refs["groups"], "groups")
    assert spec == SPEC
    rows = pa.Table.from_batches(read_rows(storage, refs["groups"], SPEC))
    assert rows.column_names == ["id", "id", "count"]
    found = dict(zip(rows.column(0).to_pylist(), rows.column(2).to_pylist(), strict=True))
    assert found == {at: min(at // 50, 19) for at in range(1050)}
    size = TableSize.from_segments(refs["groups"])
    assert size.rows == 1050
    assert size.bytes == sum(ref.bytes for ref in refs["groups"])
    assert find_oldest_seen(storage, refs["groups"], SPEC) is None
    assert read_spec(storage, [], "groups") is None


def test_reading_a_multiset_as_rows(storage: Storage) -> None:
    state, given = store(storage, {}, BAG), groups([1, 2])
    state.multiset("bag").add(given.hashes, given.keys, values(7, 2), np.array([2, 3]))
    refs = flushed(state)
    state = store(storage, refs, BAG)
    state.multiset("bag").add(given.hashes[:1], given.keys.slice(0, 1), values(7, 1), np.array([-2]))
    (rows,) = read_rows(storage, flushed(state)["bag"], BAG)
    assert rows.num_rows == 1
    assert rows.column("__weight").to_pylist() == [3]


def test_reading_times(storage: Storage) -> None:
    refs = put(storage, {}, [1, 2], now_ms=5000)
    refs = put(storage, refs, [2, 3], now_ms=5500)
    spec = read_spec(storage, refs["groups"], "groups")
    assert spec == replace(SPEC, timed=True)
    (rows,) = read_rows(storage, refs["groups"], spec)
    assert sorted(zip(rows.column(0).to_pylist(), rows.column("__seen").to_pylist(), strict=True)) == [
        (1, 5000),
        (2, 5500),
        (3, 5500),
    ]
    assert find_oldest_seen(storage, refs["groups"], spec) == 5000
    (rows,) = read_rows(storage, refs["groups"], spec, since=5000)
    assert sorted(rows.column(0).to_pylist()) == [2, 3]


def test_a_folder_that_does_not_exist_has_no_files(tmp_path: Path) -> None:
    assert list(LocalStorage(str(tmp_path / "none")).files()) == []


def test_the_keys_of_a_large_table_are_about_those_of_a_part_of_it(storage: Storage) -> None:
    from penstock.flow.state import inspection

    refs = put(storage, {}, list(range(20_000)))
    (table,) = refs.values()
    exact = inspection.count_keys(storage, table, SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "_ROWS", 1000)
        about = inspection.count_keys(storage, table, SPEC)
    assert exact == 20_000
    assert 18_000 < about < 22_000
