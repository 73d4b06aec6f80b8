"""What the columns of a sink demand of its rows: NOT NULL, and lengths."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.expressions import Call, Expression, Literal, call, coerce, conjunction, conjuncts, fields_of
from penstock.plan.nodes import Filter, Item, Materialize, Node, Project, Scan, Sink, project
from penstock.plan.walk import base, rewrite
from penstock.settings import DROP, IGNORE, Settings
from penstock.types import BOOLEAN, STRING, Field
from penstock.types.logical import MAX_LENGTH, BinaryType, StringType

#: Functions of a sink's values: the value, which must not be NULL; the value in the length of its type. Both have the
#: names of the table and the column behind it, the latter also what becomes of a value of another length.
NOT_NULL, FITTED = "NOT NULL", "FITTED"


def not_null(value: Expression, column: Field, sink: Sink) -> Expression:
    """The value of a ``column`` of ``sink``, which fails where it is NULL and must not be. Of a deletion by key, only
    the key is known."""
    if column.type.nullable or not value.type.nullable or not _known(column, sink):
        return value
    return Call(NOT_NULL, (value, _text(sink.table), _text(column.name)), type=value.type.with_nullability(False))


def enforced(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks, with steps that leave rows out whose NULL must not be there, and fit values into their lengths, where
    the settings ask for them."""
    if settings.not_null_enforcer != DROP and settings.type_length_enforcer == IGNORE:
        return sinks
    return rewrite(sinks, lambda node: _enforced(node, settings) if isinstance(node, Sink) else node)


def _enforced(sink: Sink, settings: Settings) -> Sink:
    node: Node = sink.input
    if _is_fitted(node):
        return sink
    pairs = list(zip(fields_of(node.schema), sink.schema.fields, strict=True))
    if settings.not_null_enforcer == DROP:
        wanted = [value for value, to in pairs if not to.type.nullable and value.type.nullable and _known(to, sink)]
        present = [call("NOT", call("IS NULL", each, type=BOOLEAN.with_nullability(False))) for each in wanted]
        given = conjuncts(node.condition) if isinstance(node, Filter) else ()
        if not set(present) <= set(given):
            node = Filter(node.schema, node, conjunction(present))
    if settings.type_length_enforcer != IGNORE:
        node = project(
            node,
            tuple(Item(value.name, _fitted(value, to, sink, settings.type_length_enforcer)) for value, to in pairs),
        )
    return sink if node is sink.input else replace(sink, input=node)


def _is_fitted(node: Node) -> bool:
    """Whether values of another length are gone already."""
    if isinstance(node, Materialize):  # which is put above the other steps
        return True
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
