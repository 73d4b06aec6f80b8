"""Where the rows of each sink are in a job's frame."""

from __future__ import annotations

from penstock.engine.translate import computed
from penstock.plan.nodes import Project, Scan, Sink, row_of
from penstock.sql import projection
from penstock.types import parse_columns
from tests.tables import Read, Written

ROW = parse_columns("id BIGINT, name STRING")
SCAN = Scan(ROW, "orders", "memory", Read("orders"))


def sink(node, table="copies"):
    return Sink(node.schema, node, table, "memory", Written(table, node.schema))


def test_the_frame_of_one_sink_has_its_columns_and_of_several_a_struct_of_each():
    items = projection("name AS title", ROW)
    one = sink(Project(row_of(items), SCAN, items))
    assert [(each.column, each.columns) for each in computed((one,))] == [(None, ("title",))]
    (first, second) = computed((sink(SCAN), sink(SCAN, table="others")))
    assert [(first.index, first.table, first.column), (second.index, second.table, second.column)] == [
        (0, "copies", "sink_0"),
        (1, "others", "sink_1"),
    ]
