"""Tables of state, held against dictionaries and counters over many batches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.hashing import Groups, key_hashes
from penstock.errors import CheckpointError
from penstock.flow.state import compaction
from penstock.flow.state.compaction import join_neighbours
from penstock.flow.state.segments import END
from penstock.flow.state.storage import LocalStorage
from penstock.flow.state.store import SegmentRef, StateStore, TableSpec
from tests.changelogs import MemoryStorage

KEY = pa.schema([("name", pa.string()), ("number", pa.int64())])
VALUE = pa.schema([("count", pa.int64()), ("text", pa.string())])
KEYED = TableSpec("rows", KEY, VALUE, "keyed")
MULTISET = TableSpec("bag", KEY, VALUE, "multiset")
ORDERED = TableSpec("line", KEY, VALUE, "ordered")

Refs = Mapping[str, Sequence[SegmentRef]]


def batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def hashes_of(rows: pa.RecordBatch, weak: int) -> np.ndarray:
    """Hashes of which there are only ``weak`` different ones, unless that is 0."""
    hashes = key_hashes(rows.columns)
    return hashes % np.uint64(weak) << np.uint64(55) if weak else hashes


def groups_of(keys: Sequence[Sequence[Any]], weak: int = 0) -> Groups:
    rows = batch(keys, KEY)
    return Groups.by_key(hashes_of(rows, weak), rows)


def tuples(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def some_keys(dice: random.Random, most: int) -> list[tuple[Any, ...]]:
    names = [None, "", "a", "b" * 20, "é"]
    return [(dice.choice(names), dice.choice([None, *range(12)])) for _ in range(dice.randrange(most))]


def ranges(owners: int) -> list[tuple[int, int]]:
    return [(at * END // owners, (at + 1) * END // owners) for at in range(owners)]


def own(keys: list[tuple[Any, ...]], low: int, high: int, weak: int) -> list[tuple[Any, ...]]:
    hashes = hashes_of(batch(keys, KEY), weak)
    return [key for key, each in zip(keys, hashes.tolist(), strict=True) if low <= each < high]


@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_keyed_rows_are_those_of_a_dictionary(tmp_path: Path, seed: int, weak: int) -> None:
    dice = random.Random(seed)
    refs: Refs = {}
    model: dict[Any, Any] = {}
    for _ in range(40):
        asked, changes = some_keys(dice, 40), list(dict.fromkeys(some_keys(dice, 25)))
        after: list[SegmentRef] = []
        expected = dict(model)
        for low, high in ranges(dice.choice([1, 1, 2, 3])):
            store = StateStore(LocalStorage(str(tmp_path)), [KEYED], refs, low, high, "t-")
            groups = groups_of(own(asked, low, high, weak), weak)
            found, values = store.keyed("rows").get(groups)
            for key, there, value in zip(tuples(groups.keys), found, tuples(values), strict=True):
                assert there == (key in model)
                assert value == model.get(key, (None, None))
            groups = groups_of(own(changes, low, high, weak), weak)
            rows = [(dice.choice([None, dice.randrange(100)]), dice.choice([None, "x", "yy"])) for _ in groups.hashes]
            present = np.array([dice.random() < 0.7 for _ in rows], np.bool_)
            store.keyed("rows").put(groups, batch(rows, VALUE), present)
            for key, row, there in zip(tuples(groups.keys), rows, present, strict=True):
                if there:
                    expected[key] = row
                else:
                    expected.pop(key, None)
            after += store.flush()["rows"]
        model, refs = expected, {"rows": [SegmentRef.from_json(ref.to_json()) for ref in after]}
    assert model


@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_rows_with_weights_are_those_of_a_counter(tmp_path: Path, seed: int, weak: int) -> None:
    dice = random.Random(seed)
    refs: Refs = {}
    model: Counter[Any] = Counter()
    for _ in range(40):
        asked, changes = some_keys(dice, 40), some_keys(dice, 25)
        after: list[SegmentRef] = []
        expected = Counter(model)
        for low, high in ranges(dice.choice([1, 1, 2, 3])):
            store = StateStore(LocalStorage(str(tmp_path)), [MULTISET], refs, low, high, "t-")
            groups = groups_of(own(asked, low, high, weak), weak)
            index, values, weights = store.multiset("bag").get(groups)
            assert (np.diff(index) >= 0).all()
            names = tuples(groups.keys)
            pairs = [(names[at], value) for at, value in zip(index, tuples(values), strict=True)]
            assert len(set(pairs)) == len(pairs)
            assert dict(zip(pairs, weights.tolist(), strict=True)) == {
                pair: weight for pair, weight in model.items() if pair[0] in set(names)
            }
            keys = own(changes, low, high, weak)
            rows = [(dice.choice([None, 1, 2]), dice.choice([None, "x"])) for _ in keys]
            gains = [dice.choice([-2, -1, 1, 1, 2]) for _ in keys]
            given = batch(keys, KEY)
            store.multiset("bag").add(hashes_of(given, weak), given, batch(rows, VALUE), np.array(gains, np.int64))
            for key, row, gain in zip(keys, rows, gains, strict=True):
                expected[key, row] += gain
                if not expected[key, row]:
                    del expected[key, row]
            after += store.flush()["bag"]
        model, refs = expected, {"bag": after}
    assert model


@pytest.mark.parametrize("ttl", [None, 100])
@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_rows_at_places_are_those_of_a_dictionary(tmp_path: Path, seed: int, weak: int, ttl: int | None) -> None:
    dice, spec = random.Random(seed), ORDERED.with_time_to_live(ttl)
    refs: Refs = {}
    model: dict[Any, tuple[Any, int]] = {}
    now, forgotten = 1_700_000_000_000, 0
    for _ in range(40):
        now += dice.choice([0, 1, 10, 150])
        after: list[SegmentRef] = []
        for low, high in ranges(dice.choice([1, 1, 2, 3])):
            store = StateStore(LocalStorage(str(tmp_path)), [spec], refs, low, high, "t-", now_ms=now)
            table = store.ordered("line")
            for _ in range(2):  # the second time with what was written the first time
                live = {each: row for each, (row, seen) in model.items() if ttl is None or seen > now - ttl}
                forgotten += len(model) - len(live)
                groups = groups_of(own(some_keys(dice, 40), low, high, weak), weak)
                first = np.array([dice.randrange(-12, 12) for _ in groups.hashes], np.int64)
                last = first + np.array([dice.randrange(12) for _ in groups.hashes], np.int64)
                index, places, values = table.get(groups, first, last)
                names = tuples(groups.keys)
                found = zip(index, places, tuples(values), strict=True)
                assert [(names[at], place, value) for at, place, value in found] == [
                    (name, place, live[name, place])
                    for name, start, end in zip(names, first, last, strict=True)
                    for place in range(start, end)
                    if (name, place) in live
                ]
                groups = groups_of(own(some_keys(dice, 25), low, high, weak), weak)
                written = [(at, place) for at in range(len(groups)) for place in dice.sample(range(-12, 12), 3)]
                at, place = (np.array([each[side] for each in written], np.int64) for side in (0, 1))
                present = np.array([dice.random() < 0.7 for _ in written], np.bool_)
                rows = [(dice.choice([None, dice.randrange(100)]), dice.choice([None, "x", "yy"])) for _ in written]
                table.put(groups, at, place, batch(rows, VALUE), present)
                names = tuples(groups.keys)
                for (of, where), row, there in zip(written, rows, present, strict=True):
                    if there:
                        model[names[of], where] = row, now
                    else:
                        model.pop((names[of], where), None)
            after += store.flush()["line"]
        refs = {"line": [SegmentRef.from_json(ref.to_json()) for ref in after]}
    assert model
    assert bool(forgotten) == (ttl is not None)


def test_only_the_rows_of_a_range_are_read(tmp_path: Path) -> None:
    store = StateStore(LocalStorage(str(tmp_path)), [ORDERED], {}, 0, END, "t-")
    groups, count = groups_of([("a", 1), ("b", 2)]), 1000
    index, places = np.repeat([0, 1], count), np.tile(np.arange(count), 2)
    store.ordered("line").put(groups, index, places, batch([(1, "x")] * 2 * count, VALUE), np.ones(2 * count, np.bool_))
    refs = store.flush()
    table = StateStore(LocalStorage(str(tmp_path)), [ORDERED], refs, 0, END, "t-").ordered("line")
    low = np.array([990, 0])
    _, found, _ = table.get(groups, low, np.array([count, 3]))
    assert found.tolist() == [*range(990, 1000), *range(3)]


TTL = 100


@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_keyed_rows_that_are_not_written_for_some_time_are_gone(tmp_path: Path, seed: int, weak: int) -> None:
    dice = random.Random(seed)
    refs: Refs = {}
    model: dict[Any, tuple[Any, int]] = {}
    now, forgotten = 1_700_000_000_000, 0
    for _ in range(60):
        now += dice.choice([0, 1, 10, 60, 150])
        store = StateStore(LocalStorage(str(tmp_path)), [KEYED.with_time_to_live(TTL)], refs, 0, END, "t-", now_ms=now)
        live = {key: row for key, (row, seen) in model.items() if seen > now - TTL}
        forgotten += len(model) - len(live)
        groups = groups_of(some_keys(dice, 40), weak)
        found, values = store.keyed("rows").get(groups)
        for key, there, value in zip(tuples(groups.keys), found, tuples(values), strict=True):
            assert (there, value) == (key in live, live.get(key, (None, None)))
        groups = groups_of(some_keys(dice, 20), weak)
        present = np.array([dice.random() < 0.8 for _ in groups.hashes], np.bool_)
        rows = [(dice.randrange(100), "x") for _ in present]
        store.keyed("rows").put(groups, batch(rows, VALUE), present)
        model = {key: (row, model[key][1]) for key, row in live.items()}
        for key, row, there in zip(tuples(groups.keys), rows, present, strict=True):
            if there:
                model[key] = row, now
            else:
                model.pop(key, None)
        refs = store.flush()
    assert forgotten
    store = StateStore(
        LocalStorage(str(tmp_path)), [KEYED.with_time_to_live(TTL)], refs, 0, END, "t-", now_ms=now + TTL
    )
    assert store.flush() == {"rows": []}


@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_rows_with_weights_that_are_not_written_for_some_time_are_gone(tmp_path: Path, seed: int, weak: int) -> None:
    dice = random.Random(seed)
    refs: Refs = {}
    model: dict[Any, tuple[int, int]] = {}
    now, forgotten, refused = 1_700_000_000_000, 0, 0
    for _ in range(60):
        now += dice.choice([0, 1, 10, 60, 150])
        store = StateStore(
            LocalStorage(str(tmp_path)), [MULTISET.with_time_to_live(TTL)], refs, 0, END, "t-", now_ms=now
        )
        live = {pair: (weight, seen) for pair, (weight, seen) in model.items() if seen > now - TTL}
        forgotten += len(model) - len(live)
        groups = groups_of(some_keys(dice, 40), weak)
        index, values, weights = store.multiset("bag").get(groups)
        names = tuples(groups.keys)
        pairs = [(names[at], value) for at, value in zip(index, tuples(values), strict=True)]
        assert dict(zip(pairs, weights.tolist(), strict=True)) == {
            pair: weight for pair, (weight, _) in live.items() if pair[0] in set(names)
        }
        keys = some_keys(dice, 25)
        rows = [(dice.choice([None, 1]), "x") for _ in keys]
        gains = [dice.choice([-2, -1, 1, 1, 2]) for _ in keys]
        given = batch(keys, KEY)
        store.multiset("bag").add(hashes_of(given, weak), given, batch(rows, VALUE), np.array(gains, np.int64))
        net: Counter[Any] = Counter()
        for key, row, gain in zip(keys, rows, gains, strict=True):
            net[key, row] += gain
        model = live
        for pair, gain in net.items():
            weight = model.get(pair, (0, 0))[0] + gain
            refused += weight < 0
            if gain and weight > 0:
                model[pair] = weight, now
            elif gain:
                model.pop(pair, None)
        refs = store.flush()
    assert forgotten
    assert refused


def test_a_time_to_live_may_be_added_to_keyed_rows_and_taken_away(tmp_path: Path) -> None:
    groups, value = groups_of([("a", 1)]), batch([(1, "x")], VALUE)

    def after(refs: Refs, ttl: int | None, now: int, *, put: bool = False) -> tuple[bool, Refs]:
        store = StateStore(LocalStorage(str(tmp_path)), [KEYED.with_time_to_live(ttl)], refs, 0, END, "t-", now_ms=now)
        found, _ = store.keyed("rows").get(groups)
        other = groups_of([("b", now)])
        store.keyed("rows").put(groups if put else other, value, np.ones(1, np.bool_))
        return bool(found[0]), store.flush()

    _, refs = after({}, None, 1000, put=True)
    found, timed = after(refs, TTL, 5000)  # it has a time from now on
    assert found
    assert after(timed, TTL, 5000 + TTL - 1)[0]
    assert not after(timed, TTL, 5000 + TTL)[0]
    assert after(timed, None, 9000)[0]


@dataclass
class Kept:
    """A row that was put: its value, None if it was deleted; and between which times it counts as written, None before
    there are times. ``sure``: no batch may have forgotten it."""

    value: int | None
    since: int | None
    until: int
    sure: bool = True


@pytest.mark.parametrize("seed", range(4))
def test_no_row_comes_back_when_a_time_to_live_comes_and_changes_and_goes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_SMALL", 4)
    dice, storage, refs = random.Random(seed), MemoryStorage(), dict[str, list[SegmentRef]]()
    rows: dict[int, Kept] = {}
    now, ttl, forgotten = 1000, None, 0
    for step in range(120):
        now += dice.choice([0, 1, 10, 30])
        before, ttl = ttl, dice.choice([None, 50, 100, 400]) if step % 20 == 19 else ttl
        for row in rows.values() if ttl is not None else ():
            if before is None:
                row.since, row.until = row.since or now, now
            row.sure &= row.since is None or row.since > now - ttl
        keys = list(range(80)) if step == 0 else sorted({dice.randrange(80) for _ in range(dice.randrange(1, 4))})
        asked, after = sorted({*keys, *(dice.randrange(80) for _ in range(20))}), list[SegmentRef]()
        for low, high in ranges(dice.choice([1, 1, 2, 3])):
            store = StateStore(storage, [KEYED.with_time_to_live(ttl)], refs, low, high, f"{step}-", now_ms=now)
            groups = groups_of(own([("k", key) for key in asked], low, high, 0))
            found, values = store.keyed("rows").get(groups)
            for (_, key), there, (value, _) in zip(tuples(groups.keys), found, tuples(values), strict=True):
                row = rows.get(key, Kept(None, None, 0))
                assert not there or value == row.value is not None, (step, key)
                assert there or row.value is None or not row.sure, (step, key)
                assert not there or ttl is None or row.until > now - ttl, (step, key)
                forgotten += not there and row.value is not None
            groups = groups_of(own([("k", key) for key in keys], low, high, 0))
            present = np.array([step == 0 or dice.random() < 0.7 for _ in groups.hashes], np.bool_)
            new = [dice.randrange(1000) for _ in present]
            store.keyed("rows").put(groups, batch([(value, "x") for value in new], VALUE), present)
            for (_, key), value, there in zip(tuples(groups.keys), new, present, strict=True):
                rows[key] = Kept(value if there else None, None if ttl is None else now, now)
            after += store.flush()["rows"]
        refs = {"rows": join_neighbours(after)}
    assert forgotten


def test_a_time_to_live_of_rows_with_weights_stays(tmp_path: Path) -> None:
    keys = batch([("a", 1)], KEY)
    groups = groups_of([("a", 1)])
    for first, second, message in ((None, 10, "it had no time to live"), (10, None, "it had a time to live")):
        store = StateStore(
            LocalStorage(str(tmp_path)), [MULTISET.with_time_to_live(first)], {}, 0, END, "t-", now_ms=5000
        )
        store.multiset("bag").add(key_hashes(keys.columns), keys, batch([(1, "x")], VALUE), np.array([1]))
        refs = store.flush()
        store = StateStore(
            LocalStorage(str(tmp_path)), [MULTISET.with_time_to_live(second)], refs, 0, END, "t-", now_ms=5000
        )
        with pytest.raises(CheckpointError, match=message):
            store.multiset("bag").get(groups)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ttl", [None, TTL])
@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_keyed_rows_that_a_batch_has_put_are_seen_in_it(
    tmp_path: Path, seed: int, weak: int, ttl: int | None, last: bool
) -> None:
    dice, refs = random.Random(seed), dict[str, Sequence[SegmentRef]]()
    model: dict[Any, Any] = {}
    again = 0
    for _ in range(15):
        store = StateStore(
            LocalStorage(str(tmp_path)), [KEYED.with_time_to_live(ttl)], refs, 0, END, "t-", now_ms=5000, last=last
        )
        written = set[Any]()
        for _ in range(dice.randrange(5)):
            groups = groups_of(some_keys(dice, 20), weak)
            if dice.random() < 0.7:
                found, values = store.keyed("rows").get(groups)
                for key, there, value in zip(tuples(groups.keys), found, tuples(values), strict=True):
                    assert (there, value) == (key in model, model.get(key, (None, None)))
                    again += key in written
            groups = groups_of(some_keys(dice, 15), weak)
            rows = [(dice.choice([None, dice.randrange(100)]), "x") for _ in groups.hashes]
            present = np.array([dice.random() < 0.6 for _ in rows], np.bool_)
            store.keyed("rows").put(groups, batch(rows, VALUE), present)
            for key, row, there in zip(tuples(groups.keys), rows, present, strict=True):
                written.add(key)
                if there:
                    model[key] = row
                else:
                    model.pop(key, None)
        assert len(store.keyed("rows").read_all()) == len(model)
        refs = store.flush()
    assert again
    assert model


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ttl", [None, TTL])
@pytest.mark.parametrize("weak", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_rows_with_weights_that_a_batch_has_added_are_seen_in_it(
    tmp_path: Path, seed: int, weak: int, ttl: int | None, last: bool
) -> None:
    dice, refs = random.Random(seed), dict[str, Sequence[SegmentRef]]()
    model: Counter[Any] = Counter()
    again = 0
    for _ in range(15):
        store = StateStore(
            LocalStorage(str(tmp_path)), [MULTISET.with_time_to_live(ttl)], refs, 0, END, "t-", now_ms=5000, last=last
        )
        written = set[Any]()
        for _ in range(dice.randrange(5)):
            groups = groups_of(some_keys(dice, 20), weak)
            if dice.random() < 0.7:
                index, values, weights = store.multiset("bag").get(groups)
                names = tuples(groups.keys)
                pairs = [(names[at], value) for at, value in zip(index, tuples(values), strict=True)]
                assert len(set(pairs)) == len(pairs)
                assert dict(zip(pairs, weights.tolist(), strict=True)) == {
                    pair: weight for pair, weight in model.items() if pair[0] in set(names)
                }
                again += any(pair in written for pair in pairs)
            keys = some_keys(dice, 15)
            rows = [(dice.choice([None, 1]), "x") for _ in keys]
            gains = [dice.choice([-1, 1, 1, 2]) for _ in keys]
            given = batch(keys, KEY)
            store.multiset("bag").add(hashes_of(given, weak), given, batch(rows, VALUE), np.array(gains, np.int64))
            net: Counter[Any] = Counter()
            for key, row, gain in zip(keys, rows, gains, strict=True):
                net[key, row] += gain
            for pair, gain in net.items():
                model[pair] = model[pair] + gain if ttl is None else max(model[pair] + gain, 0)
                written.add(pair)
                if not model[pair]:
                    del model[pair]
        assert len(store.multiset("bag").read_all()) == len(model)
        refs = store.flush()
    assert again
    assert model


def test_a_batch_writes_one_segment_of_all_its_changes() -> None:
    storage = MemoryStorage()
    store = StateStore(storage, [KEYED, MULTISET], {}, 0, END, "t-")
    keys = batch([("a", 1)], KEY)
    for number in range(3):
        store.keyed("rows").put(groups_of([("a", number // 2)]), batch([(number, "x")], VALUE), np.ones(1, np.bool_))
        store.multiset("bag").add(hashes_of(keys, 0), keys, batch([(number // 2, "x")], VALUE), np.array([1]))
    refs = store.flush()
    assert {name: [ref.rows for ref in each] for name, each in refs.items()} == {"rows": [2], "bag": [2]}
