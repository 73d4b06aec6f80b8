"""Expressions for all kernels, and rows of nulls, limits and odd values to compute them from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

from penstock.errors import DefinitionError
from penstock.plan.expressions import Expression
from penstock.sql import parse_expression
from penstock.types import arrow_schema, arrow_type, parse_columns

ROWS = 300

_INTS = {bits: [0, 1, -1, 2, 7, -8, 100, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1] for bits in (8, 16, 32, 64)}
_REALS = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 3.5, 1e10, -1e10, 1e-5, 123456.789, float("nan"), float("inf"), -float("inf")]
_TEXTS = [
    *("", " ", "a", "A", "abc", "Hello World", "  both  ", "\t7\n", "12", "-7", "+5", "007", "1.5", "-0", ".5", "1e3"),
    *("NaN", "Infinity", "-inf", "true", "F", "yes", "0", "2026-01-31", "2026-1-5", "2026-01-31 10:20:30", "x%y_z"),
    *("ß", "É", "日本語", "😀 smile", "2147483648", "9223372036854775808", "99999999999999999999", "C:\\dir", "a,b,c"),
]
_MOMENT_TEXTS = [
    *("2026-01-31", "2026-1-5", "2026-13-01", "2026-02-30", "2024-02-29", "0001-01-01", "0000-12-31", "-0001-01-01"),
    *("2026", "2026-07", "+12026-01-31", "12026-01-31", "1234567-01-01", " 2026-01-31 ", "2026-01-31T", "2026-01-31 x"),
    *("2026-01-31 10", "2026-01-31 10:20", "2026-01-31 10:20:30", "2026-01-31T10:20:30.123456789", "2026-1-1 24:00:00"),
    *("2026-01-31 10:20:30.", "2026-01-31 10:20:30Z", "2026-01-31 10:20:30 +01:00", "2026-01-31 10:20:30.5+1:5"),
    *("2026-01-31 10:20:30 Europe/Berlin", "2026-01-31 10:20:30 Nowhere", "2026-01-31 10:20:30 UTC+3", "10:20:30"),
    *("2026-01-31 10:20Z", "2026-01-31 1:2:3", "2026-01-31 10:20:60", "2026-03-08 02:30:00", "20260131", "31.01.2026"),
    *("2026-01-31T10:20:30.5", "2026-01-31T10:20:30.500", "2026-01-31t10:20:30.500", "10:20", "26", "500000", "T10:20"),
    *("2026-01-31 10:20:30 EST", "2026-01-31 10:20:30+19:00", "2026-01-31 10:20:30 CST", "2026-01-31 10:20:30-0130"),
    *("01 o'clock", "nope"),
]
_NUMBER_TEXTS = [
    *("0", "-0", "1.5", "-2.50", " 7 ", "\t8\n", "+3", "007", ".5", "5.", "1e3", "1E-3", "1e400", "-1e400", "1e-400"),
    *(
        "NaN",
        "nan",
        "+NaN",
        "Infinity",
        "-infinity",
        "inf",
        "+inf",
        "1d",
        "2.5f",
        "1_000",
        "1,5",
        "",
        " ",
        "--1",
        "1 2",
    ),
    *("99.995", "999.994", "999.995", "123456789.12345", "9007199254740993", "3.4028236e38", "16777217", "0x1p3", "١"),
    *("9223372036854775807", "9223372036854775808", "99999999999999999999999999999999999999", "1e38", "1.17549429e-38"),
    *("4.9e-324", "2.2250738585072011e-308", "1.7976931348623157e308", "0.1000000000000000055511151231257827021181"),
]
_DAYS = [date(1970, 1, 1), date(2026, 1, 31), date(2024, 2, 29), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)]
_MOMENTS = [
    datetime(1970, 1, 1),
    datetime(2026, 1, 31, 10, 20, 30, 500000),
    datetime(2024, 2, 29, 23, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1900, 3, 1, 0, 0, 0, 1),
    datetime(2026, 11, 1, 5, 30),
    datetime(2026, 3, 8, 7, 0, 0),
]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    unit = Decimal(1).scaleb(-scale)
    texts = ["0", "1", "-1", "2.5", "-2.5", "0.05", "19.99", "-7.45", "99999"]
    found = [Decimal(each).quantize(unit) for each in texts if len(each.split(".")[0].strip("-")) <= precision - scale]
    most = Decimal("9" * (precision - scale) + "." + "9" * scale)
    return [*found, unit, unit.copy_negate(), most, most.copy_negate()]


#: By column: its type, and its values beside NULL.
VALUES: dict[str, tuple[str, Sequence[Any]]] = {
    "t": ("TINYINT", _INTS[8]),
    "s": ("SMALLINT", _INTS[16]),
    "i": ("INT", _INTS[32]),
    "j": ("INT", [0, 1, 2, 3, -1, -2, 5, 10]),
    "b": ("BIGINT", [*_INTS[64], 2**53 + 1, 10**15, 3_000_000_000]),
    "f": ("FLOAT", [*_REALS, 3e38, 2.0**31, 2.0**63, 16777217.0]),
    "d": ("DOUBLE", [*_REALS, 2.0**31, 2.0**63, -(2.0**63), 1e300, 2147483647.9, -2147483648.9, 9007199254740993.0]),
    "e": ("DOUBLE", _REALS),
    "p": ("DECIMAL(10, 2)", _decimals(10, 2)),
    "q": ("DECIMAL(5, 3)", _decimals(5, 3)),
    "w": ("DECIMAL(38, 10)", _decimals(38, 10)),
    "n": ("DECIMAL(18, 0)", _decimals(18, 0)),
    "z": ("DECIMAL(30, 4)", _decimals(30, 4)),
    "x": ("STRING", _TEXTS),
    "y": ("STRING", _TEXTS),
    "mo": ("STRING", _MOMENT_TEXTS),
    "nu": ("STRING", _NUMBER_TEXTS),
    "v": ("VARCHAR(5)", [each[:5] for each in _TEXTS]),
    "bo": ("BOOLEAN", [True, False]),
    "co": ("BOOLEAN", [True, False]),
    "dt": ("DATE", _DAYS),
    "du": ("DATE", _DAYS),
    "ts": ("TIMESTAMP(3)", [each.replace(microsecond=each.microsecond // 1000 * 1000) for each in _MOMENTS]),
    "us": ("TIMESTAMP(6)", _MOMENTS),
    "lz": ("TIMESTAMP_LTZ(3)", [each.replace(microsecond=each.microsecond // 1000 * 1000) for each in _MOMENTS]),
    "tm": ("TIME(0)", [time(0), time(23, 59, 59), time(10, 20, 30)]),
    "by": ("BYTES", [b"", b"hi", bytes(range(5)), "é".encode()]),
    "arr": ("ARRAY<STRING>", [[], ["x"], ["x", None, "z"]]),
    "na": ("ARRAY<STRING>", [["1", None, "-2"], ["3", "x"], [], [None]]),
    "mp": ("MAP<STRING, INT>", [[], [("k", 3)], [("k", None), ("x", 1)]]),
    "r": (
        "ROW<a INT, b ROW<c STRING>>",
        [{"a": 1, "b": {"c": "z"}}, {"a": None, "b": None}, {"a": 2, "b": {"c": None}}],
    ),
    "rs": ("ARRAY<ROW<a INT, b ROW<c STRING>>>", [[], [{"a": 1, "b": {"c": "z"}}], [None, {"a": 2, "b": None}]]),
}
SCHEMA = parse_columns(", ".join(f"{name} {text}" for name, (text, _) in VALUES.items()))
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
NUMBERS = ("t", "s", "i", "b", "f", "d", "p", "q", "w", "n", "z")


def expressions() -> Iterator[str]:
    """Flink SQL of all that has kernels."""
    for sign, (one, other) in product(COMPARISONS, [*product(NUMBERS, NUMBERS), *product("xv", "xv")]):
        yield f"{one} {sign} {other}"
    for sign, (one, other) in product(
        COMPARISONS, (("bo", "co"), ("dt", "du"), ("ts", "us"), ("lz", "lz"), ("tm", "tm"), ("by", "by"), ("ts", "dt"))
    ):
        yield f"{one} {sign} {other}"
    for name, value in product(NUMBERS, ("2", "-1.5", "1e0", "3000000000", "NULL")):
        yield from (f"{name} {sign} {value}" for sign in ("=", "<", ">="))
        yield from (f"{name} IN ({value}, 1, 7)", f"{name} NOT IN (NULL, {value})", f"{name} BETWEEN {value} AND 100")
    yield from ("x = 'a'", "x > 'B'", "x IN ('a', 'abc', NULL)", "x NOT IN ('a', '12')", "x BETWEEN 'A' AND 'b'")
    yield from ("d IN (0e0, 1e0, CAST('NaN' AS DOUBLE))", "d IN (e, f)", "i IN (j, 7)", "dt IN (DATE '2026-01-31')")
    yield from ("bo AND co", "bo OR co", "NOT bo", "bo = co OR i > 3 AND d < 2", "bo IS NOT TRUE", "bo IS FALSE")
    yield from ("i IS NULL", "x IS NOT NULL", "(i > 1) IS UNKNOWN", "d IS NULL", "arr IS NULL")
    for sign, (one, other) in product("+-*", product(NUMBERS, NUMBERS)):
        yield f"{one} {sign} {other}"
    yield from (f"-{name}" for name in NUMBERS)
    yield from (f"{name} * 2 + 1" for name in NUMBERS)
    yield from (f"1 - {name}" for name in NUMBERS)
    yield from ("CASE WHEN i > 1 THEN x WHEN bo THEN y ELSE 'none' END", "CASE i WHEN 7 THEN 1 WHEN 1 THEN b END")
    yield from ("CASE WHEN bo THEN i ELSE d END", "CASE WHEN bo THEN arr END", "CASE WHEN bo THEN ts ELSE us END")
    yield from (
        "COALESCE(i, j, 0)",
        "COALESCE(x, y)",
        "COALESCE(i, b)",
        "NULLIF(i, j)",
        "NULLIF(d, e)",
        "NULLIF(x, 'a')",
    )
    yield from ("IF(bo, p, q)", "IF(i > j, 'more', 'less')", "IFNULL(dt, du)", "COALESCE(r, r)")
    types = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(20, 4)", "STRING")
    for name, target in product((*NUMBERS, "x", "bo"), (*types, "BOOLEAN")):
        yield f"TRY_CAST({name} AS {target})"
        yield f"CAST({name} AS {target})"
    for name, target in product(
        ("dt", "ts", "us", "lz", "tm", "x"), ("STRING", "DATE", "TIME", "TIMESTAMP(0)", "TIMESTAMP(3)")
    ):
        yield f"TRY_CAST({name} AS {target})"
        yield f"CAST({name} AS {target})"
    for name in ("x", "i", "bo"):
        yield from (f"CAST({name} AS VARCHAR(2))", f"CAST({name} AS CHAR(4))")

    yield from numbers()
    yield from times()
    yield from strings()
    yield from patterns()
    yield from nested()


def numbers() -> Iterator[str]:
    """Division and functions of numbers."""
    for sign, (one, other) in product(("/", "%"), product(NUMBERS, NUMBERS)):
        yield f"{one} {sign} {other}"
    for name, (sign, value) in product(NUMBERS, product(("/", "%"), ("3", "-7", "0", "0.25", "1e1", "NULL"))):
        yield f"{name} {sign} {value}"
    for name, function in product(NUMBERS, ("ABS", "CEIL", "FLOOR", "SIGN", "SQRT", "ROUND")):
        yield f"{function}({name})"
    yield from (f"ROUND({name}, {digits})" for name in NUMBERS for digits in (-3, -1, 0, 1, 2, 5, 20))
    yield from ("CAST(CAST(b AS FLOAT) AS DOUBLE)", "CAST(b AS FLOAT) = d", "TRY_CAST(CAST(i AS FLOAT) AS DOUBLE)")
    yield from ("10 / i", "i / j", "MOD(b, j)", "100 / d", "2.5 / p", "7 % j")


PATTERNS = (
    *("yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "dd.MM.yyyy", "yyyy-MM-dd''T''HH:mm:ss.SSS", "HH:mm", "yy", "SSSSSS"),
    "MM ''o''''''''clock''",
)


def times() -> Iterator[str]:
    """Functions and casts of dates, times and timestamps."""
    units = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "HOUR", "MINUTE", "SECOND")
    yield from (f"EXTRACT({unit} FROM {name})" for unit, name in product(units, ("dt", "ts", "us", "lz", "tm")))
    spans = ("'1' DAY", "'1 02:03:04.5' DAY TO SECOND", "'-90' MINUTE", "'1' MONTH", "'-13' MONTH", "'9999' YEAR")
    yield from (f"{name} {sign} INTERVAL {span}" for name, sign, span in product(("ts", "us", "lz"), "+-", spans))
    units = ("SECOND", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    for unit, name in product(units, ("ts", "us", "lz")):
        yield from (f"TIMESTAMPADD({unit}, {count}, {name})" for count in ("-1", "40", "j", "t"))
        yield from (f"TIMESTAMPDIFF({unit}, {name}, {other})" for other in ("us", "ts", "ts + INTERVAL '36' HOUR"))
    yield from (f"TIMESTAMPADD({unit}, {count}, dt)" for unit, count in product(units, ("-1", "40", "t")))
    yield from (f"TO_TIMESTAMP_LTZ({name}, {digits})" for name, digits in product("ibj", (0, 3)))
    for name, pattern in product(("dt", "ts", "us", "lz", "'2026-01-31 10:20:30'"), PATTERNS):
        yield f"DATE_FORMAT({name}, '{pattern}')"
    yield from (f"FROM_UNIXTIME({name}{pattern})" for name, pattern in product("ij", ("", ", 'yyyy-MM'")))
    yield from ("TO_TIMESTAMP(x)", "TO_DATE(x)", "TO_TIMESTAMP(mo)", "TO_DATE(mo)", "CAST(x AS BYTES)")
    yield from ("ts >= '2026-01-31 00:00:00'", "dt = '2026-01-31'", "us BETWEEN '2026-01-01' AND '2027-01-01'")
    yield from (f"{name}(mo, '{pattern}')" for name, pattern in product(("TO_TIMESTAMP", "TO_DATE"), PATTERNS))
    for target in ("DATE", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIME"):
        yield from (f"CAST(mo AS {target})", f"TRY_CAST(mo AS {target})")
    targets = ("STRING", "DATE", "TIME", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "VARCHAR(12)")
    yield from (f"CAST({name} AS {target})" for name, target in product(("dt", "ts", "us", "lz", "tm"), targets))
    for target in ("FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(20, 4)", "DECIMAL(38, 0)", "BIGINT", "TINYINT"):
        yield from (f"CAST(nu AS {target})", f"TRY_CAST(nu AS {target})", f"CAST(x AS {target})")


def strings() -> Iterator[str]:
    """Functions of text."""
    for name in "xyv":
        yield from (f"{each}({name})" for each in ("UPPER", "LOWER", "REVERSE", "CHAR_LENGTH", "TRIM"))
        yield from (f"SUBSTRING({name}, {at})" for at in (-9, -2, 0, 1, 2, 40, 2147483647, -2147483648, "j"))
        yield from (f"SUBSTRING({name}, {at}, {size})" for at in (-5, -1, 0, 1, 3) for size in (-1, 0, 1, 2, 5, 99))
        yield from (f"SUBSTRING({name}, {at}, 2147483647)" for at in (-5, 0, 2, 2147483647, -2147483648))
        yield from (f"{side}({name}, {size})" for side in ("LEFT", "RIGHT") for size in (-1, 0, 1, 3, 99))
        yield from (
            f"{side}({name}, {size}, {pad})"
            for side in ("LPAD", "RPAD")
            for size in (-1, 0, 3, 12)
            for pad in ("'*'", "''", "'é'", "'ab'")
        )
        yield from (
            f"TRIM({side} {chars} FROM {name})"
            for side in ("BOTH", "LEADING", "TRAILING")
            for chars in ("'a'", "'H d'", "'日😀'", "''")
        )
        yield from (f"TRIM({side} FROM {name})" for side in ("BOTH", "LEADING", "TRAILING"))
        yield from (f"REPEAT({name}, {count})" for count in (-1, 0, 1, 3))
        yield from (
            f"REPLACE({name}, {old}, {new})"
            for old in ("'a'", "''", "'l'", "'日'", "'  '")
            for new in ("'z'", "''", "'$1\\'")
        )
        yield from (f"POSITION({sought} IN {name})" for sought in ("'l'", "''", "'語'", "'World'", "y", "NULL"))
        yield from (
            f"SPLIT_INDEX({name}, {by}, {at})" for by in ("','", "' '", "'l'", "''", "'.'") for at in (-1, 0, 1, 5)
        )
        for pattern in (
            "%",
            "_",
            "",
            "a%",
            "%a",
            "%a%",
            "a_c",
            "%o W%",
            "%\\%",
            "C:\\%",
            "x!%%",
            "日_語",
            "_",
            "__",
            "😀%",
            "%.%",
            "(%",
            "1.5",
            "%\t%",
        ):
            yield from (
                f"{name} LIKE '{pattern}'",
                f"{name} NOT LIKE '{pattern}'",
                f"{name} LIKE '{pattern}' ESCAPE '!'",
            )
    yield from ("x || y", "x || '-' || v", "CONCAT(x, NULL)", "CONCAT(x)", "CONCAT('a', 'b')", "CONCAT_WS(',', x, y)")
    yield from ("CONCAT_WS(x, 'a', y, NULL)", "CONCAT_WS(',', 'a')", "CONCAT_WS(',', nul, 'a')", "UPPER('ß')")
    yield from ("SUBSTRING(x, NULL)", "REPLACE(x, 'a', NULL)", "x LIKE NULL", "LEFT(NULL, 2)", "x LIKE y")


def patterns() -> Iterator[str]:
    """Regular expressions, and text functions whose arguments are not constant."""
    regexes = (
        "l+",
        "^H",
        "[A-Z]",
        "(\\w)(\\d)?",
        "a|b",
        "\\s",
        "[^ ]+",
        ".",
        "(.)(.)",
        "[0-9]{2,}",
        "e.*o",
        "(l|^)[^&]",
        "(?:l|o)+?",
        "",
    )
    for name, regex in product("xy", regexes):
        yield from (f"REGEXP({name}, '{regex}')", f"REGEXP_REPLACE({name}, '{regex}', '<>')")
        yield from (f"REGEXP_EXTRACT({name}, '{regex}', {group})" for group in (0, 1, 2))
    yield from ("REGEXP_EXTRACT(x, 'l+')", "REGEXP(x, NULL)", "REGEXP(mo, '^[0-9]{4}-')")
    yield from (f"{name}(x)" for name in ("MD5", "SHA1", "SHA256", "ASCII"))
    yield from ("SUBSTRING(x, j)", "SUBSTRING(x, j, i)", "SUBSTRING(x, i)", "SUBSTRING(x, POSITION('l' IN x))")
    yield from ("LEFT(x, j)", "RIGHT(x, j)", "LPAD(x, j, y)", "RPAD(x, j, y)", "LPAD(x, 9, 'ab')", "RPAD(y, 9, 'é*')")
    yield from ("REPEAT(x, j)", "REPLACE(x, y, v)", "REPLACE(x, 'a', y)", "POSITION(y IN x)", "LOCATE('l', x, j)")
    yield from ("TRIM(BOTH y FROM x)", "TRIM(LEADING v FROM x)", "TRIM(TRAILING y FROM x)", "LOCATE(y, x, 2)")
    yield from ("ARRAY[i, j, 7]", "ARRAY[x, NULL]", "ARRAY[x, y][j]", "CARDINALITY(ARRAY[i])", "PI()", "PI() * d")


def nested() -> Iterator[str]:
    """Parts of rows, arrays and maps."""
    yield from (
        "r.a",
        "r.b",
        "r.b.c",
        "arr[1]",
        "arr[3]",
        "arr[j]",
        "arr[i]",
        "mp['k']",
        "mp['x']",
        "mp[x]",
        "mp[CAST(NULL AS STRING)]",
    )
    yield from (
        f"{cast}(r AS ROW<k {one}, l ROW<m {other}>>)"
        for cast in ("CAST", "TRY_CAST")
        for one in ("BIGINT", "STRING", "TINYINT")
        for other in ("STRING", "INT")
    )
    yield from (
        f"{cast}({name} AS ARRAY<{target}>)"
        for cast in ("CAST", "TRY_CAST")
        for name in ("arr", "na")
        for target in ("STRING", "INT", "VARCHAR(1)")
    )
    yield from ("CARDINALITY(arr)", "CARDINALITY(mp)", "rs[1].a", "rs[2].b.c", "(CASE WHEN bo THEN r END).a")


def bound(texts: Callable[[], Iterator[str]]) -> Iterator[tuple[str, Expression]]:
    """The expressions that bind."""
    for sql in dict.fromkeys(texts()):
        try:
            yield sql, parse_expression(sql, SCHEMA)
        except DefinitionError:
            continue


def table() -> pa.RecordBatch:
    """Rows of these values, each column in an order of its own."""
    chance = random.Random(7)
    arrays = []
    for name, (_, values) in VALUES.items():
        chosen = [*values, None]
        chosen += chance.choices(chosen, k=ROWS - len(chosen))
        chance.shuffle(chosen)
        arrays.append(pa.array(chosen, arrow_type(SCHEMA.field(name).type)))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(SCHEMA))
