"""Expressions over Arrow batches: three-valued logic, Spark's order of numbers, and failures that count only where a
value is used."""

from __future__ import annotations

import math
import operator
import pickle
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import RecordError
from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.rows.expressions import Evaluator, NoKernel, compile_expression, find_missing_kernel
from penstock.sql import parse_expression
from penstock.types import arrow_schema, parse_columns

ROW = parse_columns(
    "i INT, j INT, b BIGINT, t TINYINT, d DOUBLE, f FLOAT, s STRING, flag BOOLEAN, c BOOLEAN, dt DATE, tm TIME(0)"
)
LEAST, MOST = -(2**31), 2**31 - 1


def compiled(sql: str, session: Session = UNKNOWN) -> Evaluator:
    found = compile_expression(parse_expression(sql, ROW), arrow_schema(ROW), session)
    assert isinstance(found, Evaluator), found
    return found


def batch(**columns: list[object]) -> pa.RecordBatch:
    """Rows with these values, null in all other columns."""
    rows = max(map(len, columns.values()), default=1)
    schema = arrow_schema(ROW)
    arrays = [pa.array(columns.get(field.name, [None] * rows), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def values(sql: str, **columns: list[object]) -> list[object]:
    found = compiled(sql).column(batch(**columns))
    found.validate(full=True)
    return found.to_pylist()


def reason(sql: str, *, strict: bool = False, **columns: list[object]) -> tuple[int, str]:
    with pytest.raises(RecordError) as caught:
        compiled(sql, Session(strict=strict)).column(batch(**columns))
    return caught.value.offset, caught.value.reason


THREE = [True, False, None]
LEFT, RIGHT = [each for each in THREE for _ in THREE], THREE * 3


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("flag AND c", [True, False, None, False, False, False, None, False, None]),
        ("flag OR c", [True, True, True, True, False, None, True, None, None]),
        ("NOT flag", [False] * 3 + [True] * 3 + [None] * 3),
        ("flag = c", [True, False, None, False, True, None, None, None, None]),
        ("flag IS DISTINCT FROM c", [False, True, True, True, False, True, True, True, False]),
        ("flag IS TRUE", [True] * 3 + [False] * 6),
        ("flag IS NOT FALSE", [True] * 3 + [False] * 3 + [True] * 3),
        ("flag IS NULL", [False] * 6 + [True] * 3),
        ("CASE WHEN flag THEN c ELSE FALSE END", [True, False, None] + [False] * 6),
        ("CASE WHEN flag THEN c END", [True, False, None] + [None] * 6),
        ("COALESCE(flag, c)", [True] * 3 + [False] * 3 + [True, False, None]),
        ("flag IN (TRUE, NULL)", [True] * 3 + [None] * 6),
        ("NULLIF(flag, c)", [None, True, True, False, None, False, None, None, None]),
    ],
)
def test_logic_has_three_values(sql, expected):
    assert values(sql, flag=LEFT, c=RIGHT) == expected


NUMBERS = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
SIGNS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@pytest.mark.parametrize("sign", SIGNS)
def test_nan_compares_with_nothing_except_beside_a_decimal(sign):
    def expected(pairs: list[tuple[float, float]], place: Callable[[float], Any] = lambda each: each) -> list[bool]:
        return [SIGNS[sign](place(one), place(other)) for one, other in pairs]

    def in_order(each: float) -> tuple[bool, float, float]:
        return math.isnan(each), 0.0 if math.isnan(each) else each, math.copysign(1, each)

    pairs = [(one, other) for one in NUMBERS for other in NUMBERS]
    columns = {"d": [one for one, _ in pairs], "f": [other for _, other in pairs]}
    assert values(f"d {sign} f", **columns) == expected(pairs)
    assert values(f"d {sign} 1e0", **columns) == expected([(one, 1.0) for one, _ in pairs])
    assert values(f"0 {sign} f", **columns) == expected([(0.0, other) for _, other in pairs])
    decimals = expected([(one, 0.0) for one, _ in pairs], lambda each: each if sign in ("=", "<>") else in_order(each))
    assert values(f"d {sign} 0.0", **columns) == decimals


_EXACT = parse_columns("a DECIMAL(38, 2), z DECIMAL(38, 6), u DECIMAL(38, 38), b BIGINT")
_PAIRS = [
    ("1.50", "1.500000"),
    ("1.50", "1.500001"),
    ("-1.50", "-1.500001"),
    ("9" * 36 + ".99", "9" * 32 + ".999999"),
    ("-" + "9" * 36 + ".99", "-" + "9" * 32 + ".999999"),
    ("0.00", "0.000001"),
    (None, "1.000000"),
    ("1.00", None),
]


def exactly(sql: str, **columns: list[Any]) -> list[object]:
    schema = arrow_schema(_EXACT)
    found = compile_expression(parse_expression(sql, _EXACT), schema)
    assert isinstance(found, Evaluator), found
    rows = max(map(len, columns.values()))
    arrays = [pa.array(columns.get(each.name, [None] * rows), each.type) for each in schema]
    return found.column(pa.RecordBatch.from_arrays(arrays, schema=schema)).to_pylist()


@pytest.mark.parametrize("sign", SIGNS)
def test_decimals_are_compared_exactly_though_no_type_has_the_values_of_both(sign):
    given = [tuple(None if each is None else Decimal(each) for each in pair) for pair in _PAIRS]
    columns = {"a": [one for one, _ in given], "z": [other for _, other in given]}
    expected = [None if None in pair else SIGNS[sign](*pair) for pair in given]
    assert exactly(f"a {sign} z", **columns) == expected
    assert exactly(f"z {sign} a", **columns) == [
        None if None in pair else SIGNS[sign](*reversed(pair)) for pair in given
    ]
    whole = [-(2**63), -1, 0, 1, 2**63 - 1, None]
    least, most = Decimal("-0." + "9" * 38), Decimal("1e-38")
    columns = {"b": whole * 2, "u": [least] * 6 + [most] * 6}
    expected = [
        None if one is None else SIGNS[sign](one, other) for one, other in zip(columns["b"], columns["u"], strict=True)
    ]
    assert exactly(f"b {sign} u", **columns) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a IN (1.5, 1.000001, 0.0000001)", [True, False, None]),
        ("a IN (z, 1.000001)", [True, False, None]),
        ("a NOT IN (1.0000001, NULL)", [None, None, None]),
        ("a BETWEEN 1.4999999 AND z", [True, False, None]),
        ("a IS DISTINCT FROM z", [False, True, True]),
        ("NULLIF(a, z)", [None, Decimal("2.00"), None]),
        ("CASE a WHEN z THEN 'same' WHEN 2.0000001 THEN 'near' WHEN 2 THEN 'two' END", ["same", "two", None]),
        ("(a, b) IN ((z, 7))", [True, False, None]),
    ],
)
def test_forms_of_comparisons_are_exact_too(sql, expected):
    columns = {"a": [Decimal("1.50"), Decimal("2.00"), None], "z": [Decimal("1.5"), Decimal("1.7"), Decimal("0.1")]}
    assert exactly(sql, **columns, b=[7, 7, 7]) == expected


def test_dates_and_times_move_by_intervals():
    day, at = date(2026, 1, 31), time(10, 20, 30)
    given = {"dt": [day, None], "tm": [at, None], "i": [2, 2]}
    assert values("dt + INTERVAL '25' HOUR", **given) == [date(2026, 2, 1), None]
    assert values("dt - INTERVAL '1' MONTH", **given) == [date(2025, 12, 31), None]
    assert values("tm + INTERVAL '90000' SECOND", **given) == [time(11, 20, 30), None]
    assert values("tm + INTERVAL '1' MONTH", **given) == [at, None]
    assert values("dt + i * INTERVAL '1' DAY", **given) == [date(2026, 2, 2), None]
    assert values("TIMESTAMPDIFF(MONTH, dt, DATE '2026-02-28')", **given) == [1, None]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("i + j", {"i": [1, MOST, None], "j": [2, 1, 1]}),
        ("i - j", {"i": [1, LEAST, None], "j": [2, 1, 1]}),
        ("i * j", {"i": [1, MOST, None], "j": [2, 2, 1]}),
        ("-i", {"i": [1, LEAST]}),
        ("b + i", {"b": [1, 2**63 - 1], "i": [1, 1]}),
        ("b * i", {"b": [1, 2**62], "i": [1, 2]}),
        ("b - i", {"b": [1, -(2**63)], "i": [1, 1]}),
        ("t + t", {"t": [1, 127]}),
    ],
)
def test_a_result_that_its_type_cannot_hold_is_an_error_where_that_is_asked_for(sql, columns):
    row, text = reason(sql, strict=True, **columns)
    assert row == 1
    assert text.startswith("[ARITHMETIC_OVERFLOW] ")


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("CAST(s AS INT)", "[CAST_INVALID_INPUT] 'x' of type STRING is not a value of type INT"),
        ("CAST(b AS INT)", "[CAST_OVERFLOW] 3000000000 of type BIGINT is beyond the range of INT"),
        ("CAST(d AS BIGINT)", "[CAST_OVERFLOW] nan of type DOUBLE is beyond the range of BIGINT"),
    ],
)
def test_a_value_that_cannot_be_cast_is_an_error_or_null(sql, text):
    columns = {"s": ["1", "x"], "b": [1, 3_000_000_000], "d": [1.0, math.nan]}
    assert reason(sql, strict=True, **columns) == (1, text)
    assert compiled(f"TRY_{sql}", Session(strict=True)).column(batch(**columns)).to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CASE WHEN i > 0 THEN CAST(s AS INT) ELSE 0 END", [1, 0, 0]),
        ("CASE WHEN i < 1 THEN 0 WHEN CAST(s AS INT) = 1 THEN 5 END", [5, 0, 0]),
        ("i > 0 AND CAST(s AS INT) = 1", [True, False, False]),
        ("i < 1 OR CAST(s AS INT) = 1", [True, True, True]),
        ("COALESCE(NULLIF(i, 1), CAST(s AS INT))", [1, 0, -1]),
        ("NULLIF(i, 1) + CAST(s AS INT)", None),
    ],
)
def test_a_failure_counts_only_where_the_value_is_used(sql, expected):
    columns = {"i": [1, 0, -1], "s": ["1", "x", ""]}
    if expected is None:
        assert reason(sql, **columns)[0] == 1
    else:
        assert values(sql, **columns) == expected
    assert values("NULLIF(i, i) + CAST(s AS INT)", **columns) == [None, None, None]  # not computed beside a null


def test_constants_are_computed_once_and_fail_for_each_row_that_uses_them():
    assert values("2 * (3 + 4)", i=[1, 2]) == [14, 14]
    assert values("i + CAST('7' AS INT)", i=[1, None]) == [8, None]
    assert reason("CAST('x' AS INT) + i", i=[1, 2])[0] == 0
    assert values("CASE WHEN i > 5 THEN CAST('x' AS INT) ELSE i END", i=[1, 2]) == [1, 2]
    assert values("CAST('x' AS INT)", i=[]) == []


def test_a_batch_may_be_a_slice_and_empty():
    given = batch(i=[1, 2, 3, 4], s=["1", "+22", " 3 ", None], flag=[True, None, False, True]).slice(1)
    for sql, expected in (
        ("i + 1", [3, 4, 5]),
        ("CAST(s AS INT)", [22, 3, None]),
        ("flag AND i > 1", [None, False, True]),
        ("CAST(i AS STRING)", ["2", "3", "4"]),
        ("CASE WHEN flag THEN s ELSE 'no' END", ["no", "no", None]),
        ("d > 1", [None, None, None]),
    ):
        assert compiled(sql).column(given).to_pylist() == expected
        assert compiled(sql).column(given.slice(0, 0)).to_pylist() == []


def test_an_evaluator_is_pickled():
    found = pickle.loads(pickle.dumps(compiled("i + 1 > 2 AND s IN ('a', 'b')")))
    assert found.column(batch(i=[1, 2], s=["a", "b"])).to_pylist() == [False, True]


def test_what_lacks_a_kernel_is_named():
    assert find_missing_kernel(parse_expression("i + 1", ROW)) is None
    found = find_missing_kernel(parse_expression("i > 0 AND\n  REGEXP(s, '\\X') IS NULL", ROW))
    assert isinstance(found, NoKernel)
    assert str(found) == "REGEXP(STRING, '\\X') at line 2, column 3"
