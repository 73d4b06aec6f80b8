"""Metadata columns are cast as SQL casts: the same pairs of types, and the same values."""

from __future__ import annotations

import itertools

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.table.metadata import READABLE, WRITABLE
from penstock.errors import DefinitionError
from penstock.flow.graph.routes import plan_reading
from penstock.flow.kernels.session import Session
from penstock.flow.rows.calc import Calc
from penstock.plan.expressions import ColumnRef
from penstock.plan.nodes import Job, scans
from penstock.spi import Column, ColumnKind, TableDefinition
from penstock.sql import parse_expression, parse_script
from penstock.types import DataType, Field, RowType, parse_type
from penstock.types.casts import widens

#: Every root of a scalar type.
TYPES = [
    parse_type(text)
    for text in (
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(10, 2)",
        "STRING",
        "BYTES",
        "DATE",
        "TIME(3)",
        "TIMESTAMP(3)",
        "TIMESTAMP_LTZ(3)",
    )
]
OPTIONS = {
    "connector": "kafka",
    "topic": "orders",
    "properties.bootstrap.servers": "localhost:9092",
    "format": "json",
}


def accepted(work) -> bool:
    try:
        work()
    except DefinitionError:
        return False
    return True


def table(declared: DataType) -> TableDefinition:
    column = Column("m", declared, ColumnKind.METADATA, "odd")
    return TableDefinition("t", (Column("id", TYPES[3]), column), OPTIONS)


@pytest.mark.parametrize("native", TYPES, ids=str)
def test_metadata_is_cast_between_the_types_that_sql_casts_between(native: DataType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(READABLE, "odd", native)
    monkeypatch.setitem(WRITABLE, "odd", native)
    of_sql = {
        (source, target): accepted(
            lambda source=source, target=target: parse_expression(
                f"CAST(c AS {target})", RowType((Field("c", source),))
            )
        )
        for source, target in itertools.chain(((native, each) for each in TYPES), ((each, native) for each in TYPES))
    }

    assert {
        declared.text(): accepted(lambda declared=declared: KafkaConnector().scan(table(declared)))
        for declared in TYPES
    } == {declared.text(): of_sql[native, declared] for declared in TYPES}
    assert {
        declared.text(): accepted(lambda declared=declared: KafkaConnector().sink(table(declared)))
        for declared in TYPES
    } == {declared.text(): of_sql[declared, native] for declared in TYPES}


def job(read: str, written: str = "v STRING", selected: str = "*") -> Job:
    with_clause = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items())
    (found,) = parse_script(
        f"CREATE TABLE s ({read}) WITH ({with_clause});"
        f"CREATE TABLE t ({written}) WITH ({with_clause.replace('orders', 'copies')});"
        f"INSERT INTO t SELECT {selected} FROM s;"
    ).jobs
    return found


def picks(found: Job) -> bool:
    """Whether the job's rows need no computing."""
    flow = plan_reading(found, scans(*found.sinks), Session("UTC"))
    assert flow is not None
    (branch,) = flow.branches
    assert isinstance(branch.calc, Calc)
    return all(isinstance(each, ColumnRef) for each in branch.calc.items.expressions)


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("v TIMESTAMP_LTZ METADATA FROM 'timestamp'", "v TIMESTAMP_LTZ"),
        ("v TIMESTAMP_LTZ METADATA FROM 'timestamp'", "v TIMESTAMP_LTZ METADATA FROM 'timestamp'"),
        ("v STRING METADATA FROM 'topic'", "v VARCHAR(9)"),
    ],
)
def test_rows_go_straight_to_the_sink_where_a_cast_changes_nothing(read: str, written: str):
    assert picks(job(read, written))


@pytest.mark.parametrize(
    ("read", "written"),
    [
        ("v VARCHAR(3) METADATA FROM 'topic'", "v STRING"),
        ("v TIMESTAMP_LTZ(0) METADATA FROM 'timestamp'", "v TIMESTAMP_LTZ(3)"),
        ("v STRING METADATA FROM '__raw_key__'", "v STRING"),
        ("v TIMESTAMP(3)", "v TIMESTAMP(3) METADATA FROM 'timestamp'"),
        ("v STRING", "v STRING METADATA FROM '__raw_key__'"),
    ],
)
def test_rows_whose_metadata_is_cast_are_computed(read: str, written: str):
    assert not picks(job(read, written))


@pytest.mark.parametrize(
    ("source", "target", "unchanged"),
    [
        ("STRING", "VARCHAR(3)", False),
        ("VARCHAR(3)", "VARCHAR(4)", True),
        ("VARCHAR(3)", "CHAR(3)", False),
        ("CHAR(3)", "CHAR(3) NOT NULL", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(0)", False),
        ("INT", "BIGINT", False),
        ("MAP<STRING, BYTES>", "MAP<STRING NOT NULL, BYTES>", True),
        ("ARRAY<ROW<a STRING>>", "ARRAY<ROW<a VARCHAR(1)>>", False),
        ("ROW<a INT>", "ROW<b INT>", False),
    ],
)
def test_a_cast_changes_nothing_where_every_value_fits(source: str, target: str, unchanged: bool):
    assert widens(parse_type(source), parse_type(target)) is unchanged
