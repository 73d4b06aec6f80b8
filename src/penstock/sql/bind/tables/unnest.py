"""UNNEST: the elements of a collection beside the row that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from penstock.plan.expressions import TRUE, Expression, columns_of, conjuncts, fields_of
from penstock.plan.nodes import Item, JoinKind, Node, Unnest, items_of, project
from penstock.plan.scalar_functions import is_deterministic
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import Domain
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name
from penstock.sql.bind.expressions.resolution import NamedTable
from penstock.sql.bind.tables.sources import Source, filter_rows
from penstock.sql.parse.source import Errors
from penstock.sql.parse.syntax import UnboundJoin, UnboundUnnest
from penstock.types import INT, ArrayType, DataType, Field, MapType, RowType

_LITERAL = "EXPR$0"


@dataclass(frozen=True)
class UnnestSource:
    """The rows of ``left``, each once for each element of the ``collection``; with ``outer`` once if there is none. The
    element's columns are called ``names`` here, the last of them ORDINALITY if ``numbered``."""

    left: Source
    collection: Expression
    own: tuple[Field, ...]
    qualifier: str
    names: tuple[str, ...]
    outer: bool
    numbered: bool
    errors: Errors
    conditions: tuple[Expression, ...] = ()

    @property
    def event_times(self) -> tuple[str, ...]:
        return self.left.event_times

    @property
    def correlated_conditions(self) -> tuple[Expression, ...]:
        return self.left.correlated_conditions

    @property
    def domain(self) -> Domain:
        return self.left.domain

    @property
    def schema(self) -> RowType:
        return RowType((*self.left.schema.fields, *self.own), nullable=False)

    @property
    def tables(self) -> tuple[NamedTable, ...]:
        columns = fields_of(RowType(self.own, nullable=False))
        return (*self.left.tables, NamedTable(self.qualifier, dict(zip(self.names, columns, strict=True))))

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        lefts = frozenset(self.left.schema.names)
        every = (*self.conditions, *conditions)
        below = [each for each in every if columns_of(each) <= lefts and is_deterministic(each)]
        node = self.left.plan_rows(below)
        if node is None:
            return None
        taken = [*self.left.schema.names, *(each.name for each in self.own)]
        name = find_free_name(generate_name(self.collection), taken)
        kept = tuple(each for each in items_of(node.schema) if each.name in lefts)
        made = Unnest(
            self.schema,
            project(node, (*kept, Item(name, self.collection))),
            name,
            tuple(each.name for each in self.own),
            self.outer,
            self.numbered,
        )
        return filter_rows(made, [each for each in every if each not in below])


def join_unnest(given: UnboundJoin, left: Source, context: Context) -> UnnestSource | None:
    """The join of a source with a collection of its rows; None after a problem, which was added to the errors."""
    assert isinstance(given.right, UnboundUnnest)  # noqa: S101
    source, errors = context.source, context.errors
    if given.kind not in (JoinKind.INNER, JoinKind.LEFT) or given.using or given.natural:
        kind = "NATURAL" if given.natural else "USING" if given.using else given.kind.name
        hint = "use CROSS JOIN or LEFT JOIN .. ON TRUE"
        errors.append(source.unsupported_feature(given.at, f"a {kind} join with UNNEST is not supported", hint))
        return None
    outer = given.kind is JoinKind.LEFT
    made = unnest(given.right, left, context, outer=outer)
    if made is None or given.condition is None:
        return made
    scope = context.scope(made.schema, made.tables, "in ON")
    condition = errors.attempt(partial(scope.condition, given.condition, "the condition of ON"))
    if condition is None or condition == TRUE:
        return made
    if outer:
        reason = "a LEFT JOIN with UNNEST that has a condition is not supported"
        errors.append(source.unsupported_feature(given.condition.at, reason, "write ON TRUE, and filter with WHERE"))
        return None
    return UnnestSource(
        left, made.collection, made.own, made.qualifier, made.names, outer, made.numbered, errors, conjuncts(condition)
    )


def unnest(given: UnboundUnnest, left: Source, context: Context, *, outer: bool = False) -> UnnestSource | None:
    """The elements of a collection of the rows of ``left``; None after a problem, which was added to the errors."""
    source, errors = context.source, context.errors
    scope = context.scope(left.schema, left.tables, "in UNNEST")
    collection = errors.attempt(partial(scope.value, given.collection))
    if collection is None:
        return None
    columns = _find_columns(collection.type)
    if columns is None:
        reason = f"UNNEST takes an ARRAY, a MAP or a MULTISET, not {collection.type.text()}"
        errors.append(source.error(given.collection.at, reason, "name a column with a collection"))
        return None
    if given.numbered:
        columns = (*columns, Field("ORDINALITY", INT.with_nullability(False)))
    names = tuple(each.text for each in given.columns) or tuple(each.name for each in columns)
    if len(names) != len(columns):
        reason = f"the number of names, {len(names)}, differs from the number of columns of UNNEST, {len(columns)}"
        errors.append(source.schema_error(given.columns[0].at, reason, f"the columns are {_list_columns(columns)}"))
        return None
    taken = list(left.schema.names)
    own = []
    for name, each in zip(names, columns, strict=True):
        taken.append(find_free_name(name, taken))
        own.append(Field(taken[-1], each.type.with_nullability(each.type.nullable or outer)))
    qualifier = given.alias.text if given.alias else ""
    return UnnestSource(left, collection, tuple(own), qualifier, names, outer, given.numbered, errors)


def _find_columns(collection: DataType) -> tuple[Field, ...] | None:
    """The columns of an element; None for what has no elements."""
    match collection:
        case MapType(key=element, multiset=True) | ArrayType(element=element):
            if isinstance(element, RowType):
                null = element.nullable
                return tuple(Field(f.name, f.type.with_nullability(f.type.nullable or null)) for f in element.fields)
            return (Field(_LITERAL, element),)
        case MapType(key=key, value=value):
            return Field("KEY", key), Field("VALUE", value)
    return None


def _list_columns(columns: Sequence[Field]) -> str:
    return ", ".join(each.name for each in columns)
