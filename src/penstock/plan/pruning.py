"""Only columns that are read go to steps with state, where they are sent between tasks and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, columns_of, fields_of, substitute, walk
from penstock.plan.nodes import (
    AggregateCall,
    AssignWatermarks,
    Deduplicate,
    Filter,
    GroupAggregate,
    InWindows,
    Item,
    Join,
    JoinKind,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    OverCall,
    Project,
    Rank,
    Sink,
    Sort,
    Stateful,
    TemporalSort,
    Union,
    Unnest,
    WindowAggregate,
    WindowTable,
    items_of,
    project,
)
from penstock.plan.traits import traits
from penstock.plan.walk import fold, repeatable
from penstock.plan.windowing import Attached
from penstock.spi import WATERMARK
from penstock.types import BOOLEAN, Field, RowType

_ANY = Literal(True, type=BOOLEAN.with_nullability(False))
#: Names of columns.
Names = frozenset[str]


def prune_sinks(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, fed by the same rows without unread columns. Sinks without state stay as they are."""
    kept: set[int] = set()
    fold([sink for sink in sinks if not traits(sink).stateful], lambda node, _: kept.add(id(node)))
    return tuple(each for each in _without_unread(sinks, kept) if isinstance(each, Sink))


def prune_rows(node: Node) -> Node:
    """The same rows from nodes without the columns that ``node`` does not read."""
    (found,) = _without_unread((node,), frozenset())
    return found


def repeatable_columns(node: Node) -> Names:
    """The columns of which several readers of ``node`` see the same values if they read no others; none if even the
    number of rows may differ."""
    if repeatable(node):
        return frozenset(node.schema.names)
    alone = {each.name: prune_rows(project(node, (Item(each.name, each),))) for each in fields_of(node.schema)}
    return frozenset(name for name, rows in alone.items() if repeatable(rows))


def _without_unread(roots: tuple[Node, ...], kept: Collection[int]) -> list[Node]:
    """The roots above nodes without unread columns. Nodes whose ids are ``kept`` stay as they are."""
    order: list[Node] = []
    fold(roots, lambda node, _: order.append(node))
    wanted = {id(root): frozenset(root.schema.names) for root in roots}
    for node in reversed(order):  # each before its inputs
        own = wanted.get(id(node), frozenset())
        reads = _all(node) if id(node) in kept else _reads(node, own)
        for each, names in zip(node.inputs, reads, strict=True):
            wanted[id(each)] = wanted.get(id(each), frozenset()) | names

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        return node if id(node) in kept else _pruned(node, inputs, wanted.get(id(node), frozenset()))

    return list(fold(roots, visit))


def _all(node: Node) -> tuple[Names, ...]:
    return tuple(frozenset(each.schema.names) for each in node.inputs)


def _reads(node: Node, wanted: Names) -> tuple[Names, ...]:
    """The columns that a node reads of each input, if its ``wanted`` columns are read."""
    match node:
        case Filter(condition=condition):
            return (wanted | _columns(condition),)
        case AssignWatermarks(column=column, watermark=watermark):
            return (wanted | {column} | _columns(watermark),)
        case Project():
            return (frozenset[str]().union(*(_columns(each.expression) for each in _items(node, wanted))),)
        case GroupAggregate(keys=keys):
            calls = _calls(node, wanted)
            arguments = (name for each in calls for name in (each.argument, each.filter) if name is not None)
            return (frozenset((*keys, *arguments)),)
        case WindowAggregate(keys=keys, windowing=windowing):
            used = (each for each in node.calls if each.name in wanted)
            arguments = (name for each in used for name in (each.argument, each.filter) if name is not None)
            if isinstance(windowing, Attached):
                times: tuple[str, ...] = (windowing.start, windowing.end)
            else:
                times = (*([] if windowing.processing else [windowing.time]), *windowing.keys)
            return (frozenset((*keys, *arguments, *times)),)
        case WindowTable(windowing=windowing, columns=columns):
            return ((wanted - set(columns.names)) | {windowing.time, *windowing.keys},)
        case Unnest(collection=collection, columns=columns):
            return ((wanted - set(columns)) | {collection},)
        case InWindows(inner=inner):  # the columns of windows are among the keys
            return _reads(inner, wanted)
        case Join():
            return _reads_of_join(node, wanted)
        case Union(members=members):
            places = [index for index, name in enumerate(node.schema.names) if name in wanted] or [0]
            return tuple(frozenset(each.schema.names[index] for index in places) for each in members)
        case Normalize(keys=keys) | Materialize(keys=keys):
            return (wanted | set(keys),)
        case Deduplicate(keys=keys, order=order):
            return (wanted | set(keys) | ({order} if order else set()),)
        case Rank(keys=keys, order=columns, number=number):
            return (wanted - {number} | set(keys) | {each.name for each in columns},)
        case OverAggregate(keys=keys, order=columns, time=time):
            own = frozenset(each.name for each in node.calls)
            return (
                (wanted - own)
                | {*keys, *([time] if time else []), *(x.name for x in columns)}
                | _of_calls(node, wanted),
            )
        case TemporalSort(time=time, order=columns):
            return (wanted | ({time} if time else set()) | {each.name for each in columns},)
        case Sort(order=columns):
            return (wanted | {each.name for each in columns},)
    return _all(node)


def _reads_of_join(node: Join, wanted: Names) -> tuple[Names, Names]:
    names, count = node.schema.names, len(node.left.schema.names)
    compared = frozenset[str]() if node.condition is None else columns_of(node.condition)
    found = []
    for side, keys, own in ((node.left, node.left_keys, names[:count]), (node.right, node.right_keys, names[count:])):
        given = zip(side.schema.names, own, strict=False)  # SEMI and ANTI give no columns of the right
        read = (each for each, name in given if name in wanted)
        found.append(frozenset((*read, *keys, *(compared & set(side.schema.names)))))
    left, right = found
    return left, right


def _columns(expression: Expression) -> Names:
    """The columns that an expression reads, the present watermark too."""
    calls = (each.function for each in walk(expression) if isinstance(each, Call))
    return columns_of(expression) | ({WATERMARK} if "CURRENT_WATERMARK" in calls else frozenset())


def _items(node: Project, wanted: Names) -> tuple[Item, ...]:
    """The columns of a projection that are wanted; a constant if none is, since a row needs a column."""
    return tuple(each for each in node.items if each.name in wanted) or (Item(node.items[0].name, _ANY),)


def _calls(node: GroupAggregate, wanted: Names) -> tuple[AggregateCall, ...]:
    """The aggregates that are wanted; at least one if a row would have no column otherwise."""
    found = tuple(each for each in node.calls if each.name in wanted)
    return found if found or node.keys else node.calls[:1]


def _over_calls(node: OverAggregate, wanted: Names) -> tuple[OverCall, ...]:
    """The functions that are wanted; at least one."""
    return tuple(each for each in node.calls if each.name in wanted) or node.calls[:1]


def _of_calls(node: OverAggregate, wanted: Names) -> Names:
    """The columns that the wanted functions read."""
    read = (name for each in _over_calls(node, wanted) for name in (each.argument, each.filter, each.default))
    return frozenset(name for name in read if name is not None)


def _pruned(node: Node, inputs: tuple[Node, ...], wanted: Names) -> Node:
    """``node`` above ``inputs``, which have fewer columns than its own."""
    reads = _reads(node, wanted)
    match node:
        case Filter() | AssignWatermarks():
            (below,) = inputs
            return node if below is node.input else replace(node, schema=below.schema, input=below)
        case Project():
            return merge_projections(inputs[0], _items(node, wanted))
        case GroupAggregate(keys=keys):
            below = _narrowed(inputs[0], reads[0])
            calls = _calls(node, wanted)
            fields = (*below.schema.select(keys).fields, *(Field(each.name, each.type) for each in calls))
            return replace(node, schema=RowType(fields, nullable=False), input=below, calls=calls)
        case WindowAggregate(keys=keys, columns=columns):
            below = _narrowed(inputs[0], reads[0])
            calls = tuple(each for each in node.calls if each.name in wanted)
            kept = (*keys, *(each.name for each in calls), *columns.names)
            return replace(node, schema=node.schema.select(kept), input=below, calls=calls)
        case WindowTable(columns=columns):
            below = _narrowed(inputs[0], reads[0])
            fields = (*below.schema.fields, *node.schema.select(columns.names).fields)
            return replace(node, schema=RowType(fields, nullable=False), input=below)
        case Unnest(collection=collection, columns=columns):
            below = _narrowed(inputs[0], reads[0])
            kept = tuple(each for each in below.schema.names if each != collection)
            fields = (*below.schema.select(kept).fields, *node.schema.select(columns).fields)
            return replace(node, schema=RowType(fields, nullable=False), input=below)
        case InWindows(inner=inner):
            within = _pruned(inner, inputs, wanted)
            assert isinstance(within, Stateful)  # noqa: S101
            return replace(node, schema=within.schema, inner=within)
        case Join():
            return _pruned_join(node, _narrowed(inputs[0], reads[0]), _narrowed(inputs[1], reads[1]))
        case Union():
            names = [each for each in node.schema.names if each in wanted] or node.schema.names[:1]
            members = tuple(_narrowed(each, read) for each, read in zip(inputs, reads, strict=True))
            return replace(node, schema=node.schema.select(tuple(names)), members=members)
        case Normalize() | Deduplicate() | TemporalSort() | Sort() | Materialize():
            below = _narrowed(inputs[0], reads[0])
            return replace(node, schema=below.schema, input=below)
        case OverAggregate():
            below, calls = _narrowed(inputs[0], reads[0]), _over_calls(node, wanted)
            fields = (*below.schema.fields, *(Field(each.name, each.type) for each in calls))
            return replace(node, schema=RowType(fields, nullable=False), input=below, calls=calls)
        case Rank(number=number):
            below = _narrowed(inputs[0], reads[0])
            own = [node.schema.fields[-1]] if number in wanted else []
            schema = replace(below.schema, fields=(*below.schema.fields, *own))
            return replace(node, schema=schema, input=below, number=number if own else "")
    return node.with_inputs(inputs)


def _pruned_join(node: Join, left: Node, right: Node) -> Join:
    """A join of two inputs that have some of the columns of its own. An unread one may have become a constant, of
    another type."""
    count, names = len(node.left.schema.names), node.schema.names
    fields: list[Field] = []
    for before, now, own, null in (
        (node.left, left, names[:count], node.kind in (JoinKind.RIGHT, JoinKind.FULL)),
        (node.right, right, names[count:], node.kind in (JoinKind.LEFT, JoinKind.FULL)),
    ):
        made = dict(zip(before.schema.names, own, strict=False))
        types = ((each.name, each.type.with_nullability(each.type.nullable or null)) for each in now.schema.fields)
        fields += [Field(made[name], type_) for name, type_ in types if name in made]
    return replace(node, schema=RowType(tuple(fields), nullable=False), left=left, right=right)


def _narrowed(node: Node, names: Iterable[str]) -> Node:
    """``node`` with the columns of these ``names`` only; with a constant if there are none."""
    items = tuple(each for each in items_of(node.schema) if each.name in names)
    return merge_projections(node, items or (Item(node.schema.names[0], _ANY),))


def merge_projections(node: Node, items: tuple[Item, ...]) -> Node:
    """``node`` with these columns, in one projection with those below it unless something would be computed twice."""
    while isinstance(node, Project) and not any(WATERMARK in _columns(each.expression) for each in items):
        parts = [part for each in items for part in walk(each.expression)]
        uses = Counter(part.name for part in parts if isinstance(part, ColumnRef))
        values = {each.name: each.expression for each in node.items}
        if any(count > 1 and not isinstance(values[name], ColumnRef | Literal) for name, count in uses.items()):
            break
        items = tuple(Item(each.name, substitute(each.expression, values)) for each in items)
        node = node.input
    return project(node, items)
