"""What is known of a node's rows."""

from __future__ import annotations

from penstock.plan.expressions import ColumnRef, Literal
from penstock.plan.nodes import AssignWatermarks, DeadLetters, Filter, Item, MapRows, Node, Project, Scan
from penstock.plan.row_traits import Traits
from penstock.plan.traits import traits
from penstock.spi import CHANGES, INSERTIONS, ScanCapabilities
from penstock.types import BIGINT, BOOLEAN, Field, RowType, TimestampType
from tests.tables import Read

TIME = TimestampType(3)
SCHEMA = RowType((Field("n", BIGINT), Field("ts", TIME)))
CHANGING = Scan(SCHEMA, "t", "values", Read("t", ScanCapabilities(kinds=CHANGES, bounded=False)))
TIMED = AssignWatermarks(SCHEMA, CHANGING, "ts", ColumnRef("ts", type=TIME))


def projected(node: Node, **items: str) -> Project:
    """``node`` with the columns ``items`` names, as these are called in it."""
    types = {field.name: field.type for field in node.schema.fields}
    schema = RowType(tuple(Field(name, types[source]) for name, source in items.items()))
    computed = tuple(Item(name, ColumnRef(source, type=types[source])) for name, source in items.items())
    return Project(schema, node, computed)


def test_a_scan_gives_what_its_spec_declares() -> None:
    assert traits(CHANGING) == Traits(kinds=CHANGES, bounded=False)
    assert traits(Scan(SCHEMA, "t", "values", Read("t"))) == Traits(kinds=INSERTIONS, bounded=True)


def test_event_time_survives_renaming_and_filters_and_nothing_else() -> None:
    assert traits(TIMED).rowtimes == ("ts",)
    filtered = Filter(SCHEMA, projected(TIMED, at="ts", n="n"), Literal(True, type=BOOLEAN))
    assert traits(filtered).rowtimes == ("at",)
    assert traits(projected(filtered, n="n")).rowtimes == ()
    assert traits(MapRows(SCHEMA, TIMED, iter)).rowtimes == ()


def test_dead_letters_are_insertions() -> None:
    assert traits(DeadLetters(SCHEMA, TIMED)) == Traits(kinds=INSERTIONS, bounded=False)
