"""NULL needs no type as an argument: every built-in function with NULL as each of its arguments gives a value, or says
with its place why it does not."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pytest

from penstock.errors import DefinitionError, RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import NoKernel, compile_expression
from penstock.plan.scalar_functions import Function, aliases, catalogue, functions, missing
from penstock.sql import parse_expression
from penstock.types import arrow_schema, parse_columns

COLUMNS = {
    "s STRING": "x",
    "y BYTES": b"x",
    "i INT": 1,
    "p DECIMAL(5, 2)": 1,
    "d DOUBLE": 1.5,
    "b BOOLEAN": True,
    "ts TIMESTAMP(3)": datetime(2026, 1, 31),
    "arr ARRAY<INT>": [1],
    "strings ARRAY<STRING>": ["x"],
    "m MAP<STRING, INT>": [("k", 1)],
}
SESSION = Session("Europe/Berlin")
SCHEMA = parse_columns(", ".join(COLUMNS))
#: A constant and a column of each family of arguments of penstock.plan.overloads.
ARGUMENTS = {
    "s": ("'a'", "s"),
    "y": ("X'6869'", "y"),
    "i": ("1", "i"),
    "e": ("2.5", "p"),
    "n": ("2.5", "d"),
    "b": ("TRUE", "b"),
    "t": ("TIMESTAMP '2026-01-31 10:00:00'", "ts"),
    "d": ("TIMESTAMP '2026-01-31 10:00:00'", "ts"),
    "c": ("MAP['k', 1]", "m"),
    "a": ("ARRAY[1, 2]", "arr"),
    "l": ("ARRAY['a', 'b']", "strings"),
    "m": ("MAP['k', 1]", "m"),
    "v": ("'a'", "s"),
}
#: Functions that have no signature, and what the grammar has besides: the arguments are in braces, by their families.
WRITTEN = {
    "=": "{i} = {i}; {s} <> {s}; {i} < {i}; {e} <= {n}; {t} > {s}; {a} = {a}; ({i}, {s}) = (1, 'a')",
    "IS NULL": "{i} IS NULL; {a} IS NOT NULL",
    "IS DISTINCT FROM": "{i} IS DISTINCT FROM {i}; {a} IS NOT DISTINCT FROM {a}; {t} IS DISTINCT FROM {t}",
    "BETWEEN": "{i} BETWEEN {i} AND {i}; {t} NOT BETWEEN SYMMETRIC {s} AND {t}",
    "LIKE": "{s} LIKE {s}; {s} NOT LIKE {s} ESCAPE {s}",
    "SIMILAR": "{s} SIMILAR TO {s}; {s} SIMILAR TO {s} ESCAPE {s}",
    "IN": "{i} IN ({i}, {i}); {s} NOT IN ({s}, {s}); {a} IN ({a}); {t} IN ({s}, {t})",
    "OR": "{b} OR {b}",
    "AND": "{b} AND {b}",
    "NOT": "NOT {b}",
    "IS TRUE": "{b} IS TRUE; {b} IS NOT FALSE; {b} IS UNKNOWN",
    "+": "{i} + {i}; {e} - {i}; {n} * {n}; {e} / {e}; -{i}; +{i}; {e} % {i}; {t} + INTERVAL '1' DAY; "
    "{t} + {i} * INTERVAL '1' DAY",
    "ROUND": "ROUND({e}); ROUND({n}, {i})",
    "||": "{s} || {s} || {s}",
    "CONCAT": "CONCAT({s}, {s})",
    "CONCAT_WS": "CONCAT_WS({s}, {s}, {s})",
    "OVERLAY": "OVERLAY({s} PLACING {s} FROM {i} FOR {i})",
    "BTRIM": "TRIM({s}); TRIM(LEADING {s} FROM {s}); BTRIM({s}, {s})",
    "EXTRACT": "EXTRACT(YEAR FROM {t}); HOUR({t}); EXTRACT(EPOCH FROM {t})",
    "FLOOR TO": "FLOOR({t} TO DAY); CEIL({t} TO MONTH)",
    "OVERLAPS": "({t}, {t}) OVERLAPS ({t}, {t}); ({t}, INTERVAL '1' DAY) OVERLAPS ({t}, {t})",
    "TIMESTAMPADD": "TIMESTAMPADD(DAY, {i}, {t})",
    "TIMESTAMPDIFF": "TIMESTAMPDIFF(DAY, {t}, {t})",
    "TO_TIMESTAMP_LTZ": "TO_TIMESTAMP_LTZ({i}, 3); TO_TIMESTAMP_LTZ({s}, 'yyyy', 'UTC')",
    "CASE": "CASE {i} WHEN {i} THEN {s} ELSE {s} END; CASE WHEN {b} THEN {i} WHEN {b} THEN {e} END",
    "NULLIF": "NULLIF({i}, {i})",
    "COALESCE": "COALESCE({s}, {s})",
    "IF": "IF({b}, {i}, {e})",
    "IFNULL": "IFNULL({a}, {a})",
    "GREATEST": "GREATEST({i}, {e}, {n}); GREATEST({s}, {s})",
    "LEAST": "LEAST({i}, {i}); LEAST({t}, {t})",
    "CAST": "CAST({i} AS STRING); CAST({a} AS STRING); CAST({a} AS ARRAY<STRING>)",
    "TRY_CAST": "TRY_CAST({s} AS INT)",
    "TYPEOF": "TYPEOF({i})",
    "[]": "{a}[{i}]; {m}[{s}]",
    "ARRAY_APPEND": "ARRAY_APPEND({a}, {i})",
    "ARRAY_CONCAT": "ARRAY_CONCAT({a}, {a})",
    "ARRAY_CONTAINS": "ARRAY_CONTAINS({a}, {i})",
    "ARRAY_EXCEPT": "ARRAY_EXCEPT({a}, {a})",
    "ARRAY_INTERSECT": "ARRAY_INTERSECT({a}, {a})",
    "ARRAY_POSITION": "ARRAY_POSITION({a}, {i})",
    "ARRAY_PREPEND": "ARRAY_PREPEND({a}, {i})",
    "ARRAY_REMOVE": "ARRAY_REMOVE({a}, {i})",
    "ARRAY_UNION": "ARRAY_UNION({a}, {a})",
    "MAP_UNION": "MAP_UNION({m}, {m})",
    "IS JSON": "{s} IS JSON; {s} IS NOT JSON OBJECT",
    "JSON_EXISTS": "JSON_EXISTS({s}, {s})",
    "JSON_VALUE": "JSON_VALUE({s}, {s}); JSON_VALUE({s}, '$' RETURNING INT DEFAULT {i} ON EMPTY DEFAULT {i} ON ERROR)",
    "JSON_QUERY": "JSON_QUERY({s}, {s})",
    "JSON_OBJECT": "JSON_OBJECT({s} VALUE {i}, 'k' VALUE {a})",
    "JSON_ARRAY": "JSON_ARRAY({i}, {a}, JSON({s}) NULL ON NULL)",
    "JSON": "JSON_OBJECT('k' VALUE JSON({s}))",
    "ROW": "ROW({i}, {s})",
    "ARRAY[]": "ARRAY[{i}, {i}]",
    "MAP[]": "MAP[{s}, {i}, {s}, {i}]",
}
#: Literals, and what stands in queries only.
NO_ARGUMENTS = {"DATE", "EXISTS", "CURRENT_DATABASE", "CURRENT_WATERMARK"}
#: What is not about the values of one row.
OF_ROWS = ("Aggregates", "Rows around a row", "Groups")
BUILT_IN = [
    name
    for group, entries in catalogue().items()
    if group not in OF_ROWS
    for each in entries
    if each.syntax
    for name in (each.name, *(each.aliases if isinstance(each, Function) else ()))
]


def texts(name: str) -> Iterator[str]:
    """The ways of calling a function, as in :data:`WRITTEN`."""
    if name in WRITTEN:
        yield from WRITTEN[name].split("; ")
    function = functions().get(aliases().get(name, name)) if name != "OVERLAY" else None
    for overload in function.overloads if function else ():
        letters = overload.signature.replace("*", overload.signature[-2:-1])
        yield f"{name}({', '.join(f'{{{letter}}}' for letter in letters)})"


def with_nulls(text: str, which: int) -> Iterator[str]:
    """The expression with NULL in place of no argument, each one, two and all of them, and constants (``which`` = 0) or
    columns (1) as the others."""
    parts = re.split(r"\{(\w)\}", text)  # the families are every second one
    places = range(len(parts) // 2)
    sets = {frozenset({one, other}) for one in places for other in places}
    for nulls in (frozenset[int](), *sorted(sets, key=sorted), frozenset(places)):
        yield "".join(
            ("NULL" if index // 2 in nulls else ARGUMENTS[part][which]) if index % 2 else part
            for index, part in enumerate(parts)
        )


def test_every_built_in_function_is_here():
    written = {*WRITTEN, *NO_ARGUMENTS, *missing()}
    assert [name for name in BUILT_IN if name not in written and not list(texts(name))] == []
    assert WRITTEN.keys() - set(BUILT_IN) == set()


@pytest.mark.parametrize("name", [each for each in BUILT_IN if each not in missing()])
def test_without_null_each_of_them_has_a_value(name: str):
    for text in texts(name):
        parse_expression(next(with_nulls(text, 0)), SCHEMA)


@pytest.mark.parametrize("which", [0, 1], ids=["constants", "columns"])
@pytest.mark.parametrize("name", [each for each in BUILT_IN if each not in missing()])
def test_null_as_an_argument_is_a_value_or_has_an_error(name: str, which: int):
    rows = pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, COLUMNS.values(), strict=True)), dict.fromkeys(SCHEMA.names)], arrow_schema(SCHEMA)
    )
    for text in (each for one in texts(name) for each in with_nulls(one, which)):
        for whole in (text, f"COALESCE(CAST({text} AS STRING), '')", f"CASE WHEN ({text}) IS NULL THEN 1 END"):
            with contextlib.suppress(DefinitionError, RecordError):
                found = compile_expression(parse_expression(whole, SCHEMA), rows.schema, SESSION)
                if isinstance(found, NoKernel):  # a pattern, a zone or a seed that is none
                    assert which == 1 or name == "TO_TIMESTAMP_LTZ", whole
                    continue
                assert found.column(rows).type == found.column(rows.slice(0, 0)).type
