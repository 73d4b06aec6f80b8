"""Values as Kafka Connect writes them, against what Python computes."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats.debezium_json import connect_values as values
from penstock.formats.debezium_json.connect_kernel import number_texts
from penstock.formats.debezium_json.connect_types import find_type, read_columns
from penstock.types import BYTES, DATE, STRING, DecimalType, TimestampType


def unscaled(number: int, more: int = 0) -> bytes:
    """A number as Java's BigInteger writes it, with bytes in front that say nothing."""
    size = 1
    while not -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
        size += 1
    return number.to_bytes(size + more, "big", signed=True)


def numbers(seed: int, count: int) -> list[int]:
    random = Random(seed)
    edges = [sign * (each + more) for each in (0, 2**63, 2**64, 10**38, 2**127) for sign in (1, -1) for more in (-1, 0)]
    drawn = [random.randrange(-(10 ** random.randint(1, 45)), 10 ** random.randint(1, 45)) for _ in range(count)]
    return edges + drawn


def test_unscaled_numbers_are_decimals():
    given: list[int | None] = [None, *numbers(1, 500)]
    random = Random(2)
    column = pa.array([None if each is None else unscaled(each, random.randint(0, 3)) for each in given], pa.binary())
    found = values.read_decimals(column.slice(0), DecimalType(38, 5))
    fits = [each is not None and abs(each) < 10**38 for each in given]
    with localcontext(prec=60):
        expected = [Decimal(each).scaleb(-5) if ok else None for each, ok in zip(given, fits, strict=True)]
    assert found.values.to_pylist() == expected
    assert found.wrong.tolist() == [each is not None and not ok for each, ok in zip(given, fits, strict=True)]


def test_a_number_of_more_digits_than_its_type_is_wrong():
    column = pa.array([unscaled(each) for each in (99, 100, -99, -100)] + [b""], pa.binary())
    found = values.read_decimals(column, DecimalType(2, 1))
    assert found.values.to_pylist() == [Decimal("9.9"), None, Decimal("-9.9"), None, None]
    assert found.wrong.tolist() == [False, True, False, True, True]


@pytest.mark.parametrize("scale", [0, 1, 2, 38, 60, 100, 101, 150, -1, -3, -120])
def test_unscaled_numbers_are_texts(scale: int):
    given = numbers(scale, 200)
    column = pa.array([unscaled(each) for each in given], pa.binary())
    found = values.decimal_writer(scale)(column, STRING)
    with localcontext(prec=400):
        expected = [
            format(Decimal(each).scaleb(-scale) if each else Decimal(0).scaleb(-max(scale, 0)), "f") for each in given
        ]
    assert found.values.to_pylist() == expected


def test_each_number_has_the_scale_that_it_comes_with():
    rows: list[Any] = [
        {"scale": 2, "value": unscaled(1250)},
        None,
        {"scale": 0, "value": unscaled(-7)},
        {"scale": None, "value": unscaled(1)},
        {"scale": 1, "value": None},
        {"scale": 200, "value": unscaled(5)},
        {"scale": 10**6, "value": unscaled(5)},
    ]
    column = pa.array(rows, pa.struct([("scale", pa.int32()), ("value", pa.binary())]))
    found = values.write_scaled(column, STRING)
    assert found.values.to_pylist() == ["12.50", None, "-7", None, None, f"0.{'0' * 199}5", None]
    assert found.wrong.tolist() == [False, False, False, True, True, False, True]


def test_columns_may_be_parts_of_others():
    column = pa.array([unscaled(each) for each in (1, 22, -333, 4444)], pa.binary()).slice(1, 2)
    assert values.read_decimals(column, DecimalType(10, 1)).values.to_pylist() == [Decimal("2.2"), Decimal("-33.3")]
    micros = pa.array([None, 5, -5, 10**15], pa.int64()).slice(2)
    assert values.read_nanos(micros, TimestampType(6)).values.cast(pa.int64()).to_pylist() == [-1, 10**12]
    days = values.read_days(pa.array([1, 2, 3], pa.int32()).slice(1), DATE).values
    assert days.to_pylist() == [date(1970, 1, 3), date(1970, 1, 4)]
    assert values.convert_values(days, DATE, STRING).values.to_pylist() == ["1970-01-03", "1970-01-04"]


def test_timestamps_are_texts_without_zeros_at_the_end():
    random = Random(3)
    micros = [random.randrange(-(10**16), 10**17) // 10 ** random.randint(0, 6) for _ in range(500)]
    column = pa.array([*micros, None], pa.int64()).view(pa.timestamp("us"))
    found = values.convert_values(column, TimestampType(6), STRING).values.to_pylist()
    for number, text in zip(micros, found[:-1], strict=True):
        assert datetime.fromisoformat(text) == datetime(1970, 1, 1) + timedelta(microseconds=number)
        assert "." not in text or not text.endswith("0")
    assert found[-1] is None
    zoned = column.view(pa.timestamp("us", "UTC"))
    assert values.convert_values(zoned, TimestampType(6, local_zone=True), STRING).values.to_pylist() == [
        None if each is None else f"{each}Z" for each in found
    ]


def test_milliseconds_beyond_microseconds_are_wrong():
    found = values.read_millis(pa.array([1, 2**62, None], pa.int64()), TimestampType(3))
    assert found.wrong.tolist() == [False, True, False]
    assert found.values.to_pylist() == [datetime(1970, 1, 1, 0, 0, 0, 1000), None, None]


def test_decimals_that_lose_digits_in_their_column_are_wrong():
    column = pa.array([Decimal("1.5"), Decimal("1.25")], pa.decimal128(5, 2))
    found = values.convert_values(column, DecimalType(5, 2), DecimalType(38, 1))
    assert found.values.to_pylist() == [Decimal("1.5"), None]
    assert found.wrong.tolist() == [False, True]


def test_texts_are_told_apart():
    texts = [b"aaaaaaaaaa", b"aaaaaaaaab", b"aaaaaaaaaa", b"a", b"", b"a", b"aaaaaaaaab", b""]
    data = np.frombuffer(b"".join(texts) or b"-", np.uint8)
    ends = np.cumsum([len(each) for each in texts])
    starts = ends - [len(each) for each in texts]
    codes, firsts = np.empty(len(texts), np.int64), np.empty(len(texts), np.int64)
    assert number_texts(data, starts, ends, codes, firsts) == 4
    assert codes.tolist() == [0, 1, 0, 2, 3, 2, 1, 3]
    assert firsts[:4].tolist() == [0, 1, 3, 4]


def test_parameters_of_decimals_that_are_none():
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
    assert find_type({**decimal, "parameters": {"scale": "x"}}).type == BYTES
    assert find_type({**decimal, "parameters": None}).type == DecimalType(38, 0)
    assert find_type({**decimal, "parameters": {"scale": "-1"}}).type == STRING


def test_a_text_that_is_no_schema_has_no_columns():
    for text in (b"", b"[", b'"x"', b"{}", b'{"fields": [{"field": "after"}]}', b"[" * 100_000):
        assert read_columns(text) == ()
