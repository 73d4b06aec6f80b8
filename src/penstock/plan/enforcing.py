"""The constraints of a sink's columns: NOT NULL, and lengths."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.expressions import Call, Expression, Literal, call, cast, coerce, conjunction, conjuncts, fields_of
from penstock.plan.nodes import Filter, Item, Materialize, Node, Project, Scan, Sink, project
from penstock.plan.sink_values import FITTED, NOT_NULL
from penstock.plan.walk import base, rewrite
from penstock.settings import DROP, IGNORE, Settings
from penstock.types import BOOLEAN, STRING, Field, RowType
from penstock.types.casts import alike
from penstock.types.logical import MAX_LENGTH, BinaryType, StringType


def not_null(value: Expression, column: Field, sink: Sink) -> Expression:
    """The value of a ``column`` of ``sink``, which fails where it is NULL and must not be. Of a deletion by key, only
    the key is known."""
    if column.type.nullable or not value.type.nullable or not _known(column, sink):
        return value
    return Call(NOT_NULL, (value, _text(sink.table), _text(column.name)), type=value.type.with_nullability(False))


def enforce_lengths(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks, with steps that fit values into their lengths, where the settings ask for them."""
    strategy = settings.type_length_enforcer
    if strategy == IGNORE:
        return sinks
    return rewrite(sinks, lambda node: _with_lengths(node, strategy) if isinstance(node, Sink) else node)


def drop_nulls(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks, with steps that leave rows out whose NULL must not be there, where the settings ask for them. By now
    it is known whether upserts go to a sink unchanged."""
    if settings.not_null_enforcer != DROP:
        return sinks
    return rewrite(sinks, lambda node: _of_known(node) if isinstance(node, Sink) else node)


def fit_columns(sink: Sink) -> Node:
    """The sink's rows in the columns and types that its connector takes."""
    taken = {each.name: each.type for each in sink.spec.schema.fields}
    items = []
    for ref, to in zip(fields_of(sink.input.schema), sink.schema.fields, strict=True):
        value, type_ = coerce(not_null(ref, to, sink), to.type), taken[to.name]
        items.append(Item(to.name, value if alike(to.type, type_) else cast(value, type_)))
    row = RowType(tuple(replace(each, type=taken[each.name]) for each in sink.schema.fields), nullable=False)
    same = all(item == Item(each.name, each) for item, each in zip(items, fields_of(sink.input.schema), strict=True))
    return sink.input if same else Project(row, sink.input, tuple(items))


def _with_lengths(sink: Sink, strategy: str) -> Sink:
    if _is_fitted(sink.input):
        return sink
    pairs = zip(fields_of(sink.input.schema), sink.schema.fields, strict=True)
    items = tuple(Item(value.name, _fitted(value, to, sink, strategy)) for value, to in pairs)
    return replace(sink, input=project(sink.input, items))


def _of_known(sink: Sink) -> Sink:
    node = sink.input
    if isinstance(node, Materialize):  # placed above the other steps
        return sink
    pairs = zip(fields_of(node.schema), sink.schema.fields, strict=True)
    wanted = [value for value, to in pairs if not to.type.nullable and value.type.nullable and _known(to, sink)]
    present = [call("NOT", call("IS NULL", each, type=BOOLEAN.with_nullability(False))) for each in wanted]
    given = conjuncts(node.condition) if isinstance(node, Filter) else ()
    if set(present) <= set(given):
        return sink
    return replace(sink, input=Filter(node.schema, node, conjunction(present)))


def _is_fitted(node: Node) -> bool:
    """Whether values of another length have been handled already."""
    if isinstance(node, Materialize):  # placed above the other steps
        return True
    while isinstance(node, Filter):
        node = node.input
    parts = [each.expression for each in node.items] if isinstance(node, Project) else []
    return any(isinstance(each, Call) and each.function == FITTED for each in parts)


def _fitted(value: Expression, to: Field, sink: Sink, strategy: str) -> Expression:
    """A value in the length that its column declares."""
    if not isinstance(to.type, StringType | BinaryType) or to.type.length == MAX_LENGTH:
        return value
    given = coerce(value, to.type)
    names = (_text(sink.table), _text(to.name), _text(strategy))
    return Call(FITTED, (given, *names), type=to.type.with_nullability(value.type.nullable))


def _known(column: Field, sink: Sink) -> bool:
    """Whether all rows of a sink have a value for a column that is not NULL: not where deletions pass that have only
    the key."""
    source = base(sink.input)
    passing = isinstance(source, Scan) and bool(source.spec.capabilities.upsert_keys)
    return not passing or column.name in sink.spec.capabilities.upsert_keys


def _text(value: str) -> Literal:
    return Literal(value, type=STRING.with_nullability(False))
