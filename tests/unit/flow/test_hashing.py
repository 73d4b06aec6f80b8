"""Hashes of keys, which are kept in the state, and rows grouped by them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.equality import same_rows
from penstock.columns.hashing import Groups, key_hashes, row_hashes, sort_into_runs
from penstock.columns.index import HashIndex

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)

#: Values that are different keys, by type.
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, None],
    pa.int8(): [0, 1, -1, None],
    pa.int32(): [0, 1, -1, 2**31 - 1, None],
    pa.int64(): [0, 1, -1, 2**62, None],
    pa.uint64(): [0, 2**64 - 1, None],
    pa.float32(): [0.0, 0.5, float("nan"), float("inf"), None],
    pa.float64(): [0.0, 0.1, -0.1, float("nan"), float("-inf"), None],
    pa.decimal128(38, 4): [Decimal("0.0000"), Decimal("1.5000"), Decimal("-1.5000"), Decimal(10) ** 30, None],
    pa.string(): ["", "a", "b", "ab", "ba", "a\0", "12345678", "123456789", "Ä", None],
    pa.binary(): [b"", b"\0", b"\0\0", b"12345678\0", b"12345678", None],
    pa.binary(3): [b"abc", b"abd", None],
    pa.date32(): [DAY, dt.date(1969, 12, 31), None],
    pa.time64("ns"): [dt.time(0, 0), dt.time(12, 30), None],
    pa.timestamp("us"): [NOON, dt.datetime(1969, 1, 1), None],
    pa.timestamp("us", "UTC"): [NOON.replace(tzinfo=dt.UTC), None],
    pa.list_(pa.int32()): [[], [1], [2], [1, 2], [2, 1], [None], [None, None], None],
    pa.list_(pa.list_(pa.string())): [[], [[]], [[], []], [["a", "b"]], [["a"], ["b"]], None],
    pa.list_(pa.int16(), 2): [[1, 2], [2, 1], [None, 1], None],
    pa.map_(pa.string(), pa.int32()): [[], [("a", 1)], [("a", None)], [("b", 1)], [("a", 1), ("b", 1)], None],
    pa.struct([("a", pa.int32()), ("b", pa.string())]): [
        {"a": 1, "b": "x"},
        {"a": None, "b": "x"},
        {"a": 1, "b": None},
        {"a": None, "b": None},
        None,
    ],
    pa.null(): [None],
}

#: The same key in another form.
SAME: list[tuple[pa.DataType, Any, Any]] = [
    (pa.float64(), 0.0, -0.0),
    (pa.float32(), 0.0, -0.0),
    (pa.list_(pa.float64()), [1.0, -0.0], [1.0, 0.0]),
]

#: Hashes that stand in the state of jobs. A change of them is a change of the state's format.
GOLDEN: list[tuple[pa.DataType, Any, int]] = [
    (pa.int64(), 1, 13750613904765211049),
    (pa.int64(), -1, 2847757969183614898),
    (pa.bool_(), True, 13750613904765211049),
    (pa.float64(), 0.1, 10552528933536834974),
    (pa.decimal128(10, 2), Decimal("-1.50"), 11988076290671962084),
    (pa.string(), "", 2992992897603518043),
    (pa.string(), "a", 9062423850156933597),
    (pa.string(), "a longer text of 32 characters..", 13171785447571069251),
    (pa.binary(), b"\xff" * 9, 13400864086382216669),
    (pa.date32(), DAY, 9707605044011780481),
    (pa.timestamp("us", "UTC"), NOON, 4644551066100793813),
    (pa.list_(pa.string()), ["a", None], 8582245190470726313),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": None}, 6277517289016489836),
    (pa.map_(pa.string(), pa.int32()), [("a", 1)], 6636760589670825491),
    (pa.string(), None, 1456492787896421317),
]


def layouts(array: pa.Array) -> list[pa.Array | pa.ChunkedArray]:
    """The same values in other forms."""
    kind = array.type
    around = pa.concat_arrays([array, array, array])
    half = len(array) // 2
    found = [around.slice(len(array), len(array)), pa.chunked_array([array.slice(0, half), array.slice(half)])]
    if pa.types.is_string(kind):
        found += [array.cast(pa.large_string()), array.cast(pa.string_view())]
    if pa.types.is_binary(kind):
        found += [array.cast(pa.large_binary()), array.cast(pa.binary_view())]
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        found.append(array.cast(pa.large_list(kind.value_type)))
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind):
        found += [array.dictionary_encode(), array.dictionary_encode(null_encoding="encode")]
        found.append(pa.compute.run_end_encode(array))
    if pa.types.is_decimal128(kind):
        found.append(array.cast(pa.decimal128(38, kind.scale)))
    return found


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_each_value_has_a_hash_of_its_own_in_every_layout(kind: pa.DataType) -> None:
    array = pa.array(VALUES[kind], kind)
    hashes = key_hashes([array])
    assert len(set(hashes.tolist())) == len(array)
    rows = np.arange(len(array))
    for other in layouts(array):
        assert key_hashes([other]).tolist() == hashes.tolist(), other.type
        assert same_rows([array], rows, [other], rows).all(), other.type
    for one in range(len(array)):  # the values by themselves: no buffers of nulls, no offsets
        assert key_hashes([pa.array(VALUES[kind][one : one + 1], kind)])[0] == hashes[one]
        assert same_rows([array], np.full(len(array), one), [array], rows).tolist() == (rows == one).tolist()


@pytest.mark.parametrize(("kind", "one", "other"), SAME, ids=str)
def test_equal_values_have_one_hash(kind: pa.DataType, one: Any, other: Any) -> None:
    array = pa.array([one, other], kind)
    first, second = key_hashes([array])
    assert first == second
    assert same_rows([array], np.array([0]), [array], np.array([1])).all()


def test_every_nan_is_the_same() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001], np.uint64)
    array = pa.array(bits.view(np.float64))
    assert len(set(key_hashes([array]).tolist())) == 1
    assert same_rows([array], np.zeros(4, np.int64), [array], np.arange(4)).all()


def test_whole_numbers_hash_alike_in_every_width() -> None:
    values = [0, 1, -128, 127, None]
    hashes = {tuple(key_hashes([pa.array(values, kind)])) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())}
    assert len(hashes) == 1


def test_the_order_of_columns_matters() -> None:
    one, other = pa.array([1, 2]), pa.array([2, 1])
    assert key_hashes([one, other])[0] == key_hashes([other, one])[1]
    assert key_hashes([one, other])[0] != key_hashes([other, one])[0]
    assert key_hashes([one])[0] != key_hashes([one, pa.nulls(2)])[0]


def test_without_key_columns_all_rows_have_one_key() -> None:
    assert len(set(key_hashes([], 3).tolist())) == 1
    assert len(key_hashes([], 0)) == len(key_hashes([])) == 0
    rows = pa.record_batch([pa.array([1, 2])], names=["a"]).select([])
    groups = Groups.by_key(key_hashes([], 2), rows)
    assert (len(groups), groups.keys.num_rows, groups.index.tolist()) == (1, 1, [0, 0])


def test_hashes_never_change() -> None:
    found = [(kind, value, int(key_hashes([pa.array([value], kind)])[0])) for kind, value, _ in GOLDEN]
    assert found == GOLDEN
    columns = [pa.array([1]), pa.array(["a"]), pa.array([None], pa.float64())]
    assert int(key_hashes(columns)[0]) == 2705304236621528498
    assert int(key_hashes([], 1)[0]) == 5903417617422117069
    assert int(row_hashes(pa.record_batch(columns, names=["a", "b", "c"]), ["a", "b", "c"])[0]) == 6908199866357639854


def test_a_type_that_cannot_be_a_key_is_refused() -> None:
    with pytest.raises(TypeError, match=r"type month_day_nano_interval cannot be part of a key; cast it"):
        key_hashes([pa.array([pa.MonthDayNano([1, 2, 3])])])


def test_hashes_are_even() -> None:
    """Owners are ranges of hashes, and look-ups guess places from hashes."""
    for column in (pa.array(range(100_000)), pa.array([f"customer-{at}" for at in range(100_000)])):
        hashes = key_hashes([column])
        for bits in (0, 24, 50):
            counts = np.bincount((hashes >> np.uint64(bits) & np.uint64(1023)).astype(np.int64), minlength=1024)
            assert abs(counts - 100_000 / 1024).max() < 60


def test_rows_hash_alike_when_columns_are_added_or_moved() -> None:
    one = pa.record_batch({"a": [1, None], "b": ["x", "y"]})
    more = pa.record_batch({"b": ["x", "y"], "new": pa.nulls(2, pa.string()), "a": [1, None]})
    renamed = pa.record_batch({"b": [1, None], "a": ["x", "y"]})
    hashes = row_hashes(one, one.schema.names)
    assert hashes.tolist() == row_hashes(more, more.schema.names).tolist()
    assert hashes[0] != row_hashes(renamed, renamed.schema.names)[0]
    assert len(set(hashes.tolist())) == 2


def reference(hashes: Sequence[int], keys: Sequence[Any]) -> list[tuple[int, Any, list[int]]]:
    """The groups as a dictionary makes them: by hash, and by their first rows."""
    found: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(hashes, keys, strict=True)):
        found.setdefault(key, []).append(row)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[1][0]))
    return [(hashed, key, rows) for (hashed, key), rows in ordered]


@pytest.mark.parametrize("weak", [1, 3, 1 << 62])
@pytest.mark.parametrize(("rows", "different"), [(0, 1), (1, 1), (10, 3), (500, 7), (500, 400), (3000, 50)])
def test_groups_are_those_of_a_dictionary(rows: int, different: int, weak: int) -> None:
    """With ``weak`` hashes, keys collide."""
    dice = random.Random(rows + different)
    names = [None, *(f"key {at}" for at in range(different))]
    keys = [dice.choice(names) for _ in range(rows)]
    batch = pa.record_batch({"name": pa.array(keys, pa.string())})
    hashes = key_hashes(batch.columns) % np.uint64(weak)
    groups = Groups.by_key(hashes, batch)
    found = [
        (hashed, key, groups.order[start:end].tolist())
        for hashed, key, start, end in zip(
            groups.hashes.tolist(),
            groups.keys.column(0).to_pylist(),
            groups.starts,
            [*groups.starts, rows][1:],
            strict=True,
        )
    ]
    assert found == reference(hashes.tolist(), keys)
    assert groups.keys.column(0).take(pa.array(groups.index)).to_pylist() == keys


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 2)), max_size=120), st.booleans())
def test_runs_have_equal_rows_together(rows: list[tuple[int, int, int]], close: bool) -> None:
    """Hashes that collide, and hashes that lie close together."""
    spread = 1 if close else 1 << 60
    first = np.array([row[0] * spread for row in rows], np.uint64)
    second = np.array([row[1] for row in rows], np.uint64)
    columns = [pa.array([row[at] for row in rows], pa.int64()) for at in range(3)]
    order, begins = sort_into_runs(first, second, columns)
    ordered = [rows[at] for at in order]
    assert [row[:2] for row in ordered] == sorted(row[:2] for row in rows)
    assert int(begins.sum()) == len(set(rows))
    for at in range(1, len(rows)):
        assert begins[at] == (ordered[at] != ordered[at - 1])
        assert begins[at] or order[at] > order[at - 1]


def stored_hashes(kind: str, rows: int) -> np.ndarray:
    dice = np.random.default_rng(rows)
    hashes = dice.integers(0, 2**64, rows, dtype=np.uint64)
    some = dice.integers(0, 2**64, 5, dtype=np.uint64)
    if kind == "close":  # the upper half is that of a few keys
        hashes = some[hashes % np.uint64(5)] >> np.uint64(32) << np.uint64(32) | hashes >> np.uint64(32)
    if kind == "few":
        hashes = some[hashes % np.uint64(5)]
    if kind == "hot":
        hashes[: rows // 2] = some[0]
    if kind == "ends":
        hashes[:1], hashes[-1:] = 0, 2**64 - 1
    return np.sort(hashes)


@pytest.mark.parametrize("kind", ["even", "close", "few", "hot", "ends"])
@pytest.mark.parametrize("rows", [1, 2, 9, 100, 20_000])
def test_an_index_finds_what_searching_finds(kind: str, rows: int) -> None:
    stored = stored_hashes(kind, rows)
    index = HashIndex.from_hashes(stored)
    index = HashIndex.read(pa.py_buffer(b"".join(bytes(part) for part in index.parts())))
    dice = np.random.default_rng(1)
    near = dice.choice(stored, 500) + dice.integers(0, 3, 500, dtype=np.uint64) - np.uint64(1)
    others = dice.integers(0, 2**64, 500, dtype=np.uint64)
    asked = np.sort(np.concatenate([stored[:50], near, others, np.array([0, 2**64 - 1], np.uint64)]))
    which = np.flatnonzero(dice.random(len(asked)) < 0.8)
    found, starts, ends = index.find(stored, asked, which)
    left, right = np.searchsorted(stored, asked, "left"), np.searchsorted(stored, asked, "right")
    there = which[right[which] > left[which]]
    assert found.tolist() == there.tolist()
    assert starts.tolist() == left[there].tolist()
    assert ends.tolist() == right[there].tolist()
