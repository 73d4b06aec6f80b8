"""Rewrites ``signatures.json``: which types of arguments Flink's functions take, and the types of their values.

    python tests/recorded/signatures.py ENVIRONMENT [PATTERN]

``ENVIRONMENT`` is the virtual environment that :mod:`flink` describes; its Python runs this script. Answers that are
there are kept, unless ``PATTERN``, a regular expression, finds their form: so recording can be stopped at any time and
go on later.

A form is an expression with places for arguments, such as ``UPPER({0})``. Its answer has the type of the value by the
types of the arguments, by their names in :data:`TYPES`; types that are not there are refused.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

#: A name of a type, and an expression of that type: a column of :data:`COLUMNS`, or a constant.
TYPES: Mapping[str, str] = {
    "BOOLEAN": "bo",
    "TINYINT": "ti",
    "INT": "i",
    "BIGINT": "l",
    "FLOAT": "f",
    "DOUBLE": "d",
    "DECIMAL": "de",
    "CHAR": "c",
    "STRING": "s",
    "BINARY": "bi",
    "BYTES": "bb",
    "DATE": "dt",
    "TIME": "tm",
    "TIMESTAMP": "ts",
    "TIMESTAMP_LTZ": "lz",
    "YEAR": "INTERVAL '1' YEAR",
    "DAY": "INTERVAL '1' DAY",
    "ARRAY<INT>": "ai",
    "ARRAY<STRING>": "st",
    "MAP": "mp",
    "ROW": "r",
}
COLUMNS = (
    "bo BOOLEAN, ti TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(10, 2), c CHAR(3), s STRING, bi BINARY(2), "
    "bb BYTES, dt DATE, tm TIME(0), ts TIMESTAMP(3), lz TIMESTAMP_LTZ(3), ai ARRAY<INT>, st ARRAY<STRING>, "
    "mp MAP<STRING, INT>, r ROW<a INT, b STRING>"
)
ONE = """
ABS ARRAY_DISTINCT ARRAY_MAX ARRAY_MIN ARRAY_REVERSE ARRAY_SORT ASCII ASIN ACOS ATAN BIN BTRIM CARDINALITY CEIL CEILING
CHARACTER_LENGTH CHAR_LENGTH CHR COALESCE CONCAT CONCAT_WS COS COSH COT DAYOFMONTH DAYOFWEEK DAYOFYEAR DEGREES ELEMENT
EXP FLOOR FROM_BASE64 FROM_UNIXTIME GREATEST HEX HOUR INITCAP IS_ALPHA IS_DECIMAL IS_DIGIT JSON_QUOTE JSON_STRING
JSON_UNQUOTE LEAST LN LOG LOG10 LOG2 LOWER LTRIM MAP_ENTRIES MAP_KEYS MAP_UNION MAP_VALUES MD5 MINUTE MONTH QUARTER
RADIANS RAND RAND_INTEGER REVERSE ROUND RTRIM SECOND SHA1 SHA224 SHA256 SHA384 SHA512 SIGN SIN SINH SQRT STR_TO_MAP
TAN TANH TO_BASE64 TO_DATE TO_TIMESTAMP TO_TIMESTAMP_LTZ TRUNCATE TYPEOF UNHEX UNIX_TIMESTAMP UPPER URL_DECODE
URL_ENCODE WEEK YEAR PRINTF ARRAY_CONCAT ARRAY_UNION
"""
TWO = """
ARRAY_APPEND ARRAY_CONCAT ARRAY_CONTAINS ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_JOIN ARRAY_POSITION ARRAY_PREPEND
ARRAY_REMOVE ARRAY_SLICE ARRAY_SORT ARRAY_UNION ATAN2 BTRIM COALESCE CONCAT CONCAT_WS DATE_FORMAT DECODE ELT ENCODE
ENDSWITH FROM_UNIXTIME GREATEST IFNULL INSTR LEAST LEFT LOCATE LOG LTRIM MAP_FROM_ARRAYS MAP_UNION MOD NULLIF PARSE_URL
POWER PRINTF RAND_INTEGER REGEXP REGEXP_COUNT REGEXP_EXTRACT REGEXP_EXTRACT_ALL REGEXP_INSTR REGEXP_SUBSTR REPEAT RIGHT
ROUND RTRIM SHA2 SPLIT STARTSWITH SUBSTR SUBSTRING TO_DATE TO_TIMESTAMP TO_TIMESTAMP_LTZ TRUNCATE UNIX_TIMESTAMP
"""
#: Forms of more arguments, with some that they take: one of them is replaced at a time.
MORE: Mapping[str, str] = {
    "REPLACE({0}, {1}, {2})": "STRING STRING STRING",
    "REGEXP_REPLACE({0}, {1}, {2})": "STRING STRING STRING",
    "REGEXP_EXTRACT({0}, {1}, {2})": "STRING STRING INT",
    "REGEXP_EXTRACT_ALL({0}, {1}, {2})": "STRING STRING INT",
    "TRANSLATE({0}, {1}, {2})": "STRING STRING STRING",
    "SUBSTRING({0}, {1}, {2})": "STRING INT INT",
    "SUBSTR({0}, {1}, {2})": "STRING INT INT",
    "LPAD({0}, {1}, {2})": "STRING INT STRING",
    "RPAD({0}, {1}, {2})": "STRING INT STRING",
    "LOCATE({0}, {1}, {2})": "STRING STRING INT",
    "INSTR({0}, {1}, {2})": "STRING STRING INT",
    "INSTR({0}, {1}, {2}, {3})": "STRING STRING INT INT",
    "OVERLAY({0} PLACING {1} FROM {2})": "STRING STRING INT",
    "OVERLAY({0} PLACING {1} FROM {2} FOR {3})": "STRING STRING INT INT",
    "SPLIT_INDEX({0}, {1}, {2})": "STRING STRING INT",
    "STR_TO_MAP({0}, {1}, {2})": "STRING STRING STRING",
    "CONVERT_TZ({0}, {1}, {2})": "STRING STRING STRING",
    "TO_TIMESTAMP_LTZ({0}, {1}, {2})": "STRING STRING STRING",
    "PARSE_URL({0}, {1}, {2})": "STRING STRING STRING",
    "ARRAY_JOIN({0}, {1}, {2})": "ARRAY<STRING> STRING STRING",
    "ARRAY_SLICE({0}, {1}, {2})": "ARRAY<INT> INT INT",
    "ARRAY_SORT({0}, {1}, {2})": "ARRAY<INT> BOOLEAN BOOLEAN",
    "CONCAT({0}, {1}, {2})": "STRING STRING STRING",
    "CONCAT_WS({0}, {1}, {2})": "STRING STRING STRING",
    "PRINTF({0}, {1}, {2})": "STRING INT INT",
    "COALESCE({0}, {1}, {2})": "INT INT INT",
    "GREATEST({0}, {1}, {2})": "INT INT INT",
    "IF({0}, {1}, {2})": "BOOLEAN INT INT",
    "CASE WHEN {0} THEN {1} ELSE {2} END": "BOOLEAN INT INT",
    "CASE {0} WHEN {1} THEN {2} END": "INT INT INT",
    "{0} BETWEEN {1} AND {2}": "INT INT INT",
    "{0} IN ({1}, {2})": "INT INT INT",
    "JSON_VALUE({0}, '$.a')": "STRING",
    "JSON_QUERY({0}, '$.a')": "STRING",
    "JSON_EXISTS({0}, '$.a')": "STRING",
    "JSON_OBJECT('a' VALUE {0})": "STRING",
    "JSON_ARRAY({0})": "STRING",
    "{0} IS JSON": "STRING",
    "COUNT({0}, {1})": "INT INT",
    "ELT({0}, {1}, {2})": "INT BYTES BYTES",
    "{0} LIKE {1} ESCAPE {2}": "STRING STRING STRING",
    "{0} SIMILAR TO {1} ESCAPE {2}": "STRING STRING STRING",
}
_OPERATORS = (
    "=",
    "<>",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "AND",
    "OR",
    "IS DISTINCT FROM",
    "LIKE",
    "SIMILAR TO",
)
_UNITS = (
    "MILLENNIUM",
    "CENTURY",
    "DECADE",
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DOW",
    "ISODOW",
    "DOY",
    "ISOYEAR",
)
_UNITS = (*_UNITS, "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH")
_STEPS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_TARGETS = (
    "BOOLEAN",
    "TINYINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "CHAR(3)",
    "STRING",
    "BINARY(2)",
)
_TARGETS = (*_TARGETS, "BYTES", "DATE", "TIME(0)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "ARRAY<INT>", "ARRAY<STRING>")
_TARGETS = (*_TARGETS, "MAP<STRING, INT>", "ROW<a INT, b STRING>", "INTERVAL YEAR", "INTERVAL DAY TO SECOND")
_AGGREGATES = """
COUNT SUM AVG MIN MAX STDDEV_POP STDDEV_SAMP VAR_POP VAR_SAMP COLLECT ARRAY_AGG LISTAGG FIRST_VALUE LAST_VALUE
JSON_ARRAYAGG SINGLE_VALUE
"""
#: Forms of one and two arguments, and of aggregates, with all types in all places.
FORMS: Sequence[str] = (
    *(f"{name}({{0}})" for name in ONE.split()),
    *(f"{name}({{0}}, {{1}})" for name in TWO.split()),
    *(f"{{0}} {operator} {{1}}" for operator in _OPERATORS),
    *(f"{prefix}{{0}}" for prefix in ("+", "-", "NOT ")),
    *(f"{{0}} IS {what}" for what in ("NULL", "TRUE", "UNKNOWN")),
    *(f"EXTRACT({unit} FROM {{0}})" for unit in _UNITS),
    *(f"{name}({{0}} TO {unit})" for name in ("FLOOR", "CEIL") for unit in _STEPS),
    *(f"TIMESTAMPADD({unit}, {{0}}, {{1}})" for unit in ("MONTH", "DAY", "SECOND")),
    *(f"TIMESTAMPDIFF({unit}, {{0}}, {{1}})" for unit in ("MONTH", "DAY", "SECOND")),
    *(f"{cast}({{0}} AS {target})" for cast in ("CAST", "TRY_CAST") for target in _TARGETS),
    *("{0}[{1}]", "POSITION({0} IN {1})", "TRIM({0})", "TRIM(LEADING {0} FROM {1})"),
    *(f"{name}({what}{{0}})" for name in _AGGREGATES.split() for what in ("", "DISTINCT ")),
    *("LISTAGG({0}, '-')", "PERCENTILE({0}, 0.5)", "PERCENTILE({0}, 0.5, {1})"),
    *("PERCENTILE({0}, ARRAY[0.25, 0.5])", "JSON_OBJECTAGG({0} VALUE {1})"),
)


def questions(form: str) -> Iterator[tuple[str, ...]]:
    """The types of the arguments that are asked for."""
    if form not in MORE:
        yield from product(TYPES, repeat=len(set(re.findall(r"\{\d\}", form))))
        return
    known = MORE[form].split()
    yield tuple(known)
    for at, own in enumerate(known):
        for other in TYPES:
            if other != own:
                yield (*known[:at], other, *known[at + 1 :])


def expression_of(form: str, types: Sequence[str]) -> str:
    """The expression with arguments of these types."""
    return form.format(*(TYPES[each] for each in types))


def answer(tables: Any, form: str) -> dict[str, str]:
    """The types of the value by the types of arguments that Flink takes."""
    from py4j.protocol import Py4JJavaError

    found = {}
    for types in questions(form):
        try:
            query = tables.sqlQuery(f"SELECT {expression_of(form, types)} AS c FROM types")
        except Py4JJavaError:
            continue
        (column,) = query.getResolvedSchema().getColumnDataTypes()
        found[", ".join(types)] = column.getLogicalType().asSummaryString()
    return found


def main(environment: Path, pattern: str = "(?!)") -> None:
    """Ask Flink what is not known yet."""
    from flink import gateway

    path = Path(__file__).with_name("signatures.json")
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known = {form: each for form, each in before.items() if re.search(pattern, form) is None}
    forms = (*FORMS, *MORE)
    with gateway(environment) as started:
        api = started.jvm.org.apache.flink.table.api
        tables = api.TableEnvironment.create(api.EnvironmentSettings.newInstance().inBatchMode().build())
        tables.executeSql(
            f"CREATE TABLE types ({COLUMNS}) WITH "
            "('connector' = 'filesystem', 'path' = 'file:///nowhere', 'format' = 'json')"
        )
        for form in forms:
            if form not in known:
                known[form] = answer(tables, form)
                print(f"{form}: {len(known[form])}", flush=True)
                _write(path, {each: known[each] for each in forms if each in known})


def _write(path: Path, answers: Mapping[str, Mapping[str, str]]) -> None:
    """One form per line."""
    lines = [f"{json.dumps(form)}: {json.dumps(each, separators=(',', ':'))}" for form, each in answers.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
