"""Rows that are written in the query: VALUES, and SELECT without FROM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.columns.streams import ipc_stream
from penstock.plan.expressions import TRUE, Cast, Expression, Literal, coerce
from penstock.plan.nodes import GroupAggregate, Item, Node, Scan, SetKind, SetOperation, Union, project
from penstock.spi import KIND
from penstock.sql.bind.correlation import NOTHING, Domain
from penstock.sql.bind.expressions.resolution import NamedTable
from penstock.sql.bind.tables.sources import filter_rows
from penstock.types import DataType, Field, NullType, RowType, arrow_type
from penstock.types.casts import is_alike

_NAME = "VALUES"
#: The schema of rows without columns: a row needs one.
_ANY = RowType((Field("$TRUE", TRUE.type),), nullable=False)


def make_values(rows: Sequence[Sequence[Expression]], names: Sequence[str], types: Sequence[DataType]) -> Node:
    """A table of these ``rows`` with columns of these ``names`` and ``types``, without columns of no type. The values
    read no columns; values of other types are cast."""
    typed = [number for number, each in enumerate(types) if not isinstance(each, NullType)]
    if not typed:
        return _scan([[True]] * len(rows), _ANY)
    rows = [[row[number] for number in typed] for row in rows]
    schema = RowType(tuple(Field(names[number], types[number]) for number in typed), nullable=False)
    if all(_is_constant(each, to) for row in rows for each, to in zip(row, schema.fields, strict=True)):
        values = [[_value(each) for each in row] for row in rows]
        return _scan(values, schema)
    one = make_one_row()
    members = tuple(project(one, _items(row, schema)) for row in rows)
    return members[0] if len(members) == 1 else Union(schema, members)


def make_one_row(*, counted: bool = True) -> Node:
    """A table of one row with a placeholder column. ``counted``: as a record that is read."""
    return _scan([[True]], _ANY, counted=counted)


def fill_empty_group(groups: GroupAggregate) -> Node:
    """The only group of all rows. Without rows, a batch still gives its row: counts are 0, other results NULL."""
    there = project(groups, (Item("$TRUE", TRUE),))
    lacking = SetOperation(_ANY, make_one_row(counted=False), there, SetKind.ANTI)
    items = (Item(each.name, Literal(0 if each.function == "COUNT" else None, type=each.type)) for each in groups.calls)
    return Union(groups.schema, (groups, project(lacking, tuple(items))))


@dataclass(frozen=True)
class OneRow:
    """What a query without FROM reads: one row without columns."""

    event_times: tuple[str, ...] = ()
    tables: tuple[NamedTable, ...] = (NamedTable("", {}),)
    correlated_conditions: tuple[Expression, ...] = ()
    domain: Domain = NOTHING

    @property
    def schema(self) -> RowType:
        return RowType((), nullable=False)

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        return filter_rows(make_one_row(), conditions)


def _items(row: Sequence[Expression], schema: RowType) -> tuple[Item, ...]:
    return tuple(
        Item(to.name, Literal(None, type=to.type) if isinstance(each.type, NullType) else coerce(each, to.type))
        for each, to in zip(row, schema.fields, strict=True)
    )


def _is_constant(given: Expression, to: Field) -> bool:
    if isinstance(given, Literal):
        return isinstance(given.type, NullType) or is_alike(given.type, to.type)
    return isinstance(given, Cast) and isinstance(given.operand, Literal) and given.operand.value is None


def _value(given: Expression) -> object:
    return given.value if isinstance(given, Literal) else None


def _scan(rows: Sequence[Sequence[object]], schema: RowType, *, counted: bool = True) -> Scan:
    """The rows as a table of the connector ``values``."""
    import pyarrow as pa

    from penstock.connectors.values.options import ValuesSourceOptions
    from penstock.connectors.values.spec import ValuesScanSpec

    columns = [
        pa.array([row[number] for row in rows], arrow_type(each.type)) for number, each in enumerate(schema.fields)
    ]
    columns.append(pa.array([0] * len(rows), pa.int8()))
    batch = pa.RecordBatch.from_arrays(columns, names=[*schema.names, KIND])
    options = ValuesSourceOptions(data_id=_NAME)
    spec = ValuesScanSpec(table=_NAME, options=options, schema=schema, data=bytes(ipc_stream(batch)), counted=counted)
    return Scan(schema, _NAME, "values", spec)
