"""The constraints of a sink's columns: NOT NULL, and lengths."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.expressions import Call, Expression, Literal, call, cast, coerce, conjunction, conjuncts, fields_of
from penstock.plan.nodes import Filter, Item, Materialize, Node, Project, Scan, Sink, project
from penstock.plan.sink_values import FITTED, NOT_NULL
from penstock.plan.walk import base, rewrite
from penstock.settings import DROP, IGNORE, Settings
from penstock.types import BOOLEAN, STRING, Field, RowType
from penstock.types.casts import is_alike
from penstock.types.logical import MAX_LENGTH, BinaryType, StringType


def enforce_not_null(value: Expression, column: Field, sink: Sink) -> Expression:
    """The value of a ``column`` of ``sink``, which fails where a NULL is not allowed. Of a deletion by key, only the
    key is known."""
    if column.type.nullable or not value.type.nullable or not _is_always_known(column, sink):
        return value
    return Call(
        NOT_NULL, (value, _make_text(sink.table), _make_text(column.name)), type=value.type.with_nullability(False)
    )


def enforce_lengths(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks, with steps that fit values into their lengths, where the settings ask for them."""
    strategy = settings.type_length_enforcer
    if strategy == IGNORE:
        return sinks
    return rewrite(sinks, lambda node: _fit_lengths(node, strategy) if isinstance(node, Sink) else node)


def drop_nulls(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks, with steps that drop rows with a NULL that is not allowed, where the settings ask for them. By now it
    is known whether upserts go to a sink unchanged."""
    if settings.not_null_enforcer != DROP:
        return sinks
    return rewrite(sinks, lambda node: _drop_rows_with_nulls(node) if isinstance(node, Sink) else node)


def fit_columns(sink: Sink) -> Node:
    """The sink's rows in the columns and types that its connector takes."""
    taken = {each.name: each.type for each in sink.spec.schema.fields}
    items = []
    for ref, to in zip(fields_of(sink.input.schema), sink.schema.fields, strict=True):
        value, type_ = coerce(enforce_not_null(ref, to, sink), to.type), taken[to.name]
        items.append(Item(to.name, value if is_alike(to.type, type_) else cast(value, type_)))
    row = RowType(tuple(replace(each, type=taken[each.name]) for each in sink.schema.fields), nullable=False)
    same = all(item == Item(each.name, each) for item, each in zip(items, fields_of(sink.input.schema), strict=True))
    return sink.input if same else Project(row, sink.input, tuple(items))


def _fit_lengths(sink: Sink, strategy: str) -> Sink:
    if _fits_lengths(sink.input):
        return sink
    pairs = zip(fields_of(sink.input.schema), sink.schema.fields, strict=True)
    items = tuple(Item(value.name, _fit_value(value, to, sink, strategy)) for value, to in pairs)
    return replace(sink, input=project(sink.input, items))


def _drop_rows_with_nulls(sink: Sink) -> Sink:
    node = sink.input
    if isinstance(node, Materialize):  # placed above the other steps
        return sink
    pairs = zip(fields_of(node.schema), sink.schema.fields, strict=True)
    wanted = [
        value for value, to in pairs if not to.type.nullable and value.type.nullable and _is_always_known(to, sink)
    ]
    present = [call("NOT", call("IS NULL", each, type=BOOLEAN.with_nullability(False))) for each in wanted]
    given = conjuncts(node.condition) if isinstance(node, Filter) else ()
    if set(present) <= set(given):
        return sink
    return replace(sink, input=Filter(node.schema, node, conjunction(present)))


def _fits_lengths(node: Node) -> bool:
    """Whether values of another length have been handled already."""
    if isinstance(node, Materialize):  # placed above the other steps
        return True
    while isinstance(node, Filter):
        node = node.input
    parts = [each.expression for each in node.items] if isinstance(node, Project) else []
    return any(isinstance(each, Call) and each.function == FITTED for each in parts)


def _fit_value(value: Expression, to: Field, sink: Sink, strategy: str) -> Expression:
    """A value in the length that its column declares."""
    if not isinstance(to.type, StringType | BinaryType) or to.type.length == MAX_LENGTH:
        return value
    given = coerce(value, to.type)
    names = (_make_text(sink.table), _make_text(to.name), _make_text(strategy))
    return Call(FITTED, (given, *names), type=to.type.with_nullability(value.type.nullable))


def _is_always_known(column: Field, sink: Sink) -> bool:
    """Whether all rows of a sink have a value for a NOT NULL column: not where deletions pass that have only the
    key."""
    source = base(sink.input)
    passing = isinstance(source, Scan) and bool(source.spec.capabilities.upsert_keys)
    return not passing or column.name in sink.spec.capabilities.upsert_keys


def _make_text(value: str) -> Literal:
    return Literal(value, type=STRING.with_nullability(False))
