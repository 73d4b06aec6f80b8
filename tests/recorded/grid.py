"""Rows of nulls, limits and odd values, and expressions of every function, for Flink and for penstock to compute.

Values are as Flink's JSON format writes them. This module imports nothing of penstock: Flink's Python reads it too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

ROWS = 52

_REALS = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 3.5, 1e10, -1e10, 1e-5, 123456.789, "NaN", "Infinity", "-Infinity"]
_TEXTS = [
    *("", " ", "a", "A", "abc", "Hello World", "  both  ", "\t7\n", "12", "-7", "+5", "007", "1.5", "-0", ".5", "1e3"),
    *("NaN", "Infinity", "true", "F", "yes", "0", "2026-01-31", "2026-01-31 10:20:30", "x%y_z", "a_c", "ab12cd345"),
    *(
        "ß",
        "É",
        "日本語",
        "😀 smile",
        "2147483648",
        "9223372036854775808",
        "C:\\dir",
        "a,b,c",
        "k=v,l=w",
        "(a+b)*c",
        "$1",
    ),
]
_MOMENT_TEXTS = [
    *(
        "2026-01-31",
        "2026-1-5",
        "2026-13-01",
        "2026-02-30",
        "2024-02-29",
        "0001-01-01",
        "9999-12-31",
        "2026",
        "2026-07",
    ),
    *(" 2026-01-31 ", "2026-01-31T", "2026-01-31 x", "2026-01-31 10", "2026-01-31 10:20", "2026-01-31 10:20:30"),
    *("2026-01-31T10:20:30", "2026-01-31 10:20:30.123456789", "2026-01-31 10:20:30.5", "2026-01-31 24:00:00"),
    *("2026-01-31 10:20:30.", "2026-01-31 10:20:30Z", "2026-01-31 10:20:30 +01:00", "2026-01-31 1:2:3", "10:20:30"),
    *(
        "2026-01-31 10:20:60",
        "2026-03-08 02:30:00",
        "20260131",
        "31.01.2026",
        "31.01.2026 10:20",
        "10:20",
        "26",
        "",
        "x",
    ),
    *("1969-12-31 23:59:59", "2026-01-31 10:20:30 UTC", "Jan 31, 2026", "20260131102030", "2026-01-31T10:20:30.5Z"),
]
_NUMBER_TEXTS = [
    *("0", "-0", "1.5", "-2.50", " 7 ", "\t8\n", "+3", "007", ".5", "5.", "1e3", "1E-3", "1e400", "-1e400", "1e-400"),
    *("NaN", "nan", "Infinity", "-infinity", "inf", "1d", "2.5f", "1_000", "1,5", "", " ", "--1", "1 2", "99.995"),
    *("999.995", "123456789.12345", "9007199254740993", "3.4028236e38", "16777217", "0x1p3", "9223372036854775807"),
    *("9223372036854775808", "99999999999999999999999999999999999999", "1e38", "4.9e-324", "127", "128", "-129"),
    *("true", "TRUE", "f", "yes", "1", "12abc", "٣"),
]
_DOCUMENTS = [
    *('{"a":1,"b":"two","c":[1,2,3],"d":{"e":null,"f":1.50}}', '{"a":{"b":[{"c":"x"},{"c":"y"}]}}', "[1,2,3]", "[]"),
    *('{"a":true,"c":[]}', '{"a":null}', '{"a":"1"}', '{"a":1.5,"a b":"blank"}', '{"a":"","b":[[1],[2,3]]}', "{}"),
    *('"text"', "12", "true", "null", "", " ", "nope", '{"a":', '{"a":1}x', "{'a':1}", '{"a":12345678901234567890}'),
    *('{"a":1e3,"b":-0.0,"c":["x",{"y":"z"},null]}', ' { "b" : "sp aced" , "a" : [ 1 , "q" ] } ', '{"a":"\\u00e9\\n"}'),
    *('{"a":1,"a":2}', '[{"a":1},{"a":2},{"b":3}]', '{"a":100000000000}', '{"a":"true","b":false,"c":"x"}', "1 2"),
]
_URLS = [
    *(
        "http://user:pw@example.com:8080/p/a%20th.html?k1=v1&k2=v2&k1=x#Ref1",
        "https://example.com",
        "http://example.com/",
    ),
    *(
        "http://example.com?x=1",
        "ftp://host/file;type=i",
        "mailto:me@example.com",
        "not a url",
        "",
        "http://",
        "//host/p",
    ),
    *(
        "http://[::1]/v6?a=b%3Dc",
        "http://example.com/p?k1=",
        "http://example.com/p?k1",
        "http://ex ample.com/a",
        "a=1&b=2",
    ),
    *("a b+c/d?é=ü&x", "%41%20%zz", "%E6%97%A5+x", "100%", "~._-*!'()"),
]
_MOMENTS = [
    *("1970-01-01 00:00:00", "2026-01-31 10:20:30.5", "2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.999999"),
    *("1900-03-01 00:00:00.000001", "2026-11-01 05:30:00", "2026-03-08 07:00:00", "2026-12-31 12:00:00.001"),
    *("2025-12-29 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "2021-01-03 13:14:15.25"),
]


#: Around the limits of the years 0 to 9999, of 64-bit nanoseconds and of 64-bit numbers.
_FAR_MILLIS = [
    *(253_402_214_400_000, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_000, -62_167_219_200_000),
    *(-62_167_219_200_001, 9_223_372_036_854, 9_223_372_036_855, -9_223_372_036_855, -9_223_372_036_856),
    *(4_118_000_000_000, -12_219_292_800_000, 2**63 - 1, -(2**63), 9_223_372_036_854_775, 9_223_372_036_854_776),
]
_FAR_MOMENTS = [
    *("0000-01-01 00:00:00", "0001-01-01 00:00:00.001", "1582-10-15 00:00:00", "1677-09-21 00:12:43.145"),
    *("1677-09-21 00:12:43.146", "2038-01-19 03:14:08", "2100-02-28 23:59:59.999", "2262-04-11 23:47:16.854"),
    *("2262-04-11 23:47:16.855", "2400-02-29 12:00:00", "9999-01-01 00:00:00", "9999-12-31 23:59:59.999"),
]


def _millis(moment: str) -> str:
    whole, _, fraction = moment.partition(".")
    return f"{whole}.{fraction[:3]}" if fraction else whole


def _ints(bits: int) -> list[int]:
    return [0, 1, -1, 2, 7, -8, 100, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1]


#: By column: its type, and its values beside NULL.
VALUES: Mapping[str, tuple[str, Sequence[Any]]] = {
    "t": ("TINYINT", _ints(8)),
    "s": ("SMALLINT", _ints(16)),
    "i": ("INT", _ints(32)),
    "j": ("INT", [0, 1, 2, 3, -1, -2, 5, 10]),
    "b": ("BIGINT", [*_ints(64), 2**53 + 1, 10**15, 3_000_000_000]),
    "f": ("FLOAT", [*_REALS, 3e38, 2.0**31, 16777217.0, 0.1]),
    "d": ("DOUBLE", [*_REALS, 2.0**31, 2.0**63, 1e300, 2147483647.9, -2147483648.9, 9007199254740993.0, 0.1, 1.005]),
    "e": ("DOUBLE", _REALS),
    "k": ("DOUBLE", [0.0, 1.0, -1.0, 0.5, -0.25, 2.0, 10.0, 0.001, 100.0, 1.1]),
    "p": ("DECIMAL(10, 2)", ["0.00", "1.00", "-1.00", "2.50", "-2.50", "0.05", "19.99", "-7.45", "99999999.99"]),
    "q": ("DECIMAL(5, 3)", ["0.000", "1.000", "-1.500", "0.001", "-0.001", "99.999", "-99.999", "2.345"]),
    "w": (
        "DECIMAL(38, 10)",
        ["0.0000000000", "1.5000000000", "-1.0000000001", "9999999999999999999999999999.9999999999"],
    ),
    "n": ("DECIMAL(18, 0)", ["0", "7", "-7", "12345", "999999999999999999"]),
    "x": ("STRING", _TEXTS),
    "y": ("STRING", _TEXTS),
    "v": ("VARCHAR(5)", [each[:5] for each in _TEXTS]),
    "mo": ("STRING", _MOMENT_TEXTS),
    "nu": ("STRING", _NUMBER_TEXTS),
    "js": ("STRING", _DOCUMENTS),
    "ur": ("STRING", _URLS),
    "hx": ("STRING", ["", "0", "4", "41", "4142", "abC", "zz", "466C696E6B", "é", " 41"]),
    "b64": ("STRING", ["", "aGVsbG8=", "aGVsbG8", "aGVs bG8=", "!!!!", "w6k=", "/+8=", "_-8="]),
    "bo": ("BOOLEAN", [True, False]),
    "co": ("BOOLEAN", [True, False]),
    "dt": ("DATE", ["1970-01-01", "2026-01-31", "2024-02-29", "1969-12-31", "0001-01-01", "9999-12-31", "2025-12-29"]),
    "du": ("DATE", ["1970-01-01", "2026-01-30", "2023-02-28", "1969-12-31", "2000-01-01"]),
    "ts": ("TIMESTAMP(3)", [_millis(each) for each in _MOMENTS]),
    "us": ("TIMESTAMP(6)", _MOMENTS),
    "lz": ("TIMESTAMP_LTZ(3)", [_millis(each) + "Z" for each in _MOMENTS]),
    "tm": ("TIME(0)", ["00:00:00", "23:59:59", "10:20:30", "12:00:00"]),
    "bl": ("BYTES", ["", "aGk=", "AAECAwQ=", "w6k=", "/+8="]),
    "arr": ("ARRAY<STRING>", [[], ["x"], ["x", None, "z"], ["b", "a", "b"], ["z", "k", "x", "a"]]),
    "ars": ("ARRAY<STRING>", [[], ["x", "z"], [None], ["b", None, "c", "b"]]),
    "ia": ("ARRAY<INT>", [[], [1], [3, None, 1, 3], [2, 1], [None, None], [-1, 5, 2147483647]]),
    "ib": ("ARRAY<INT>", [[], [3], [None, 1], [2, 2]]),
    "mp": ("MAP<STRING, INT>", [{}, {"k": 3}, {"k": None, "x": 1}, {"x": 7}]),
    "mq": ("MAP<STRING, INT>", [{}, {"x": 9}, {"y": 2, "k": 4}]),
    "r": (
        "ROW<a INT, b ROW<c STRING>>",
        [{"a": 1, "b": {"c": "z"}}, {"a": None, "b": None}, {"a": 2, "b": {"c": None}}],
    ),
    "rs": ("ARRAY<ROW<a INT, b ROW<c STRING>>>", [[], [{"a": 1, "b": {"c": "z"}}], [None, {"a": 2, "b": None}]]),
    "ms": ("BIGINT", _FAR_MILLIS),
    "fa": ("TIMESTAMP(3)", _FAR_MOMENTS),
}
COLUMNS = ", ".join(f"{name} {text}" for name, (text, _) in VALUES.items())


def rows() -> list[dict[str, Any]]:
    """The rows: every value of each column, each column in an order of its own."""
    chance = random.Random(7)
    columns = {}
    for name, (_, values) in VALUES.items():
        chosen = [*values, None]
        assert len(chosen) <= ROWS, name
        chosen += chance.choices(chosen, k=ROWS - len(chosen))
        chance.shuffle(chosen)
        columns[name] = chosen
    return [{name: values[row] for name, values in columns.items()} for row in range(ROWS)]


NUMBERS = ("t", "s", "i", "b", "f", "d", "p", "q", "w", "n")
_FEW_NUMBERS = ("t", "i", "b", "f", "d", "p", "w")


def _each(template: str, *choices: Iterable[object]) -> Iterator[str]:
    for chosen in product(*choices):
        yield template.format(*chosen)


def expressions() -> list[str]:
    """Flink SQL of every function and operator, each text once."""
    parts = (
        *(comparisons, logic, arithmetic, reals, strings, regexes, digests, json, times, zoned, casts, nested, types),
        *(arguments, far_moments, overflows, patterns_and_pairs, maps, mixed_kinds, intervals),
    )
    return list(dict.fromkeys(sql for part in parts for sql in part()))


#: A zone whose clocks change in rows of the grid.
ZONE = "America/New_York"


def local_expressions() -> list[str]:
    """Those of :func:`expressions` whose values may depend on the session's zone."""
    return [each for each in expressions() if re.search(r"\blz\b|LTZ|UNIXTIME|UNIX_TIMESTAMP|CONVERT_TZ", each)]


def comparisons() -> Iterator[str]:
    """Comparisons and membership."""
    yield from _each("{} {} {}", _FEW_NUMBERS, ("=", "<"), _FEW_NUMBERS)
    pairs = (
        "x {} y",
        "v {} x",
        "bo {} co",
        "dt {} du",
        "ts {} us",
        "lz {} lz",
        "tm {} tm",
        "bl {} bl",
        "i {} j",
        "d {} e",
        "p {} q",
    )
    for pair in pairs:
        yield from (
            pair.format(sign) for sign in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
        )
    yield from ("ts = dt", "ts > dt", "arr = ars", "ia <> ib", "r = r", "mp = mq", "x = 12", "i = '7'", "lz = ts")
    yield from _each("{0} IN (0, 1, 7)", NUMBERS)
    yield from _each("{0} NOT IN (NULL, 1)", ("i", "d", "p"))
    yield from _each("{0} BETWEEN {1} AND 100", NUMBERS, (-1, "NULL"))
    yield from (
        "x IN ('a', 'abc', NULL)",
        "x NOT IN ('a', '12')",
        "x BETWEEN 'A' AND 'b'",
        "i IN (j, 7)",
        "d IN (e, 1)",
    )
    yield from _each("{0} {1} {2}", NUMBERS, ("<", ">="), ("'7'", "CAST(j AS STRING)"))
    yield from ("'7' > j", "p < '2.504'", "bo > 'false'", "j BETWEEN '1' AND 5", "CAST(j AS STRING) BETWEEN 0 AND 2.5")
    yield from ("i IN ('1', '7')", "p NOT IN ('1', '2.504')", "nu IN (1, 12)", "CAST(j AS STRING) NOT IN (1, 2)")
    yield from ("i BETWEEN SYMMETRIC 7 AND j", "i NOT BETWEEN SYMMETRIC j AND 2", "x BETWEEN ASYMMETRIC 'a' AND 'b'")
    yield from (
        "i BETWEEN SYMMETRIC NULL AND j",
        "i NOT BETWEEN 1 AND j",
        "12 BETWEEN j AND NULL",
        "dt IN (DATE '2026-01-31')",
    )
    yield from ("(i, x) = (j, y)", "(i, j) IN ((1, 2), (7, 0))", "ts >= '2026-01-31 00:00:00'", "dt = '2026-01-31'")
    for pattern in (
        "%",
        "_",
        "",
        "a%",
        "%a",
        "%a%",
        "a_c",
        "%o W%",
        "C:\\%",
        "x!%y!_z",
        "日_語",
        "__",
        "%.%",
        "(%",
        "1.5",
    ):
        yield from (f"x LIKE '{pattern}'", f"x NOT LIKE '{pattern}'", f"x LIKE '{pattern}' ESCAPE '!'")
    yield from (
        "x LIKE y",
        "x LIKE y ESCAPE '_'",
        "x LIKE NULL",
        "v LIKE 'a%'",
        "x LIKE '%' || v",
        "x LIKE '!a' ESCAPE '!'",
    )
    for pattern in (
        "a%",
        "(a|b)%",
        "[0-9]+",
        "_",
        "%[a-c]",
        "(1|2)*",
        "a|b",
        "%",
        "[^a]%",
        "x!%y!_z",
        "a{{1,2}}%",
        "\\d",
    ):
        yield f"x SIMILAR TO '{pattern}'"
        yield f"x NOT SIMILAR TO '{pattern}'"
        yield f"x SIMILAR TO '{pattern}' ESCAPE '!'"
    yield from ("x SIMILAR TO y", "x SIMILAR TO NULL")


def logic() -> Iterator[str]:
    """Three-valued logic and conditions."""
    yield from ("bo AND co", "bo OR co", "NOT bo", "bo = co OR i > 3 AND d < 2", "bo AND NULL", "bo OR NULL")
    yield from _each("bo IS {}{}", ("", "NOT "), ("TRUE", "FALSE", "UNKNOWN", "NULL"))
    yield from ("i IS NULL", "arr IS NOT NULL", "(i > 1) IS UNKNOWN", "bo <> co")
    yield from ("CASE WHEN i > 1 THEN x WHEN bo THEN y ELSE 'none' END", "CASE i WHEN 7 THEN 1 WHEN 1 THEN b END")
    yield from ("CASE WHEN bo THEN i ELSE d END", "CASE WHEN bo THEN arr END", "CASE WHEN bo THEN ts ELSE us END")
    yield from ("CASE i WHEN 1, 2 THEN 'few' WHEN 7 THEN 'seven' ELSE 'other' END", "CASE WHEN bo THEN p ELSE i END")
    yield from (
        "CASE WHEN bo THEN NULL ELSE v END",
        "CASE x WHEN y THEN 1 ELSE 0 END",
        "CASE WHEN NULL THEN 1 ELSE 2 END",
    )
    yield from (
        "COALESCE(i, j, 0)",
        "COALESCE(x, y)",
        "COALESCE(i, b)",
        "COALESCE(NULL, x)",
        "COALESCE(p, q)",
        "COALESCE(r, r)",
    )
    yield from ("NULLIF(i, j)", "NULLIF(d, e)", "NULLIF(x, 'a')", "NULLIF(i, b)", "NULLIF(dt, du)", "NULLIF(x, NULL)")
    yield from ("IF(bo, p, q)", "IF(i > j, 'more', 'less')", "IF(bo, i, d)", "IF(bo, NULL, x)", "IF(NULL, 1, 2)")
    yield from ("IFNULL(dt, du)", "IFNULL(i, 5)", "IFNULL(x, y)", "IFNULL(i, b)")
    for name in ("GREATEST", "LEAST"):
        yield from (
            f"{name}({args})"
            for args in (
                "i, j",
                "i, b, t",
                "x, y",
                "d, e",
                "p, q",
                "i, d",
                "dt, du",
                "bo, co",
                "ts, us",
                "x",
                "f, 0",
                "i, NULL",
            )
        )
    yield from _each("{}({})", ("IS_ALPHA", "IS_DIGIT", "IS_DECIMAL"), ("x", "nu", "v", "i", "d"))


def arithmetic() -> Iterator[str]:
    """Operators of numbers, and functions that keep their types."""
    yield from _each("{} {} {}", _FEW_NUMBERS, ("+", "-", "*", "/", "%"), _FEW_NUMBERS)
    yield from _each("MOD({}, {})", _FEW_NUMBERS, ("t", "j", "b", "q", "7", "-3", "2.5"))
    yield from _each("{} {} 3", ("q", "n", "s"), "+-*/%")
    yield from _each("7 {} {}", "+-*/", ("j", "d", "q"))
    yield from _each("{}{}", "+-", NUMBERS)
    yield from _each("{}({})", ("ABS", "CEIL", "CEILING", "FLOOR", "SIGN", "ROUND", "TRUNCATE"), NUMBERS)
    yield from _each("ROUND({}, {})", ("i", "b", "f", "k", "p", "q", "w", "n"), (-3, 0, 1, 2, "j"))
    yield from _each("TRUNCATE({}, {})", ("i", "b", "f", "k", "p", "q", "w", "n"), (-3, 0, 1, 2, "j"))
    yield from (
        "ABS(NULL)",
        "ROUND(NULL, 1)",
        "ROUND(i, NULL)",
        "ROUND(2.345, 2)",
        "TRUNCATE(2.345, 2)",
        "b * 2 + 1",
        "1 - p",
    )


_OF_REALS = ("SIN", "COS", "TAN", "COT", "SINH", "COSH", "TANH", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS")


def reals() -> Iterator[str]:
    """Powers, logarithms, trigonometric functions and texts of numbers."""
    yield from _each("{}({})", (*_OF_REALS, "SQRT", "EXP", "LN", "LOG10", "LOG2", "LOG"), ("d", "f", "k", "p"))
    yield from _each("{}({}, {})", ("POWER", "ATAN2", "LOG"), ("k", "d", "j", "p"), ("k", "j", "e", "2"))
    yield from ("PI()", "E()", "PI", "E() * d", "POWER(2, 10)", "SQRT(NULL)", "LN(NULL)", "POWER(k, NULL)")
    yield from _each("BIN({})", "tsib")
    yield from _each("HEX({})", ("t", "s", "i", "b", "x", "v"))
    yield from _each("CHR({})", ("i", "j", "b", "65", "t"))
    yield from ("UNHEX(hx)", "UNHEX(HEX(x))", "BIN(NULL)", "HEX(NULL)")


def strings() -> Iterator[str]:
    """Functions of text."""
    yield from ("UPPER(v)", "SUBSTRING(v, 2)", "LPAD(v, 3, 'ab')", "SPLIT(v, ',')", "REVERSE(v)", "INSTR(v, 'l')")
    for name in ("x",):
        yield from _each(
            "{}({})",
            (
                "UPPER",
                "LOWER",
                "INITCAP",
                "REVERSE",
                "CHAR_LENGTH",
                "CHARACTER_LENGTH",
                "ASCII",
                "TRIM",
                "LTRIM",
                "RTRIM",
                "BTRIM",
                "TO_BASE64",
            ),
            name,
        )
        yield from _each(
            "{}({}, {})", ("SUBSTRING", "SUBSTR"), name, (-9, -2, 0, 1, 2, 40, 2147483647, -2147483648, "j")
        )
        yield from _each("SUBSTRING({}, {}, {})", name, (-5, -1, 0, 1, 3, 2147483647), (-1, 0, 1, 2, 99, 2147483647))
        yield from _each("{}({}, {})", ("LEFT", "RIGHT"), name, (-1, 0, 1, 3, 99, "j"))
        yield from _each("{}({}, {}, {})", ("LPAD", "RPAD"), name, (-1, 0, 3, 12), ("'*'", "''", "'éb'", "y"))
        yield from _each(
            "TRIM({} {} FROM {})", ("BOTH", "LEADING", "TRAILING"), ("'a'", "'H d'", "'日😀'", "''", "y"), name
        )
        yield from _each("{}({}, {})", ("BTRIM", "LTRIM", "RTRIM"), name, ("'a'", "'H d'", "''", "'lo Wd'", "y"))
        yield from _each("TRIM({} FROM {})", ("BOTH", "LEADING", "TRAILING"), name)
        yield from _each("REPEAT({}, {})", name, (-1, 0, 1, 3, "j"))
        yield from _each("REPLACE({}, {}, {})", name, ("'a'", "''", "'l'", "y"), ("'$1\\'", "''", "y"))
        yield from _each("POSITION({} IN {})", ("'l'", "''", "'語'", "'World'", "y", "NULL"), name)
        yield from _each(
            "SPLIT_INDEX({}, {}, {})", name, ("','", "' '", "'l'", "''", "'.'", "'b,'", "y"), (-1, 0, 1, 5, "j")
        )
        yield from _each("SPLIT({}, {})", name, ("','", "' '", "'l'", "''", "'.'", "'b,'", "y"))
        yield from _each(
            "{}({}, {})", ("STARTSWITH", "ENDSWITH", "INSTR"), name, ("'a'", "''", "'c'", "'語'", "y", "NULL")
        )
        yield from _each(
            "LOCATE({}, {}{})", ("'l'", "''", "'語'", "y"), name, ("", ", 3", ", 0", ", -1", ", j", ", 99")
        )
        yield from _each("INSTR({}, 'l', {})", name, (1, 3, -1, -3, 0, "j"))
        yield from _each("INSTR({}, 'l', {}, {})", name, (1, -1, 3), (1, 2))
        yield from _each(
            "OVERLAY({} PLACING '##' FROM {}{})", name, (-2, 0, 1, 3, 99, "j"), ("", " FOR 0", " FOR 1", " FOR 99")
        )
        yield from _each(
            "TRANSLATE({}, {}, {})", name, ("'abc'", "'lo'", "''", "'日'", "'aa'"), ("'xy'", "''", "'😀zw'", "'xyz'")
        )
        yield from _each("URL_ENCODE({})", name)
    yield from (
        "x || y",
        "x || '-' || v",
        "CONCAT(x, NULL)",
        "CONCAT(x)",
        "CONCAT('a', 'b')",
        "CONCAT_WS(',', x, y)",
        "CONCAT(x, y, v)",
    )
    yield from (
        "CONCAT_WS(x, 'a', y, NULL)",
        "CONCAT_WS(',', 'a')",
        "CONCAT_WS(x)",
        "CONCAT_WS(NULL, 'a')",
        "CONCAT(x, i, d)",
        "x || i",
    )
    yield from (
        "SUBSTRING(x, NULL)",
        "REPLACE(x, 'a', NULL)",
        "LEFT(NULL, 2)",
        "SUBSTRING(x FROM 2)",
        "SUBSTRING(x FROM 2 FOR 3)",
    )
    yield from (
        "OVERLAY(x PLACING y FROM 2)",
        "OVERLAY(x PLACING NULL FROM 2)",
        "TRANSLATE(x, y, v)",
        "TRANSLATE(x, 'ab', NULL)",
    )
    yield from (
        "ELT(j, x, y)",
        "ELT(2, x, y, v)",
        "ELT(1, x, NULL)",
        "ELT(0, x)",
        "ELT(5, x, y)",
        "ELT(j, 'a', 'b', 'c')",
    )
    yield from (
        "PRINTF('%s-%d', x, i)",
        "PRINTF('%05d|%x', i, i)",
        "PRINTF('%.2f %e', d, d)",
        "PRINTF('%s %s', x)",
        "PRINTF(x, i)",
    )
    yield from (
        "PRINTF('%-6s|%6s|%S', v, v, v)",
        "PRINTF('%b %c %%%n', bo, 'a')",
        "PRINTF('%,d %+d %(d', i, j, j)",
        "PRINTF('%2$s %1$s', x, y)",
    )
    yield from (
        "PRINTF('none')",
        "PRINTF(NULL, 1)",
        "PRINTF('%s', NULL)",
        "PRINTF('%o %X', b, s)",
        "PRINTF('%d', x)",
        "PRINTF('%q', x)",
    )
    yield from (
        "FROM_BASE64(b64)",
        "FROM_BASE64(TO_BASE64(x))",
        "FROM_BASE64(x)",
        "TO_BASE64(bl)",
        "URL_DECODE(ur)",
        "URL_ENCODE(ur)",
        "URL_DECODE(x)",
    )
    yield from _each("ENCODE(x, '{}')", ("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "US-ASCII", "ISO-8859-1", "utf8"))
    yield from _each("DECODE(bl, '{}')", ("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "US-ASCII", "ISO-8859-1"))
    parts = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "AUTHORITY", "FILE", "USERINFO", "PORT", "host")
    yield from _each("PARSE_URL(ur, '{}')", parts)
    yield from _each("PARSE_URL(ur, {}, {})", ("'QUERY'", "'HOST'"), ("'k1'", "'x'", "'a'", "''", "'k.'"))
    yield from (
        "PARSE_URL(ur, x)",
        "STR_TO_MAP(x)",
        "STR_TO_MAP(x, ',', '=')",
        "STR_TO_MAP(ur, '&', '=')",
        "STR_TO_MAP(x, '[,]', '=')",
    )
    yield from (
        "STR_TO_MAP('a=1,b,c=2=3,a=9')",
        "STR_TO_MAP('a:1;b:2', ';', ':')",
        "STR_TO_MAP(NULL)",
        "STR_TO_MAP('a.b', '.', 'x')",
    )


REGEXES = (
    *("l+", "^H", "[A-Z]", "(\\w)(\\d)?", "a|b", "\\s", "[^ ]+", ".", "(.)(.)", "[0-9]{{2,}}", "e.*o", "(?:l|o)+?", ""),
    *(
        "\\bW",
        "(?i)hello",
        "(?=W)",
        "(a)(?<n>b)?",
        "([a-z]+)(\\d+)",
        "\\p{{L}}+",
        "[a-c&&[b]]",
        "x*",
        "(",
        "[",
        "a++",
        "$",
    ),
)


def regexes() -> Iterator[str]:
    """Regular expressions of Java."""
    for template in REGEXES:
        regex = template.format()
        yield from (
            f"REGEXP(x, '{regex}')",
            f"REGEXP_REPLACE(x, '{regex}', '<>')",
            f"REGEXP_REPLACE(x, '{regex}', '[$0]')",
        )
        yield from (f"REGEXP_EXTRACT(x, '{regex}'{group})" for group in ("", ", 1", ", 2"))
        yield from (f"REGEXP_EXTRACT_ALL(x, '{regex}'{group})" for group in ("", ", 0"))
        yield from (f"{name}(x, '{regex}')" for name in ("REGEXP_COUNT", "REGEXP_INSTR", "REGEXP_SUBSTR"))
    yield from _each("{}(x, y)", ("REGEXP", "REGEXP_EXTRACT", "REGEXP_COUNT", "REGEXP_INSTR", "REGEXP_SUBSTR"))
    yield from _each("{}(x, NULL)", ("REGEXP", "REGEXP_EXTRACT", "REGEXP_COUNT", "REGEXP_INSTR", "REGEXP_SUBSTR"))
    yield from (
        "REGEXP_EXTRACT(x, '(l)(o)', j)",
        "REGEXP_REPLACE(x, y, 'z')",
        "REGEXP_REPLACE(x, '(\\w)(\\w)', '$2$1')",
        "REGEXP_REPLACE(x, 'a', y)",
    )
    yield from (
        "REGEXP_REPLACE(x, NULL, 'z')",
        "REGEXP_REPLACE(x, 'l', '\\$')",
        "REGEXP_REPLACE(x, 'l', '$9')",
        "REGEXP(mo, '^[0-9]{4}-')",
    )


#: Patterns that Java refuses, and those of which Python's expressions, or RE2's, have no counterpart.
UNUSUAL_REGEXES = (
    *(
        "(",
        ")",
        "[",
        "*a",
        "+",
        "a{{2,1}}",
        "a{{x",
        "\\",
        "\\k<x>",
        "(?z)a",
        "(?<1n>a)",
        "[b-a]",
        "a**",
        "(?<n>l)(?<n>o)",
    ),
    *("\\p{{Foo}}", "\\x{{110000}}", "(?<=a+)b", "\\q", "[[:alpha:]]", "a{{99999999999}}", "(?m)^[a-z]", "(?s)a.b"),
    *(
        "(?m)o$",
        "(?s).+",
        "(?d)o$",
        "(?i)É",
        "(?iu)É",
        "(?U)\\w+",
        "l++o",
        "(?>l+)o",
        "(?<=l{{1,2}})o",
        "(?<!l)o",
        "o(?!r)",
    ),
    *(
        "\\p{{Lu}}",
        "\\p{{L}}+",
        "\\p{{IsLatin}}+",
        "\\p{{IsAlphabetic}}+",
        "\\P{{L}}+",
        "\\p{{javaLowerCase}}",
        "\\p{{Alpha}}+",
    ),
    *(
        "[\\p{{L}}&&[^a-m]]+",
        "[a-z&&[^l]]+",
        "\\Gl",
        "\\Q+5\\E",
        "\\h",
        "\\R",
        "\\X",
        "(l)\\1",
        "(?<n>l)\\k<n>",
        "\\bW",
        "o\\b",
    ),
    *(
        "[^\\p{{Punct}}]+",
        "\\012",
        "\\u0041",
        "\\cA",
        "\\e",
        "\\N{{LATIN SMALL LETTER A}}",
        "a|",
        "|a",
        "()",
        "(?:)",
        "(a)|(l)",
    ),
    *(
        "\\p{{Sc}}",
        "\\p{{So}}|\\p{{Sm}}",
        "(?x) l  l # two",
        "(?-i)L",
        "(?i:L)o",
        "(?i)l(?-i)O",
        "\\w{{2,3}}?",
        "^$",
        "\\A\\s",
        "o\\z",
    ),
)
_CHOSEN_PATTERN = "CASE WHEN j > 1 THEN 'yyyy-MM-dd' WHEN j = 0 THEN 'dd.MM.yyyy HH:mm' ELSE 'yyyyMMdd' END"
_CHOSEN_ZONE = "CASE WHEN j > 1 THEN 'Europe/Berlin' WHEN j = 0 THEN 'Asia/Tokyo' ELSE 'UTC' END"


def arguments() -> Iterator[str]:
    """Arguments that are columns where constants are usual, and those that Java refuses."""
    for template in UNUSUAL_REGEXES:
        regex = template.format()
        yield from (f"REGEXP(x, '{regex}')", f"REGEXP_REPLACE(x, '{regex}', '<>')", f"REGEXP_EXTRACT(x, '{regex}')")
        yield from (f"REGEXP_EXTRACT(x, '{regex}', 1)", f"REGEXP_COUNT(x, '{regex}')")
    yield from _each("REGEXP_EXTRACT(x, '(l)(o)', {})", (-1, 3, 2147483647, "NULL", "i"))
    yield from _each("REGEXP_EXTRACT_ALL(x, '(l)(o)', {})", (-1, 3, "j", "NULL"))
    yield from _each("{}(x, CASE WHEN bo THEN '(' ELSE 'l' END)", ("REGEXP", "REGEXP_EXTRACT", "REGEXP_COUNT"))
    yield "REGEXP_REPLACE(x, CASE WHEN bo THEN '(' ELSE 'l' END, '<>')"
    yield from _each("DATE_FORMAT({}, {})", ("ts", "us", "lz", "mo"), (_CHOSEN_PATTERN,))
    yield from _each(
        "{}(mo, {})", ("TO_TIMESTAMP", "TO_DATE", "UNIX_TIMESTAMP", "TO_TIMESTAMP_LTZ"), (_CHOSEN_PATTERN,)
    )
    yield f"FROM_UNIXTIME(j, {_CHOSEN_PATTERN})"
    yield from _each(
        "TO_TIMESTAMP_LTZ(mo, 'yyyy-MM-dd HH:mm:ss', {})", (_CHOSEN_ZONE, "'nope'", "'+25:00'", "''", "NULL")
    )
    yield f"TO_TIMESTAMP_LTZ(mo, {_CHOSEN_PATTERN}, {_CHOSEN_ZONE})"
    yield from _each("CONVERT_TZ(mo, {}, {})", (_CHOSEN_ZONE, "''", "'+25:00'", "'GMT+5'"), (_CHOSEN_ZONE, "'x'"))
    for pattern in (
        "",
        "'' ''",
        "bbb",
        "{{",
        "yyyy-''",
        "yyyyyyyyyyyyyyyyyyyyyyy",
        "[yyyy]",
        "#",
        "ffffff",
        "XXX",
        "VV",
        "z",
    ):
        shown = pattern.format()
        yield from (f"DATE_FORMAT(ts, '{shown}')", f"DATE_FORMAT(mo, '{shown}')", f"FROM_UNIXTIME(j, '{shown}')")
        yield from (f"{name}(mo, '{shown}')" for name in ("TO_TIMESTAMP", "TO_DATE", "UNIX_TIMESTAMP"))
    yield from _each(
        "ROUND({}, {})", ("d", "f", "p", "w", "i", "b"), (-2147483648, -400, -40, 40, 400, 2147483647, "NULL")
    )
    yield from _each("TRUNCATE({}, {})", ("d", "p", "w", "i"), (-400, -40, 40, 400, "NULL"))
    yield from _each("{}({}, i)", ("ROUND", "TRUNCATE"), ("p", "b"))
    yield from _each("{}(x, {})", ("LEFT", "RIGHT"), (-2147483648, 2147483647, "NULL"))
    yield from _each("SUBSTRING(x, {}, {})", (-2147483648, "NULL"), (-2147483648, 2147483647, "NULL"))
    yield from _each("{}(x, {}, '*')", ("LPAD", "RPAD"), (-2147483648, "NULL"))
    yield from _each("LOCATE('l', x, {})", (-2147483648, 2147483647, "NULL", "i"))
    yield from _each("REPEAT(x, {})", (-2147483648, "NULL"))
    yield from _each("{}[{}]", ("arr", "ARRAY[i, j]"), (-1, 0, 2147483647, "i", "NULL"))
    yield from _each("TIMESTAMPADD({}, {}, ts)", ("YEAR", "DAY", "SECOND"), (2147483647, -2147483648, "NULL"))
    yield from _each("TIMESTAMPADD({}, i, dt)", ("YEAR", "DAY"))
    yield from _each("FROM_UNIXTIME({})", (9223372036854775807, -9223372036854775807, "NULL"))
    yield from _each("{}(x, {})", ("ENCODE", "DECODE"), ("'nope'", "''", "y", "NULL"))
    yield from _each("SPLIT_INDEX(x, 'l', {})", (-1, 2147483647, "i", "NULL"))
    yield from _each("SPLIT_INDEX(x, {}, 0)", (-1, 0, 108, 2147483647))
    yield from _each(
        "{}", ("POWER(0, -1)", "POWER(-8, 1e0 / 3)", "LOG(-1, 2)", "LOG(1, 2)", "SQRT(-1)", "ASIN(2)", "ATAN2(0, 0)")
    )
    yield from _each(
        "{}",
        ("RAND(7) >= 0", "RAND(j) >= 0", "RAND(j)", "RAND_INTEGER(j, 10)", "RAND_INTEGER(j, i)", "RAND_INTEGER(3, 0)"),
    )


def digests() -> Iterator[str]:
    """Digests."""
    yield from _each("{}({})", ("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"), ("x", "v"))
    yield from _each("SHA2(x, {})", (224, 256, 384, 512, "NULL", 1))
    yield from _each("{}({})", ("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"), ("bl",))
    yield from ("MD5(NULL)", "SHA2(NULL, 256)", "SHA2(x, j)", "FROM_BASE64(CAST(TO_BASE64(x) AS BYTES))")


#: Paths that only Flink follows.
REFUSED_PATHS = ("$.c.length()", "$[?(@.a==1)]")
PATHS = (
    *REFUSED_PATHS,
    *(
        "$",
        "$.a",
        "$.b",
        "$.c",
        "$.c[0]",
        "$.c[1].y",
        "$.c[9]",
        "$.d.f",
        "$.a.b[0].c",
        "$.a.b[*].c",
        "$[0]",
        "$[*].a",
        "$.*",
    ),
    *(
        "$[''a'']",
        "$.a b",
        "$[''a b'']",
        '$["a b"]',
        "lax $.a",
        "strict $.a",
        "strict $.zz",
        "$..c",
        "$.c[-1]",
        "$.c[0,1]",
    ),
    *("$.c[0:2]", "$.", "a", "$.b[0][0]", "lax $.a.x.y", "strict $.a.x.y", ""),
)


def json() -> Iterator[str]:
    """Functions of JSON."""
    for path in PATHS:
        yield from (f"JSON_VALUE(js, '{path}')", f"JSON_QUERY(js, '{path}')", f"JSON_EXISTS(js, '{path}')")
    for path in ("$.a", "lax $.c", "strict $.zz"):
        yield from _each("JSON_VALUE(js, '{}' RETURNING {})", (path,), ("STRING", "BOOLEAN", "INTEGER", "DOUBLE"))
        yield from _each(
            "JSON_VALUE(js, '{}' {})",
            (path,),
            (
                "NULL ON EMPTY",
                "DEFAULT 'none' ON EMPTY",
                "DEFAULT 'bad' ON ERROR",
                "NULL ON EMPTY DEFAULT 'bad' ON ERROR",
                "DEFAULT 'none' ON EMPTY DEFAULT 'bad' ON ERROR",
                "ERROR ON EMPTY",
                "ERROR ON ERROR",
                "ERROR ON EMPTY NULL ON ERROR",
            ),
        )
        yield f"JSON_VALUE(js, '{path}' RETURNING INTEGER DEFAULT 7 ON EMPTY DEFAULT -1 ON ERROR)"
        yield f"JSON_VALUE(js, '{path}' DEFAULT x ON EMPTY)"
        yield from _each(
            "JSON_QUERY(js, '{}' {})",
            (path,),
            (
                "WITHOUT WRAPPER",
                "WITHOUT ARRAY WRAPPER",
                "WITH WRAPPER",
                "WITH CONDITIONAL ARRAY WRAPPER",
                "WITH UNCONDITIONAL WRAPPER",
                "NULL ON EMPTY",
                "EMPTY ARRAY ON EMPTY",
                "EMPTY OBJECT ON EMPTY",
                "EMPTY ARRAY ON ERROR",
                "EMPTY OBJECT ON ERROR",
                "ERROR ON ERROR",
                "WITH WRAPPER EMPTY OBJECT ON EMPTY EMPTY ARRAY ON ERROR",
            ),
        )
        yield f"JSON_QUERY(js, '{path}' RETURNING ARRAY<STRING>)"
        yield f"JSON_QUERY(js, '{path}' RETURNING ARRAY<STRING> WITH WRAPPER)"
        yield from _each("JSON_EXISTS(js, '{}' {} ON ERROR)", (path,), ("TRUE", "FALSE", "UNKNOWN", "ERROR"))
    yield from _each("js IS {}JSON{}", ("", "NOT "), ("", " VALUE", " SCALAR", " ARRAY", " OBJECT"))
    yield from ("x IS JSON", "nu IS JSON SCALAR")
    yield from _each(
        "JSON_STRING({})",
        (*NUMBERS, "x", "bo", "dt", "ts", "us", "lz", "tm", "bl", "arr", "ia", "mp", "r", "rs", "NULL", "js"),
    )
    yield from _each("JSON_QUOTE({})", ("x", "js", "v"))
    yield from _each("JSON_UNQUOTE({})", ("x", "js", "JSON_QUOTE(x)"))
    yield from (
        "JSON_OBJECT()",
        "JSON_OBJECT('a' VALUE i)",
        "JSON_OBJECT(KEY 'a' VALUE x, KEY 'b' VALUE d)",
        "JSON_OBJECT('a': i, 'b': bo)",
    )
    yield from _each(
        "JSON_OBJECT('k' VALUE {})",
        (*NUMBERS, "x", "bo", "dt", "ts", "us", "lz", "tm", "bl", "arr", "ia", "mp", "r", "rs", "NULL", "js"),
    )
    yield from (
        "JSON_OBJECT('a' VALUE i NULL ON NULL)",
        "JSON_OBJECT('a' VALUE i ABSENT ON NULL)",
        "JSON_OBJECT('o' VALUE JSON_OBJECT('p' VALUE x))",
    )
    yield from (
        "JSON_OBJECT('a' VALUE i, 'a' VALUE j)",
        "JSON_OBJECT('b' VALUE 1, 'a' VALUE JSON_ARRAY(i, x))",
        "JSON_OBJECT('j' VALUE JSON('{{\"q\": 1}}'))".replace("{{", "{").replace("}}", "}"),
    )
    yield from (
        "JSON_ARRAY()",
        "JSON_ARRAY(i, x, d)",
        "JSON_ARRAY(i, x NULL ON NULL)",
        "JSON_ARRAY(i ABSENT ON NULL)",
        "JSON_ARRAY(JSON_ARRAY(1), arr)",
    )
    yield from (
        "JSON_ARRAY(JSON_OBJECT('a' VALUE 1), p, bo, ts)",
        "JSON_ARRAY(NULL, NULL NULL ON NULL)",
        "JSON_OBJECT('v' VALUE js ABSENT ON NULL)",
    )


UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
PATTERNS = (
    *(
        "yyyy-MM-dd HH:mm:ss",
        "yyyyMMdd",
        "dd.MM.yyyy",
        "yyyy-MM-dd''T''HH:mm:ss.SSS",
        "HH:mm",
        "yy",
        "SSSSSS",
        "yyyy-MM-dd",
    ),
    *(
        "EEE, d MMM yyyy",
        "h:mm a",
        "D",
        "yyyy-M-d H:m:s",
        "MMM dd, yyyy",
        "EEEE MMMM",
        "G",
        "Q",
        "w",
        "nope",
        "",
        "yyyyMMddHHmmss",
        "uuuu",
        "kk:K",
        "dd.MM.yyyy HH:mm",
    ),
)


def times() -> Iterator[str]:
    """Functions and arithmetic of dates, times and timestamps that do not depend on the session's zone."""
    moments = ("dt", "ts", "us", "tm")
    units = (
        *UNITS,
        "DOY",
        "DOW",
        "ISODOW",
        "ISOYEAR",
        "CENTURY",
        "DECADE",
        "MILLENNIUM",
        "EPOCH",
        "MILLISECOND",
        "MICROSECOND",
        "NANOSECOND",
    )
    yield from _each("EXTRACT({} FROM {})", units, moments)
    names = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK", "HOUR", "MINUTE", "SECOND")
    yield from _each("{}({})", names, moments)
    spans = (
        "'1' DAY",
        "'1 02:03:04.5' DAY TO SECOND",
        "'-90' MINUTE",
        "'1' MONTH",
        "'-13' MONTH",
        "'2-3' YEAR TO MONTH",
        "'0.001' SECOND",
    )
    yield from _each("{} {} INTERVAL {}", moments, "+-", spans)
    yield from (
        "INTERVAL '1' DAY + ts",
        "ts + j * INTERVAL '1' DAY",
        "ts + INTERVAL '1' DAY * 2",
        "ts - INTERVAL '1' DAY + INTERVAL '1' HOUR",
    )
    yield from _each("TIMESTAMPADD({}, {}, {})", UNITS, (40, "j"), ("dt", "us", "tm"))
    yield from _each("TIMESTAMPDIFF({}, {}, {})", UNITS, ("ts", "dt"), ("us", "du"))
    yield from _each("TIMESTAMPDIFF({}, ts, TIMESTAMP '2026-02-28 10:20:30')", UNITS)
    yield from _each("{}({} TO {})", ("FLOOR", "CEIL"), moments, UNITS)
    yield from _each("DATE_FORMAT({}, '{}')", ("us", "mo"), PATTERNS)
    yield from ("DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSS')", "DATE_FORMAT(dt, 'yyyy-MM-dd HH:mm')")
    yield from (
        "TO_TIMESTAMP(x)",
        "TO_DATE(x)",
        "TO_TIMESTAMP(mo)",
        "TO_DATE(mo)",
        "DATE_FORMAT(ts, x)",
        "DATE_FORMAT(ts, NULL)",
    )
    yield from _each("{}(mo, '{}')", ("TO_TIMESTAMP", "TO_DATE"), PATTERNS)
    yield from ("TO_TIMESTAMP('2026-01-31', x)", "us BETWEEN '2026-01-01' AND '2027-01-01'", "TO_TIMESTAMP(mo, NULL)")
    yield from (
        "(ts, us) OVERLAPS (us, ts)",
        "(ts, INTERVAL '1' DAY) OVERLAPS (us, INTERVAL '10' DAY)",
        "(dt, du) OVERLAPS (du, dt)",
        "(tm, INTERVAL '2' HOUR) OVERLAPS (TIME '11:00:00', TIME '12:00:00')",
    )
    by_row = "CASE bo WHEN TRUE THEN 'yyyy-MM-dd HH:mm:ss' WHEN FALSE THEN 'dd/MM/yy EEE' END"
    yield from (f"DATE_FORMAT(ts, {by_row})", f"DATE_FORMAT(mo, {by_row})", f"TO_TIMESTAMP(mo, {by_row})")
    yield from (f"FROM_UNIXTIME(j, {by_row})", f"TO_DATE(DATE_FORMAT(ts, {by_row}), {by_row})")
    yield from (
        "CONVERT_TZ(mo, 'UTC', 'America/New_York')",
        "CONVERT_TZ(mo, 'America/New_York', 'UTC')",
        "CONVERT_TZ(mo, 'PST', 'GMT+05:30')",
        "CONVERT_TZ(mo, 'nope', 'UTC')",
        "CONVERT_TZ(mo, NULL, 'UTC')",
        "CONVERT_TZ(mo, x, 'UTC')",
    )


def zoned() -> Iterator[str]:
    """What depends on the session's zone."""
    yield from _each("EXTRACT({} FROM lz)", (*UNITS, "DOY", "DOW", "EPOCH"))
    yield from _each("lz {} INTERVAL {}", "+-", ("'1' DAY", "'-90' MINUTE", "'1' MONTH"))
    yield from _each("TIMESTAMPADD({}, j, lz)", UNITS)
    yield from _each("TIMESTAMPDIFF({}, {}, {})", UNITS, ("lz",), ("lz", "ts"))
    yield from _each("{}(lz TO {})", ("FLOOR", "CEIL"), UNITS)
    yield from _each("DATE_FORMAT(lz, '{}')", PATTERNS)
    yield from _each("TO_TIMESTAMP_LTZ({}, {})", ("i", "b", "j", "d", "p"), (0, 3))
    yield from (
        "TO_TIMESTAMP_LTZ(mo)",
        "TO_TIMESTAMP_LTZ(i)",
        "TO_TIMESTAMP_LTZ(b, 6)",
        "TO_TIMESTAMP_LTZ(mo, 'yyyy-MM-dd HH:mm:ss')",
        "TO_TIMESTAMP_LTZ(mo, 'yyyyMMdd')",
        "TO_TIMESTAMP_LTZ(mo, 'yyyy-MM-dd HH:mm:ss', 'Europe/Berlin')",
        "TO_TIMESTAMP_LTZ(x)",
    )
    yield from _each("FROM_UNIXTIME({}{})", ("i", "j", "b"), ("", ", 'yyyy-MM'", ", 'EEE HH'", ", x"))
    yield from ("UNIX_TIMESTAMP(mo)", "UNIX_TIMESTAMP(x)")
    yield from _each("UNIX_TIMESTAMP(mo, '{}')", PATTERNS)
    yield from _each(
        "CAST({} AS {})",
        ("lz",),
        ("STRING", "DATE", "TIME(0)", "TIMESTAMP(3)", "TIMESTAMP(0)", "TIMESTAMP_LTZ(6)", "VARCHAR(12)"),
    )
    yield from _each("CAST({} AS TIMESTAMP_LTZ(3))", ("dt", "ts", "us", "tm"))
    yield from _each("TRY_CAST({} AS TIMESTAMP_LTZ(3))", ("mo", "x"))
    yield from (
        "lz > ts",
        "lz = dt",
        "YEAR(lz)",
        "HOUR(lz)",
        "DAYOFMONTH(lz)",
        "lz BETWEEN '2026-01-01' AND '2026-12-31'",
    )


_TARGETS = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 2)",
    "DECIMAL(20, 4)",
    "DECIMAL(38, 0)",
    "STRING",
    "VARCHAR(2)",
    "CHAR(4)",
    "BYTES",
    "BINARY(3)",
    "VARBINARY(2)",
    "DATE",
    "TIME(0)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
)


def casts() -> Iterator[str]:
    """TRY_CAST between all pairs of types. CAST fails where it gives NULL for a value."""
    yield from _each(
        "TRY_CAST({} AS {})", (*NUMBERS, "x", "nu", "mo", "v", "bo", "bl", "dt", "ts", "us", "tm"), _TARGETS
    )
    yield from _each("CAST({} AS {})", (*NUMBERS, "bo"), ("STRING", "DOUBLE", "VARCHAR(3)"))
    yield from _each("CAST({} AS {})", ("dt", "ts", "us", "tm", "bl"), ("STRING", "VARCHAR(12)", "CHAR(30)"))
    yield from _each("CAST({} AS STRING)", ("arr", "ia", "mp", "r", "rs"))
    yield from _each("TRY_CAST({} AS ARRAY<{}>)", ("arr", "ia"), ("STRING", "INT", "VARCHAR(1)", "BIGINT"))
    yield from _each(
        "{}(r AS ROW<k {}, l ROW<m {}>>)", ("CAST", "TRY_CAST"), ("BIGINT", "STRING", "TINYINT"), ("STRING",)
    )
    yield from (
        "TRY_CAST(mp AS MAP<STRING, BIGINT>)",
        "TRY_CAST(mp AS MAP<STRING, STRING>)",
        "CAST(NULL AS INT)",
        "CAST(CAST(b AS FLOAT) AS DOUBLE)",
    )
    yield from (
        "CAST(INTERVAL '1' DAY AS STRING)",
        "CAST(INTERVAL '14' MONTH AS STRING)",
        "CAST(DATE '2026-01-31' AS STRING)",
    )
    yield from (
        "TRY_CAST(x AS ROW<a INT>)",
        "TRY_CAST(x AS ARRAY<INT>)",
        "CAST(TIME '10:20:30.123' AS STRING)",
        "CAST(b AS TIMESTAMP(3))",
        "CAST(ts AS BIGINT)",
    )


def nested() -> Iterator[str]:
    """Arrays, maps and rows."""
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
        "rs[1].a",
        "rs[2].b.c",
        "ia[CAST(NULL AS INT)]",
    )
    yield from (
        "ARRAY[i, j, 7]",
        "ARRAY[x, NULL]",
        "ARRAY[x, y][j]",
        "ARRAY[i, b]",
        "ARRAY[1, 2.5]",
        "MAP['a', i, 'b', j]",
        "MAP[x, i]",
        "ROW(i, x)",
        "ROW(i, x, arr)",
        "(i, x)",
        "ROW(1)",
    )
    yield from _each("CARDINALITY({})", ("arr", "ia", "mp", "rs", "ARRAY[i]"))
    yield from ("ELEMENT(ARRAY[i])", "ELEMENT(CASE WHEN CARDINALITY(arr) < 2 THEN arr END)")
    for one, other, value in (("arr", "ars", "x"), ("ia", "ib", "j")):
        yield from _each(
            "{}({}, {})",
            ("ARRAY_APPEND", "ARRAY_PREPEND", "ARRAY_CONTAINS", "ARRAY_POSITION", "ARRAY_REMOVE"),
            (one,),
            (value, "NULL"),
        )
        yield from _each(
            "{}({}, {})", ("ARRAY_CONCAT", "ARRAY_UNION", "ARRAY_INTERSECT", "ARRAY_EXCEPT"), (one,), (other, one)
        )
        yield from _each(
            "{}({})",
            ("ARRAY_DISTINCT", "ARRAY_REVERSE", "ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT", "ARRAY_CONCAT"),
            (one,),
        )
        yield from _each("ARRAY_SORT({}, {})", (one,), ("TRUE", "FALSE", "FALSE, TRUE", "TRUE, FALSE", "bo"))
        yield from _each(
            "ARRAY_SLICE({}, {})",
            (one,),
            ("1", "2", "-2", "0", "j", "1, 2", "2, 2", "-3, -2", "2, 1", "0, 9", "1, j", "NULL"),
        )
        yield f"ARRAY_CONCAT({one}, {other}, {one})"
    yield from (
        "ARRAY_CONTAINS(arr, 'x')",
        "ARRAY_POSITION(ia, 3)",
        "ARRAY_REMOVE(arr, 'x')",
        "ARRAY_CONTAINS(ia, 2147483648)",
        "ARRAY_APPEND(ia, b)",
    )
    yield from _each("ARRAY_JOIN({}, {})", ("arr",), ("','", "''", "', ', '-'", "NULL", "x"))
    yield from (
        "MAP_KEYS(mp)",
        "MAP_VALUES(mp)",
        "MAP_ENTRIES(mp)",
        "MAP_UNION(mp, mq)",
        "MAP_UNION(mp)",
        "MAP_UNION(mp, mq, mp)",
        "MAP_FROM_ARRAYS(ARRAY[x, 'k'], ARRAY[i, j])",
    )
    yield from (
        "MAP_FROM_ARRAYS(arr, ia)",
        "MAP_KEYS(MAP['a', 1])",
        "(CASE WHEN bo THEN r END).a",
        "ARRAY_JOIN(ARRAY[x, y], '|')",
        "ARRAY_SORT(ARRAY[d, e])",
        "ARRAY_MAX(ARRAY[d, e])",
        "ARRAY_DISTINCT(ARRAY[d, e, d])",
    )
    yield from ("CAST(mp AS STRING)", "ARRAY[ROW(i, x)]", "ARRAY_REVERSE(rs)", "ARRAY_CONTAINS(rs, r)")


def types() -> Iterator[str]:
    """The names of types."""
    yield from _each(
        "TYPEOF({})",
        (*VALUES, "1", "'a'", "NULL", "1.5", "TRUE", "i + b", "p * q", "ROW(1, 'a')", "ARRAY[1]", "MAP['a', 1]"),
    )
    yield from (
        "TYPEOF(r, TRUE)",
        "TYPEOF(p / q)",
        "TYPEOF(SUBSTRING(x, 1))",
        "TYPEOF(CAST(x AS CHAR(3)))",
        "CURRENT_DATABASE()",
    )


def far_moments() -> Iterator[str]:
    """Dates and times of all years from 0 to 9999, and beyond."""
    yield from _each("TO_TIMESTAMP_LTZ({})", ("ms", "ms, 3", "ms / 1000, 0", "CAST(ms AS DOUBLE), 3", "ms * 1.0, 3"))
    targets = ("STRING", "DATE", "TIMESTAMP(3)", "TIME(0)", "VARCHAR(12)")
    yield from _each("CAST(TO_TIMESTAMP_LTZ(ms, 3) AS {})", targets)
    yield from _each("CAST(fa AS {})", ("STRING", "DATE", "TIME(0)", "TIMESTAMP(0)", "TIMESTAMP_LTZ(3)", "CHAR(30)"))
    yield from _each("EXTRACT({} FROM fa)", (*UNITS, "DOY", "EPOCH", "MILLISECOND", "CENTURY", "ISOYEAR"))
    yield from _each("{}(fa TO {})", ("FLOOR", "CEIL"), UNITS)
    yield from _each("TIMESTAMPADD({}, {}, fa)", UNITS, ("j", "-40"))
    yield from _each("TIMESTAMPDIFF({}, {})", UNITS, ("fa, ts", "ts, fa"))
    yield from _each("fa {} INTERVAL {}", "+-", ("'1' DAY", "'1' MONTH", "'1' YEAR", "'0.001' SECOND"))
    yield from _each("DATE_FORMAT(fa, '{}')", ("yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMdd", "yy", "uuuu", "d MMM yyyy"))
    yield from _each("FROM_UNIXTIME(ms / 1000{})", ("", ", 'yyyy-MM-dd'", ", 'd.M.yyyy'"))
    yield from _each("UNIX_TIMESTAMP(CAST(fa AS STRING){})", ("", ", 'yyyy-MM-dd HH:mm:ss.SSS'"))
    yield from (
        "CAST(CAST(fa AS STRING) AS TIMESTAMP(3))",
        "TO_TIMESTAMP(CAST(fa AS STRING), 'yyyy-MM-dd HH:mm:ss.SSS')",
        "TO_TIMESTAMP_LTZ(CAST(fa AS STRING), 'yyyy-MM-dd HH:mm:ss.SSS')",
        "CONVERT_TZ(DATE_FORMAT(fa, 'yyyy-MM-dd HH:mm:ss'), 'UTC', 'Asia/Tokyo')",
        "CONVERT_TZ('2026-10-25 02:30:00', 'Europe/Berlin', x)",
        "CONVERT_TZ('2026-03-29 02:30:00', 'Europe/Berlin', x)",
        "CONVERT_TZ('2100-06-30 12:00:00', 'Europe/Berlin', x)",
        "CONVERT_TZ('10000-06-30 12:00:00', 'Europe/Berlin', x)",
        "fa < TO_TIMESTAMP_LTZ(ms, 3)",
        "fa BETWEEN ts AND TIMESTAMP '9999-12-31 00:00:00'",
        "CAST(ts + INTERVAL '8000' YEAR(4) AS STRING)",
        "ts + INTERVAL '8000' YEAR(4)",
        "DATE_FORMAT(ts + INTERVAL '8000' YEAR(4), 'yyyy-MM-dd')",
        "EXTRACT(YEAR FROM ts + INTERVAL '8000' YEAR(4))",
    )


_WHOLE_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def overflows() -> Iterator[str]:
    """Results and casts that are too large for their type."""
    yield from _each("CAST({} AS {})", NUMBERS, _WHOLE_TYPES)
    yield from _each("CAST({} AS DECIMAL(5, 2))", ("t", "s", "i", "b", "p", "q", "w", "n"))
    yield from (
        "CAST(ia AS ARRAY<TINYINT>)",
        "CAST(r AS ROW<k TINYINT, l ROW<m STRING>>)",
        "CAST(MAP['a', b] AS MAP<STRING, INT>)",
        "TRY_CAST(MAP['a', b] AS MAP<STRING, INT>)",
        "CAST(w AS DECIMAL(38, 20))",
        "CAST(b + b AS INT)",
    )
    yield from _each("s {} s", "+-*")
    yield from _each("{0} {1} {0} {1} {0}", ("t", "i", "b", "p", "w"), "+-*")
    yield from _each("{} {} -1", ("t", "s", "i", "b"), "/%")
    yield from _each("ROUND({}, {})", ("t", "s", "i", "b"), (-1, -2, -3, -5, -10, -19))
    yield from ("w * 10", "w * w * w", "w / 0.0000000001", "w * b", "1 / w", "p * p * p * p * p", "w - w * 2")
    yield from ("d * 1e300", "f * f", "f * f * f * f", "POWER(b, 3)", "EXP(b)", "d / 0", "f / 0", "d - d * 2", "0 / d")
    yield from ("i + i > 0", "COALESCE(CAST(p AS DECIMAL(5, 2)), -1)", "CASE WHEN t * t > 0 THEN -i ELSE ABS(i) END")
    yield from ("(w * w) IS NULL", "IF(b + b < b, b * 3, b)", "GREATEST(i + i, i)", "MOD(w * w, 7)", "ABS(-t)")
    yield from _each("TIMESTAMPADD({}, i, {})", ("SECOND", "HOUR", "DAY", "MONTH", "YEAR"), ("ts", "dt", "tm"))
    yield from _each("ts + {} * INTERVAL '1' {}", ("i", "b"), ("SECOND", "DAY", "MONTH", "YEAR"))
    yield from _each("TIMESTAMPDIFF({}, us, TIMESTAMP '9999-12-31 00:00:00')", ("SECOND", "MINUTE", "HOUR", "DAY"))


def patterns_and_pairs() -> Iterator[str]:
    """Escapes that are no constants, bytes instead of text, and characters of two UTF-16 units that are cut."""
    mark = "SUBSTRING('a!b', 2, 1)"
    yield from _each("x {}{} {} ESCAPE {}", ("", "NOT "), ("LIKE", "SIMILAR TO"), ("'x!%y!_z'", "'a%'"), (mark,))
    yield from (f"x LIKE y ESCAPE {mark}", "x LIKE '%' ESCAPE CAST(NULL AS STRING)", "x LIKE y ESCAPE v")
    yield from ("ELT(1, bl, bl)", "ELT(j, bl, FROM_BASE64(b64))", "ELT(3, bl)", "ELT(2, bl, NULL)")
    yield from _each("TRY_CAST({} AS DECIMAL({}, 2))", ("nu", "'१२'", "'१२३४५६७'", "'𝟏𝟐'"), (18, 19))
    yield from _each("HEX({}(CONCAT('a', x), {}, '😀'))", ("LPAD", "RPAD"), (2, 3, 6, 7))
    yield from _each("HEX(OVERLAY(CONCAT('a😀', x) PLACING '#' FROM {}))", (1, 2, 3, "2 FOR 1", "3 FOR 1"))
    yield from ("MD5(LPAD('abc', 4, CONCAT('😀', v)))", "HEX(PRINTF('%.2s', CONCAT('a😀', x)))")
    yield from ("HEX(REPLACE(CONCAT('a😀', x), '', '-'))", "HEX(REGEXP_REPLACE(CONCAT('a😀', v), '', '-'))")
    yield from _each("{}(CONCAT('a😀b', x){})", ("SUBSTRING", "SUBSTR"), (", 2, 1", ", 3", ", -2"))
    yield from _each("{}(CONCAT('a😀b', x), 2)", ("LEFT", "RIGHT"))
    yield from ("REVERSE(CONCAT('a😀b', x))", "TRANSLATE(CONCAT('a😀b', x), '😀', 'é')", "CHAR_LENGTH(CONCAT('😀', x))")
    yield from _each("HEX({}('{{\"a\":\"x\\ud83dy\"}}', '$.a'))", ("JSON_VALUE", "JSON_QUERY"))
    yield from ("HEX(JSON_UNQUOTE('\"x\\ud83dy\"'))", "CAST(CONCAT('a😀b', x) AS VARCHAR(2))")


def maps() -> Iterator[str]:
    """Equality of maps."""
    yield from _each("mp {} {}", ("=", "<>", "IS DISTINCT FROM"), ("mq", "MAP['x', 7]", "MAP['x', CAST(7 AS BIGINT)]"))
    yield from _each("NULLIF(mp, {})", ("mq", "mp"))
    yield from _each("mp {} ({})", ("IN", "NOT IN"), ("mq, MAP['x', 7]", "MAP['x', 7]", "mq"))
    yield "CASE mp WHEN mq THEN 1 WHEN MAP['x', 7] THEN 2 END"
    yield from _each("MAP['a', 1, 'b', 2] = MAP[{}]", ("'b', 2, 'a', 1", "'a', 1", "'a', 2, 'b', 1", "'a', 1, 'c', 2"))
    yield from _each("MAP['a', CAST(NULL AS INT)] = MAP['{}', {}]", "ab", ("1", "CAST(NULL AS INT)"))
    yield from ("MAP['a', ARRAY[i]] = MAP['a', ARRAY[j]]", "MAP[ROW(1, x), 1] = MAP[ROW(1, y), 1]")
    yield from ("MAP[ARRAY[1], 1] = MAP[ARRAY[1], 1]", "MAP['a', d] = MAP['a', e]")
    yield from ("ARRAY[mp] = ARRAY[mq]", "ARRAY[mp, mq] = ARRAY[mq, mp]", "ROW(mp, 1) = ROW(mq, 1)")
    yield from ("ia = ARRAY[CAST(1 AS BIGINT)]", "MAP['x', 1, 'k', CAST(NULL AS INT)] = mp")


def mixed_kinds() -> Iterator[str]:
    """Arguments of different kinds."""
    yield from _each("COALESCE({})", ("tm, ts", "ts, tm", "tm, us", "tm, ts, us", "dt, ts", "ts, dt", "us, dt, ts"))
    yield from _each("COALESCE({})", ("p, f", "f, p", "f, p, d", "p, i, f", "i, f, p", "n, f", "lz, ts", "lz, tm"))
    yield from _each("IFNULL({})", ("tm, ts", "dt, ts"))
    yield from _each("{}({})", ("GREATEST", "LEAST"), ("tm, ts", "dt, ts"))
    texts = ("CAST(j AS CHAR(3))", "CAST(j AS VARCHAR(5))", "CAST(j AS STRING)", "v")
    yield from _each("{} {} ({})", texts, ("IN", "NOT IN"), ("j, 7", "1, 12", "j, 2.5"))
    yield from ("x IN (i, j)", "j IN (CAST(j AS STRING), '7')", "p IN (CAST(p AS STRING), '7')", "v IN (1.5, 12)")
    yield from ("bo IN ('true', 'no')", "bo IN (CAST(bo AS STRING), 'no')", "bo NOT IN ('true', 'f')", "bo IN ('abc')")
    yield from ("x IN (TRUE, FALSE)", "x IN (bo, FALSE)", "CAST(bo AS STRING) IN (bo)", "x NOT IN (TRUE)")
    yield from ("bo = 'true'", "bo = CAST(bo AS STRING)", "CAST(bo AS STRING) = bo", "CASE bo WHEN 'true' THEN 1 END")
    precision = "CASE WHEN bo THEN 3 WHEN co THEN 0 END"
    yield from _each("TO_TIMESTAMP_LTZ({}, {})", ("ms", "i", "d", "p"), (precision, "CAST(NULL AS INT)", "1 + 2", "j"))
    yield from ("NULLIF(CAST(dt AS STRING), dt)", "NULLIF(CAST(ts AS STRING), us)", "NULLIF('2026-01-31', dt)")
    yield from ("NULLIF(CAST(tm AS STRING), tm)", "NULLIF(dt, CAST(dt AS STRING))")


_SPANS = ("j * INTERVAL '30' HOUR", "j * INTERVAL '-1.517' SECOND", "INTERVAL '1' DAY")
_MONTHS = ("j * INTERVAL '5' MONTH", "INTERVAL '3' YEAR * j", "j * INTERVAL '1001' YEAR(4)")


def intervals() -> Iterator[str]:
    """Intervals as values of a query."""
    kinds = (_SPANS, _MONTHS)
    for same in kinds:
        yield from _each("CAST({} AS {})", same, ("STRING", "CHAR(3)", "VARCHAR(5)"))
        yield from _each("TYPEOF({})", same)
        yield from _each("CAST({} {} {} AS STRING)", same, "+-", same)
        yield from _each("CAST({}({}) AS STRING)", "+-", same)
        yield from _each("{} {} {}", same, ("=", "<", "IS DISTINCT FROM"), same)
        yield from _each("CAST({}({}, {}) AS STRING)", ("GREATEST", "LEAST", "COALESCE", "NULLIF"), same, same)
        yield from _each("CAST(CASE WHEN bo THEN {} WHEN co THEN {} END AS STRING)", same, same)
        yield from _each("{} IN ({}, {})", same[:1], same, same)
        yield from _each("CAST({}[{}] AS STRING)", (f"MAP['a', {each}]" for each in same), ("'a'", "'b'"))
        yield from _each("CAST(ARRAY[{}] AS STRING)", same)
        yield from _each("CAST(ROW({}, 1) AS STRING)", same)
        yield from _each("({}) IS NULL", same)
        yield from _each("{} {} ({} + {})", ("ts", "dt", "lz", "tm"), "+-", same[:2], same[:1])
    yield from _each("EXTRACT({} FROM {})", ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"), _SPANS)
    yield from _each("EXTRACT({} FROM {})", ("YEAR", "QUARTER", "MONTH", "CENTURY", "MILLENNIUM"), _MONTHS)
    yield from _each("{}({})", ("DAYOFMONTH", "HOUR", "MINUTE", "SECOND"), _SPANS)
    yield from _each("{}({})", ("YEAR", "QUARTER", "MONTH"), _MONTHS)
    yield from _each("CAST(CAST({} AS INTERVAL {}) AS STRING)", ("j", "t", "s"), ("MONTH", "YEAR", "DAY", "SECOND"))
    yield from (
        "CAST(CAST(INTERVAL '36' HOUR AS INTERVAL DAY) AS STRING)",
        "CAST(CAST(NULL AS INTERVAL DAY) AS STRING)",
    )
    yield from ("ts + CAST(j AS INTERVAL MONTH)", "INTERVAL '1' DAY + j * INTERVAL '1' DAY + ts")
    yield from ("ts + -INTERVAL '1' DAY", "CAST(INTERVAL '1.5005' SECOND AS STRING)", "dt + (j * INTERVAL '36' HOUR)")
    yield from ("j * INTERVAL '1' DAY BETWEEN INTERVAL '1' DAY AND INTERVAL '3' DAY", "j * INTERVAL '1' DAY = '1'")
    yield from _each("CAST({} AS STRING)", ("INTERVAL '5' DAY / 2", "INTERVAL '5' DAY * 1.5", "d * INTERVAL '1' DAY"))
    yield from _each("CAST({} AS STRING)", ("ABS(j * INTERVAL '1' DAY)", "p * INTERVAL '1' MONTH"))
    yield from (
        "COALESCE(INTERVAL '1' DAY, j)",
        "ARRAY_APPEND(ia, INTERVAL '1' MONTH)",
        "PRINTF('%s', INTERVAL '1' DAY)",
    )
