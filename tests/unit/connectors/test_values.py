"""The values connector without Spark: what it reads and how it refuses."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from penstock.common import Row
from penstock.connectors import values
from penstock.connectors.values.factory import ValuesConnector
from penstock.connectors.values.spark import RowsSource
from penstock.errors import CheckpointError, OptionsError, SchemaError, UnsupportedError
from penstock.plan.checks import check_changes
from penstock.plan.guarantees import check_guarantees
from penstock.spi import CHANGES, INSERTIONS, KIND, Column, ColumnKind, Guarantee, TableDefinition, Watermark
from penstock.sql import parse_script
from penstock.types import BIGINT, RowKind, parse_columns
from tests.committers import Memory, context_of


def table(columns: str = "id BIGINT, name STRING", **options: str) -> TableDefinition:
    fields = parse_columns(columns).fields
    given = {"connector": "values", **{key.replace("_", "-"): text for key, text in options.items()}}
    return TableDefinition("t", tuple(Column(each.name, each.type) for each in fields), given)


def change(kind: RowKind, *cells: object) -> Row:
    row = Row(*cells)
    row.set_row_kind(kind)
    return row


def test_rows_are_read_as_they_were_registered():
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    columns = "n DECIMAL(8, 2), at TIMESTAMP_LTZ(3), r ROW<a INT, b ARRAY<STRING>>, m MAP<STRING, INT>"
    found = [(Decimal("1.50"), at, Row(1, ["x", None]), [("k", 1)]), (None, None, None, None)]
    scan = ValuesConnector().scan(table(columns, data_id=values.register(found)))

    assert scan.rows.drop_columns(KIND).to_pylist() == [
        {"n": Decimal("1.50"), "at": at, "r": {"a": 1, "b": ["x", None]}, "m": [("k", 1)]},
        dict.fromkeys(("n", "at", "r", "m")),
    ]
    assert "rows: 2" in scan.describe()
    assert pickle.loads(pickle.dumps(scan)) == scan


def test_a_scan_keeps_the_rows_that_were_there_when_it_was_made():
    data_id = values.register([(1, "a")])
    scan = ValuesConnector().scan(table(data_id=data_id))
    values.register([(2, "b")], data_id)

    assert scan.rows["id"].to_pylist() == [1]
    assert ValuesConnector().scan(table(data_id=data_id)) != scan


def test_rows_have_kinds_and_the_table_says_which():
    rows = [change(kind, number, kind.short) for number, kind in enumerate(RowKind)]
    data_id = values.register(rows)
    scan = ValuesConnector().scan(table(data_id=data_id, changelog_mode="I, UB, UA, D"))

    assert scan.capabilities.kinds == CHANGES
    assert scan.rows[KIND].to_pylist() == [0, 1, 2, 3]
    with pytest.raises(SchemaError, match=r"row 1 is -U, which 'changelog-mode' leaves out\n.*row 2 is \+U"):
        ValuesConnector().scan(table(data_id=data_id, changelog_mode="i,d"))


def test_every_row_that_does_not_fit_is_named():
    with pytest.raises(SchemaError, match=r"row 1 has 1 values for 2 columns\n.*row 2 has no value for column 'id'"):
        ValuesConnector().scan(
            table("id BIGINT NOT NULL, name STRING", data_id=values.register([(1, "a"), (2,), (None, "c")]))
        )
    with pytest.raises(SchemaError, match="row 1, column 'id': not a value of BIGINT: "):
        ValuesConnector().scan(table(data_id=values.register([(1, "a"), ("two", "b")])))


@pytest.mark.parametrize(
    ("columns", "good", "bad"),
    [
        ("r ROW<a INT NOT NULL>", Row(1), Row(None)),
        ("r ARRAY<INT NOT NULL>", [1], [1, None]),
        ("r MAP<STRING, INT NOT NULL>", [("a", 1)], [("a", None)]),
    ],
)
def test_null_in_a_part_that_is_not_null_is_refused(columns: str, good: object, bad: object):
    with pytest.raises(SchemaError, match="row 2: a part of column 'r' is NULL"):
        ValuesConnector().scan(table(columns, data_id=values.register([(good,), (None,), (bad,)])))


def test_unknown_ids_and_values_of_options_are_refused():
    values.register([], "orders-of-this-test")
    with pytest.raises(OptionsError, match=r"no rows 'order-of-this-test'.*did you mean 'orders-of-this-test'"):
        ValuesConnector().scan(table(data_id="order-of-this-test"))
    with pytest.raises(OptionsError, match=r"(?s)'changelog-mode': expected some of I, UB, UA and D.*whole number"):
        ValuesConnector().scan(
            table(data_id="orders-of-this-test", changelog_mode="all", **{"scan.max-records-per-trigger": "many"})
        )
    with pytest.raises(OptionsError, match="between 1 and"):
        ValuesConnector().scan(table(data_id="orders-of-this-test", **{"scan.max-records-per-trigger": "0"}))


def test_metadata_and_event_time_are_refused():
    definition = TableDefinition(
        "t",
        (Column("topic", BIGINT, ColumnKind.METADATA, "topic"),),
        {"connector": "values", "data-id": values.register([])},
        watermark=Watermark("topic"),
    )
    with pytest.raises(UnsupportedError, match=r"(?s)'topic'.*no metadata columns.*no event time"):
        ValuesConnector().scan(definition)


def test_a_sink_takes_what_its_options_say():
    def capabilities(**options: str):
        return ValuesConnector().sink(table(**options)).capabilities

    assert (capabilities().kinds, capabilities().guarantee) == (INSERTIONS, None)
    assert capabilities(sink_insert_only="false").kinds == CHANGES
    delivery = {"sink.delivery-guarantee": "at-least-once"}
    assert capabilities(**delivery).guarantee is Guarantee.AT_LEAST_ONCE
    with pytest.raises(OptionsError, match=r"'sink.delivery-guarantee': rows in memory .*at-least-once"):
        capabilities(**{"sink.delivery-guarantee": "exactly-once"})


def test_ids_are_numbers_unless_they_are_given():
    first, second = values.register([(1,)]), values.register([(2,)])
    assert first != second
    values.register([(3,)], first)
    assert values.rows(first) == [Row(3)]
    values.forget(first)
    assert values.rows(first) == []


SQL = """
CREATE TABLE orders (id BIGINT) WITH ('connector' = 'values', 'data-id' = '{orders}', 'changelog-mode' = 'I,D');
CREATE TABLE copies (id BIGINT) WITH ('connector' = 'values'{options});
INSERT INTO copies SELECT id FROM orders;
"""


def test_changes_need_a_table_that_takes_them():
    def job(options: str = ""):
        (found,) = parse_script(SQL.format(orders=values.register([]), options=options)).jobs
        return found

    check_guarantees(job())
    with pytest.raises(SchemaError, match="table 'copies': takes insertions only, and table 'orders' gives"):
        check_changes(job())
    check_changes(job(", 'sink-insert-only' = 'false'"))


# --- checkpoints ---------------------------------------------------------------------------------------------


def source(documents: Memory, *rows: tuple[object, ...], planned: bool = True) -> RowsSource:
    """The source of a job with this checkpoint."""
    context = replace(context_of(), spark=None, checkpoint=documents, planned=planned)
    return RowsSource(ValuesConnector().scan(table(data_id=values.register(rows))), 0, context)


def test_a_checkpoint_is_of_the_rows_that_it_began_with():
    known = Memory()
    source(known, (1, "a"), planned=False)
    source(known, (1, "a"))
    with pytest.raises(CheckpointError, match="was made with other rows than table 't' has now"):
        source(known, (2, "b"))


def test_a_lost_document_of_the_rows_stops_the_job():
    with pytest.raises(CheckpointError, match=r"has batches but no 'penstock/source-0.json'"):
        source(Memory(), (1, "a"))


def test_the_document_of_a_former_version_is_of_its_rows():
    known = Memory()
    source(known, (1, "a"), planned=False)
    digest = known.documents["source-0"]["source"]["rows"]
    former = Memory(documents={"source-0": {"values": digest, "start": {"row": 1}}})
    for _ in range(2):
        assert source(former, (1, "a")).has_ended(None)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="was made with other rows than table 't' has now"):
            source(former, (2, "b"))
