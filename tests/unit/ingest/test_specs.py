"""Pipelines that find their tables: the cases of tests/specs/ingest.

Whatever the number of tasks, the history of schemas and the rows are the same.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.unit.ingest.pipelines import Pipeline
from tests.unit.ingest.spec_cases import (
    FOLDER,
    OUTCOMES,
    definition,
    expected_outcome,
    load,
    partitions,
    read_event,
    run,
    show,
    shown_outcome,
    write,
)

#: The files of tables; all others have cases.
TABLES = ("widening", "canal-types")
SPECS = {each.stem: load(each.stem) for each in sorted(FOLDER.glob("*.yaml")) if each.stem not in TABLES}
CASES = [
    pytest.param(spec, case, id=f"{name}: {case['about']}") for name, spec in SPECS.items() for case in spec["cases"]
]
WIDENING, TYPES = map(load, TABLES)
_KEYS = {*OUTCOMES, "about", "batches", "source", "sink", "pipeline", "route", "transform", "message"}


@pytest.mark.parametrize("name", SPECS)
def test_no_case_is_lost(name: str):
    spec = SPECS[name]
    assert len({case["about"] for case in spec["cases"]}) == len(spec["cases"]) == spec["count"]
    for case in spec["cases"]:
        assert not set(case) - _KEYS
        assert expected_outcome(case), case["about"]


@pytest.mark.parametrize(("spec", "case"), CASES)
def test_a_pipeline_does_what_is_written_down(spec: dict[str, Any], case: dict[str, Any]):
    expected = expected_outcome(case)
    found, error = run(spec, case)
    assert shown_outcome(found, error, expected) == expected

    for tasks in (2, 8) if partitions(case) > 1 else ():
        found, error = run(spec, case, tasks)
        assert _sorted(shown_outcome(found, error, expected)) == _sorted(expected), f"{tasks} tasks"


def _sorted(outcome: dict[str, Any]) -> dict[str, Any]:
    """With the rows of each table in an order that says nothing of tasks."""
    rows = outcome.get("rows", {})
    return outcome | {"rows": {table: sorted(each, key=repr) for table, each in rows.items()}}


# --- tables of types -----------------------------------------------------------------------------------------


def test_no_cell_is_lost():
    values, declared = WIDENING["values"], WIDENING["declared"]
    cells = [cell for row in declared.values() for cell in row if cell != "-"]
    assert {len(row) for row in declared.values()} == {len(values)}
    for table in WIDENING["canal"]:
        assert list(table["after"]) == list(table["types"])
        assert {len(row) for row in table["after"].values()} == {len(table["types"])}
        cells += [cell for row in table["after"].values() for cell in row]
    assert len(cells) == WIDENING["count"]


def _read_cell(cell: str, own: str, other: str | None) -> str:
    return {"=": own, ">": other, "s": "STRING"}.get(cell) or cell


@pytest.mark.parametrize("declared", WIDENING["declared"])
def test_a_column_holds_what_it_is_shown(declared: str):
    shown = list(zip(WIDENING["values"], WIDENING["declared"][declared], strict=True))
    cells = {
        f"c{at}": (value, _read_cell(cell, declared, own))
        for at, ((value, own), cell) in enumerate(shown)
        if cell != "-"
    }
    ddl = f"CREATE TABLE orders ({', '.join(f'{name} {declared}' for name in cells)})"
    source = {"value.format": "json", "scan.value.initial-schemas.ddls": ddl}
    message = "{" + ", ".join(f'"{name}": {value}' for name, (value, _) in cells.items()) + "}"
    found = Pipeline(write(definition({"source": source}, {}))).run(message.encode())

    columns = found.schemas.sinks["orders"].schema.row.fields
    assert {each.name: str(each.type) for each in columns} == {name: wanted for name, (_, wanted) in cells.items()}
    (row,) = found.table("orders")
    for name, (value, wanted) in cells.items():
        assert _holds(row[name], value), (name, wanted, row[name], value)


def _holds(found: Any, value: str) -> bool:
    """Whether a value of a row is that of the JSON text."""
    given = json.loads(value, parse_float=Decimal, parse_int=Decimal)
    match found:
        case bool() | None:
            return found is given
        case int() | Decimal():
            return found == given
        case float():
            return found in (float(given), float(np.float32(float(given))))
        case str() if isinstance(given, str):
            return found == given
        case str():
            return found == value
        case bytes():
            return True
    first, second = str(given).removesuffix("Z"), str(found).removesuffix("+00:00").rstrip("0")
    return second.startswith(first.rstrip("0")) or str(found).startswith(first)


@pytest.mark.parametrize(
    ("table", "first"), [(table, first) for table in WIDENING["canal"] for first in table["types"]], ids=str
)
def test_a_column_holds_the_values_of_both_types(table: dict[str, Any], first: str):
    member, types = table["about"].rpartition(" ")[2], table["types"]
    strategy = {"sqlType": "SQL_TYPE", "mysqlType": "MYSQL_TYPE"}[member]
    source = {"value.format": "canal-json", "canal-json.infer-schema.strategy": strategy}
    found = Pipeline(write(definition({"source": source}, {})))
    names = [f"c{at}" for at in range(len(types))]
    for kinds in ([first] * len(types), list(types)):
        codes = [int(each) for each in kinds] if member == "sqlType" else kinds
        more = {member: dict(zip(names, codes, strict=True))}
        found.run(read_event(["c", "orders", dict.fromkeys(names)], "canal-json", more))

    columns = found.schemas.sinks["shop.orders"].schema.row.fields
    cells = zip(table["after"][first], types.values(), strict=True)
    wanted = [_read_cell(cell, types[first], other) for cell, other in cells]
    assert dict(zip(types, (str(each.type) for each in columns), strict=True)) == dict(zip(types, wanted, strict=True))


def test_no_line_is_lost():
    assert sum(len(table["lines"]) for table in TYPES["tables"]) == TYPES["count"]


@pytest.mark.parametrize("table", TYPES["tables"], ids=lambda table: table["about"])
def test_a_column_has_the_type_that_messages_tell(table: dict[str, Any]):
    lines = table["lines"]
    strategy = {"value.format": "canal-json", "canal-json.infer-schema.strategy": table["strategy"]}
    found = Pipeline(write(definition({"source": strategy | table.get("source", {})}, {})))
    names = [f"c{at}" for at in range(len(lines))]
    member = table["about"].partition(",")[0]
    more = {member: {name: line[0] for name, line in zip(names, lines, strict=True)}}
    row = {name: line[2] if line[2:] else None for name, line in zip(names, lines, strict=True)}
    found.run(read_event(["c", "orders", row], "canal-json", more))

    columns = found.schemas.sinks["shop.orders"].schema.row.fields
    assert [(line[0], str(each.type)) for line, each in zip(lines, columns, strict=True)] == [
        (line[0], line[1]) for line in lines
    ]
    (values,) = found.table("shop.orders")
    assert list(map(show, values.values())) == [line[3] if line[3:] else None for line in lines]
