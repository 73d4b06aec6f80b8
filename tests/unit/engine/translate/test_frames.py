"""Where the rows of each sink are in a job's frame, and which jobs need no frame of Spark's at all."""

from __future__ import annotations

import pytest

from penstock.engine.translate import computed, direct
from penstock.plan.expressions import ColumnRef, Literal, call
from penstock.plan.nodes import AssignWatermarks, DeadLetters, Filter, Item, MapRows, Project, Scan, Sink
from penstock.spi import DEAD_LETTER
from penstock.types import BIGINT, BOOLEAN, BYTES, INT, STRING, Field, RowType, StringType, TimestampType
from tests.tables import Read, Written

ROW = RowType((Field("id", BIGINT), Field("name", STRING), Field("at", TimestampType(3))), nullable=False)
SCAN = Scan(ROW, "orders", "memory", Read("orders"))
LETTERS = RowType((Field("value", BYTES),), nullable=False)


def picked(*names, below=SCAN, renamed=()):
    """A projection of columns as they are, perhaps under other names."""
    fields = [below.schema.field(name) for name in names]
    titles = renamed or names
    items = tuple(Item(title, ColumnRef(each.name, type=each.type)) for title, each in zip(titles, fields, strict=True))
    row = RowType(tuple(Field(item.name, each.type) for item, each in zip(items, fields, strict=True)), nullable=False)
    return Project(row, below, items)


def sink(node, schema=None, table="copies"):
    schema = schema or node.schema
    return Sink(schema, node, table, "memory", Written(table, schema))


def test_the_frame_of_one_sink_has_its_columns_and_of_several_a_struct_of_each():
    one = sink(picked("name", renamed=("title",)))
    assert [(each.column, each.columns) for each in computed((one,))] == [(None, ("title",))]
    (first, second) = computed((sink(SCAN), sink(SCAN, table="others")))
    assert [(first.index, first.table, first.column), (second.index, second.table, second.column)] == [
        (0, "copies", "sink_0"),
        (1, "others", "sink_1"),
    ]


@pytest.mark.parametrize(
    ("node", "columns"),
    [
        (SCAN, ("id", "name", "at")),
        (picked("name", "id"), ("name", "id")),
        (picked("a", below=picked("name", "id", renamed=("a", "b"))), ("name",)),
        (picked("name", "name", renamed=("x", "y")), ("name", "name")),
        (AssignWatermarks(ROW, SCAN, "at", ColumnRef("at", type=TimestampType(3))), ("id", "name", "at")),
    ],
)
def test_columns_that_are_only_picked_need_no_computing(node, columns):
    scan, outputs = direct((sink(node),))
    assert scan is SCAN
    assert [each.columns for each in outputs] == [columns]


def test_several_sinks_may_pick_from_one_scan():
    letters = sink(DeadLetters(LETTERS, SCAN), table="letters")
    _, outputs = direct((sink(picked("id")), sink(picked("name"), table="names"), letters))
    assert [(each.index, each.column, each.columns) for each in outputs] == [
        (0, None, ("id",)),
        (1, None, ("name",)),
        (2, DEAD_LETTER, ()),
    ]


@pytest.mark.parametrize(
    "sinks",
    [
        (sink(Filter(ROW, SCAN, Literal(True, type=BOOLEAN))),),
        (
            sink(
                Project(ROW, SCAN, (Item("id", call("+", ColumnRef("id", type=BIGINT), ColumnRef("id", type=BIGINT))),))
            ),
        ),
        (sink(MapRows(ROW, SCAN, iter)),),
        (sink(SCAN), sink(Scan(ROW, "others", "memory", Read("others")))),
        # a cast: to another type, or to text that Spark does not tell apart, which needs none
        (sink(picked("id"), RowType((Field("id", INT),), nullable=False)),),
    ],
    ids=["filter", "expression", "function", "two scans", "cast"],
)
def test_anything_else_is_computed_by_spark(sinks):
    assert direct(sinks) is None


def test_types_that_are_one_for_spark_need_no_cast():
    narrow = RowType((Field("name", StringType(10)),), nullable=False)
    assert direct((sink(picked("name"), narrow),)) is not None
