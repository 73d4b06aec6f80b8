"""Joins: conditions become keys, names mean the columns of both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from penstock.errors import Problem, UnsupportedError
from penstock.plan.expressions import (
    TRUE,
    Call,
    ColumnRef,
    Expression,
    Literal,
    Unrepeatable,
    call,
    coerce,
    columns_of,
    conjunction,
    conjuncts,
    fields_of,
    rename_columns,
    substitute,
)
from penstock.plan.nodes import (
    InWindows,
    Item,
    Join,
    JoinKind,
    Node,
    SetKind,
    SetOperation,
    Union,
    items_of,
    project,
)
from penstock.plan.pruning import repeatable_columns
from penstock.plan.scalar_functions import is_deterministic
from penstock.plan.traits import traits
from penstock.plan.windows import move_into_windows
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import OUTER, Domain, match_values, offset_of_outer, reads_outer
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name
from penstock.sql.bind.expressions.resolution import CORRELATED, NamedTable
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.tables.hints import QueryHints
from penstock.sql.bind.tables.sources import NodeSource, RowsSource, Source, filter_rows
from penstock.sql.parse.source import Errors
from penstock.sql.parse.syntax import Name, UnboundJoin, UnboundSubquery
from penstock.types import BOOLEAN, Field, RowType
from penstock.types.casts import find_comparable_type, find_key_type, is_beyond_decimal

#: The kinds of joins that keep rows of the left side, or of the right side, without a match.
_KEEPS_LEFT = (JoinKind.LEFT, JoinKind.FULL, JoinKind.ANTI)
_KEEPS_RIGHT = (JoinKind.RIGHT, JoinKind.FULL)
#: The kinds of joins that give no columns of the right side.
_OF_LEFT = (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True)
class JoinSource:
    """Two sources that are joined. ``right_names`` maps the column names of the right one to their names in the
    join."""

    kind: JoinKind
    left: Source
    right: Source
    right_names: Mapping[str, str]
    tables: tuple[NamedTable, ...]
    errors: Errors
    conditions: tuple[Expression, ...] = ()
    #: How long the rows of each side are kept; None where no hint says so.
    lifetimes: tuple[timedelta | None, timedelta | None] = (None, None)
    #: Keeps the rows for which further conditions are true, those with queries, perhaps with more columns;
    #: None after a problem.
    keeping: Callable[[Node], Node | None] | None = None
    #: Conditions on the rows of the join that read columns of the outer query.
    outer: tuple[Expression, ...] = ()

    @property
    def correlated_conditions(self) -> tuple[Expression, ...]:
        rights = (
            rename_columns(each, lambda name: self.right_names.get(name, name))
            for each in self.right.correlated_conditions
        )
        return (*self.left.correlated_conditions, *rights, *self.outer)

    @property
    def event_times(self) -> tuple[str, ...]:
        rights = () if self.kind in _OF_LEFT else self.right.event_times
        return (*self.left.event_times, *(self.right_names.get(each, each) for each in rights))

    @property
    def domain(self) -> Domain:
        return self.left.domain.union(self.right.domain)

    @property
    def schema(self) -> RowType:
        return _make_row(self.left.schema, self.right.schema, self.right_names, self.kind)

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        plan = self._plan()
        for each in conditions:
            plan.keep(each)
        left, right = self.left.plan_rows(plan.left_conditions), self.right.plan_rows(plan.right_conditions)
        if self.errors or left is None or right is None:
            return None
        found = plan.plan_rows(left, right)
        kept = found if self.keeping is None else self.keeping(found)
        return None if kept is None else project(kept, items_of(found.schema))

    def rows_of_windows(self) -> Node | None:
        """The rows of a SEMI or ANTI join; None unless it is one of windows."""
        plan = self._plan()
        left, right = self.left.plan_rows(plan.left_conditions), self.right.plan_rows(plan.right_conditions)
        return None if left is None or right is None else plan.rows_of_windows(left, right)

    def _plan(self) -> _Plan:
        plan = _Plan(self)
        for each in self.conditions:
            plan.match(each)
        return plan


def _make_row(left: RowType, right: RowType, names: Mapping[str, str], kind: JoinKind) -> RowType:
    """The columns of a join."""

    def make_field(each: Field, name: str, nullable: bool) -> Field:
        return Field(name, each.type.with_nullability(True) if nullable else each.type)

    lefts = (make_field(each, each.name, kind in _KEEPS_RIGHT) for each in left.fields)
    if kind in _OF_LEFT:
        return RowType(tuple(lefts), nullable=False)
    rights = (make_field(each, names[each.name], kind in _KEEPS_LEFT) for each in right.fields)
    return RowType((*lefts, *rights), nullable=False)


class _Plan:
    """The plan of a join: which conditions are keys, which are checked before it, and which after it."""

    def __init__(self, join: JoinSource):
        self._join = join
        self._lefts = frozenset(join.left.schema.names)
        own = {each.name: each for each in fields_of(join.right.schema)}
        self._own = {name: own[before] for before, name in join.right_names.items()}
        self._keys: list[tuple[Expression, Expression]] = []
        #: Conditions of an outer join on both sides that are not keys.
        self._others: list[Expression] = []
        self._above: list[Expression] = []
        self.left_conditions: list[Expression] = []
        self.right_conditions: list[Expression] = []

    def match(self, condition: Expression) -> None:
        """Add a condition that two rows must fulfil to match."""
        kind = self._join.kind
        left, right = self._reads(condition)
        if condition == TRUE:
            return
        if kind is JoinKind.INNER and not is_deterministic(condition):
            self._above.append(condition)
        elif left and right:
            self._add_pair(condition)
        elif right:
            own = self._rename_to_right(condition)
            if kind in _KEEPS_RIGHT:
                self._keys.append((TRUE, _make_condition_key(own)))
            else:
                self.right_conditions.append(own)
        elif kind in _KEEPS_LEFT:
            self._keys.append((_make_condition_key(condition), TRUE))
        else:
            self.left_conditions.append(condition)

    def _add_pair(self, condition: Expression) -> None:
        """Add a condition on both sides."""
        if isinstance(condition, Call) and condition.function == "=":
            first, second = condition.args
            sides = self._reads(first), self._reads(second)
            keys = find_key_type(first.type, second.type) is not None
            if keys and sides in (((True, False), (False, True)), ((False, True), (True, False))):
                if sides[0][1]:
                    first, second = second, first
                second = self._rename_to_right(second)
                self._keys.append((cast_for_comparison(first, second), cast_for_comparison(second, first)))
                return
        if self._join.kind is JoinKind.INNER:
            self._above.append(condition)
        else:
            self._others.append(condition)

    def keep(self, condition: Expression) -> None:
        """Add a condition on the rows of the result."""
        kind = self._join.kind
        left, right = self._reads(condition)
        if kind is JoinKind.INNER:
            self.match(condition)
        elif not is_deterministic(condition):
            self._above.append(condition)
        elif left and not right and kind is JoinKind.LEFT:
            self.left_conditions.append(condition)
        elif right and not left and kind is JoinKind.RIGHT:
            self.right_conditions.append(self._rename_to_right(condition))
        else:
            self._above.append(condition)

    def plan_rows(self, left: Node, right: Node) -> Node:
        """The rows, from those of both sides."""
        wanted = self._join.schema
        kind = JoinKind.INNER if self._others else self._join.kind
        plain = self._join_by_keys(left, right, kind)
        joined: Node = move_into_windows(plain)
        if isinstance(joined, InWindows) and self._others:
            joined = self._join_in_windows(plain)
        elif self._others:
            joined = self._add_unmatched(filter_rows(joined, self._others), plain.left, plain.right)
        elif joined.schema != wanted:
            joined = project(joined, items_of(wanted))
        return filter_rows(joined, self._above)

    def rows_of_windows(self, left: Node, right: Node) -> Node | None:
        """The rows of a join that gives no columns of the right side; None unless it is one of windows."""
        plain = self._join_by_keys(left, right, JoinKind.INNER)
        return self._join_in_windows(plain) if isinstance(move_into_windows(plain), InWindows) else None

    def _join_by_keys(self, left: Node, right: Node, kind: JoinKind) -> Join:
        """The join of both sides by the keys alone."""
        taken = {*self._lefts, *self._own}
        left, left_keys = _add_keys(left, [each for each, _ in self._keys], taken)
        right, right_keys = _add_keys(right, [each for _, each in self._keys], taken)
        schema = _make_row(left.schema, right.schema, self._map_right_names(right), kind)
        left_ttl, right_ttl = self._join.lifetimes
        return Join(schema, left, right, kind, left_keys, right_keys, left_ttl=left_ttl, right_ttl=right_ttl)

    def _map_right_names(self, right: Node) -> dict[str, str]:
        """The names of the right side's columns in the join, keys included."""
        return {each: self._join.right_names.get(each, each) for each in right.schema.names}

    def _join_in_windows(self, plain: Join) -> Node:
        """The join of windows with the conditions that are not keys: all rows of a window are there when it closes."""
        names, kind = self._map_right_names(plain.right), self._join.kind
        right = project(plain.right, tuple(Item(names[each.name], each) for each in fields_of(plain.right.schema)))
        schema = _make_row(plain.left.schema, right.schema, {each: each for each in right.schema.names}, kind)
        keys = tuple(names[each] for each in plain.right_keys)
        condition = conjunction(self._others) if self._others else None
        joined = Join(schema, plain.left, right, kind, plain.left_keys, keys, condition=condition)
        return project(move_into_windows(joined), items_of(self._join.schema))

    def _add_unmatched(self, pairs: Node, left: Node, right: Node) -> Node:
        """The ``pairs`` of matching rows, and the rows without a match."""
        wanted = self._join.schema
        rights = self._join.right_names
        sides = [(left, {each: each for each in self._join.left.schema.names}, self._join.kind in _KEEPS_LEFT)]
        sides.append((right, dict(rights), self._join.kind in _KEEPS_RIGHT))
        now = {
            names[each]: value
            for side, names, kept in sides
            if kept
            for each, value in find_present_times(side).items()
        }
        items = (each for each in items_of(pairs.schema) if each.name in wanted.names)
        members = [project(pairs, tuple(Item(each.name, now.get(each.name, each.expression)) for each in items))]
        members += [self._keep_unmatched(side, names, pairs) for side, names, kept in sides if kept]
        return Union(wanted, tuple(members))

    def _keep_unmatched(self, side: Node, names: Mapping[str, str], pairs: Node) -> Node:
        """The rows of a side, whose columns are called ``names`` in the join, that are in none of the ``pairs``.
        Columns that are not repeatable cannot be read."""
        reason = "an outer join with a condition other than '=' needs deterministic rows"
        place = self._others[0].place
        same = repeatable_columns(side)
        compared = {name for each in self._others for name in columns_of(each)}
        read = {each for each in side.schema.names if each not in names or names[each] in compared}
        if not same or not read <= same:
            hint = "leave UUID(), RAND() and the current time out of it"
            raise UnsupportedError((Problem(reason, where=str(place or ""), hint=hint),))
        own = [each for each in fields_of(side.schema) if each.name in names]
        told = [each for each in own if each.name in same]
        rows = project(side, tuple(Item(each.name, each) for each in told))
        matched = project(pairs, tuple(Item(each.name, replace(each, name=names[each.name])) for each in told))
        alone = SetOperation(rows.schema, rows, matched, SetKind.ANTI)
        values: dict[str, Expression] = {names[each.name]: each for each in told}
        for name, now in find_present_times(side).items():
            values.setdefault(names[name], now)
        for each in own:
            name = names[each.name]
            values.setdefault(name, Unrepeatable(name, reason, type=each.type, place=place))
        null = (
            (each.name, Literal(None, type=each.type.with_nullability(True))) for each in fields_of(self._join.schema)
        )
        return project(alone, tuple(Item(name, values.get(name, lacking)) for name, lacking in null))

    def _reads(self, expression: Expression) -> tuple[bool, bool]:
        """Whether an expression reads columns of the left, and of the right side."""
        found = columns_of(expression)
        return bool(found & self._lefts), bool(found - self._lefts)

    def _rename_to_right(self, expression: Expression) -> Expression:
        """An expression of columns of the right side by their own names."""
        return substitute(expression, self._own)


def find_present_times(node: Node) -> dict[str, Expression]:
    """The processing-time columns of ``node`` as calls: they are the present time even above a step with state."""
    return {
        name: Call("CURRENT_TIMESTAMP", (), type=field.type)
        for name in traits(node).proctimes
        if (field := node.schema.field(name)) is not None and name not in repeatable_columns(node)
    }


def cast_for_comparison(value: Expression, other: Expression) -> Expression:
    """``value`` in the type that it is compared with the ``other`` in. A decimal that this type cannot hold is NULL,
    since it equals no value of the other side."""
    common = find_comparable_type(value.type, other.type, ordered=False)
    assert common is not None  # noqa: S101 - they were compared
    return coerce(value, common, safe=is_beyond_decimal((value.type, other.type)))


def _make_condition_key(condition: Expression) -> Expression:
    """A key that equals TRUE where the condition is true, and is NULL, which equals nothing, elsewhere."""
    return Call("CASE", (condition, TRUE), type=BOOLEAN)


def _add_keys(node: Node, keys: Sequence[Expression], taken: set[str]) -> tuple[Node, tuple[str, ...]]:
    """``node`` with a column for each key, and their names."""
    items, names = list(items_of(node.schema)), []
    computed: dict[Expression, str] = {}
    for each in keys:
        if isinstance(each, ColumnRef):
            names.append(each.name)
            continue
        if each not in computed:
            computed[each] = find_free_name(generate_name(each), taken)
            taken.add(computed[each])
            items.append(Item(computed[each], each))
        names.append(computed[each])
    return project(node, tuple(items)), tuple(names)


#: Makes the conditions of a join from the columns of the right side in it, by their own names.
Conditions = Callable[[Mapping[str, ColumnRef]], Sequence[Expression]]


def join_nodes(
    kind: JoinKind, left: Node, right: Node, conditions: Conditions, errors: Errors
) -> tuple[Node | None, dict[str, ColumnRef]]:
    """The join of two nodes, and the columns of the right one in it, by their own names. The node is None after a
    problem, which was added to ``errors``."""
    source, rights = _join_nodes(kind, left, right, conditions, errors)
    return source.plan_rows(()), rights


def match_in_windows(left: Node, right: Node, conditions: Conditions, errors: Errors, *, negated: bool) -> Node | None:
    """The rows of ``left`` that have a match in ``right``, or none if ``negated``, in each window separately; None if
    the conditions do not compare windows."""
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    return _join_nodes(kind, left, right, conditions, errors)[0].rows_of_windows()


def _join_nodes(
    kind: JoinKind, left: Node, right: Node, conditions: Conditions, errors: Errors
) -> tuple[JoinSource, dict[str, ColumnRef]]:
    names: dict[str, str] = {}
    for each in right.schema.names:
        names[each] = find_free_name(each, [*left.schema.names, *names.values()])
    rights = {each.name: replace(each, name=names[each.name]) for each in fields_of(right.schema)}
    one, other = (NodeSource(each, "", each.schema.names) for each in (left, right))
    return JoinSource(kind, one, other, names, (), errors, tuple(conditions(rights))), rights


def join(
    given: UnboundJoin,
    left: Source,
    right: Source,
    hints: QueryHints,
    context: Context,
    query: Callable[[UnboundSubquery, Scope], Expression] | None = None,
    lateral: Sequence[Expression] = (),
) -> JoinSource | None:
    """The join of two sources; None after a problem with its names, which was added to the errors. ``query`` binds
    queries in its condition, where they are allowed; the conditions ``lateral`` read the left one as an outer query."""
    source, errors = context.source, context.errors
    known = [each.qualifier for each in left.tables if each.qualifier]
    again = next((each.qualifier for each in right.tables if each.qualifier in known), None)
    if again is not None:
        reason = f"two tables of FROM are called '{again}'"
        errors.append(source.error(given.right.at, reason, "give one of them another name with AS"))
        return None
    optional = (left.correlated_conditions if given.kind in _KEEPS_RIGHT else ()) + (
        right.correlated_conditions if given.kind in _KEEPS_LEFT else ()
    )
    apart = errors.attempt(partial(_make_outer_values, left, right, context)) if optional else NO_OUTER_VALUES
    if apart is None:
        return None
    left, right = (apart.left or left), (apart.right or right)
    taken = list(left.schema.names)
    names: dict[str, str] = {}
    for each in right.schema.names:
        names[each] = find_free_name(each, taken)
        taken.append(names[each])
    # The condition applies to rows that match, in which no column is null for lack of a match.
    matching = _name_sides(left, right, names, JoinKind.INNER)
    made = JoinSource(given.kind, left, right, names, _name_sides(left, right, names, given.kind), errors)
    made = replace(made, lifetimes=(hints.find_ttl(left), hints.find_ttl(right)))
    found: JoinSource | None = made
    if given.using or given.natural:
        found = _join_using(given, made, matching, context)
    elif given.condition is not None:
        row = _make_row(left.schema, right.schema, names, JoinKind.INNER)
        scope = replace(context.scope(row, matching, "in ON"), query=query)
        condition = errors.attempt(partial(scope.condition, given.condition, "the condition of ON"))
        found = replace(made, conditions=conjuncts(condition)) if condition is not None else made
    if found is None:
        return None
    further = [*apart.match_conditions(names), *(_rename_to_join(each, names) for each in lateral)]
    outer = [each for each in further if reads_outer(each)]
    if outer and given.kind is not JoinKind.INNER:
        errors.append(source.unsupported_feature(offset_of_outer(outer[0]), *CORRELATED))
        return None
    conditions = (*found.conditions, *(each for each in further if each not in outer))
    return replace(found, conditions=conditions, outer=(*outer, *apart.outer(given.kind, names)))


def _rename_to_join(condition: Expression, names: Mapping[str, str]) -> Expression:
    """A condition on the columns of both sides of a join. The columns of the right side are called ``names`` in the
    join; the condition reads the columns of the left side as columns of an outer query."""
    return rename_columns(condition, lambda name: name.removeprefix(OUTER) if name.startswith(OUTER) else names[name])


@dataclass(frozen=True)
class _OuterValues:
    """Both sides of an outer join beside the distinct values of the outer columns that their rows depend on. These are
    columns of the ``left`` and of the ``right`` side: an outer row has the rows with its values."""

    left: Source | None = None
    right: Source | None = None
    columns: tuple[tuple[ColumnRef, ColumnRef, ColumnRef], ...] = ()

    def match_conditions(self, names: Mapping[str, str]) -> list[Expression]:
        """Conditions of the join, in which the columns of the right side have these ``names``."""
        pairs = ((one, replace(other, name=names[other.name])) for _, one, other in self.columns)
        return [part for one, other in pairs for part in match_values(one, other, null=one.type.nullable)]

    def outer(self, kind: JoinKind, names: Mapping[str, str]) -> list[Expression]:
        """Conditions that the rows of the join are those of an outer row."""
        found: list[Expression] = []
        for outer, one, other in self.columns:
            right = replace(other, name=names[other.name])
            value: Expression = right if kind is JoinKind.RIGHT else one
            if kind is JoinKind.FULL:
                value = Call("COALESCE", (one, right), type=one.type.with_nullability(True))
            found += match_values(outer, value, null=outer.type.nullable)
        return found


#: The sides of a join that depend on no outer columns.
NO_OUTER_VALUES = _OuterValues()


def _make_outer_values(left: Source, right: Source, context: Context) -> _OuterValues | None:
    """The sides of an outer join for each of the distinct values of the outer columns that they read; None after a
    problem. Raises UnsupportedError for a column of a type that cannot be compared."""
    taken = [name for each in (left, right) for name in (*each.schema.names, *each.domain.names)]
    domain = Domain.from_expressions((*left.correlated_conditions, *right.correlated_conditions), taken)
    column = domain.find_unmatchable(())
    if column is not None:
        reason = f"a column of an outer query, of type {column.type.text()}, beside an outer join is not supported"
        raise context.source.unsupported_feature(
            offset_of_outer(column), reason, "compare it in the WHERE after the join"
        )
    sides = [_place_beside_values(each, domain, context.errors) for each in (left, right)]
    (one, lefts), (other, rights) = sides
    if one is None or other is None:
        return None
    columns = ((each, lefts[name], rights[name]) for name, each in zip(domain.names, domain.columns, strict=True))
    return _OuterValues(one, other, tuple(columns))


def _place_beside_values(source: Source, domain: Domain, errors: Errors) -> tuple[Source | None, dict[str, ColumnRef]]:
    """The rows of a source beside the values of the ``domain`` that they belong to, and these columns."""
    node = source.plan_rows(())
    if node is None:
        return None, {}

    def conditions(rights: Mapping[str, ColumnRef]) -> Sequence[Expression]:
        values = {each.name: rights[name] for name, each in zip(domain.names, domain.columns, strict=True)}
        return [substitute(each, values) for each in source.correlated_conditions]

    joined, rights = join_nodes(JoinKind.INNER, node, domain.placeholder(), conditions, errors)
    found = None if joined is None else RowsSource(joined, source.tables, (), source.domain.union(domain))
    return found, rights


def _name_sides(left: Source, right: Source, names: Mapping[str, str], kind: JoinKind) -> tuple[NamedTable, ...]:
    """The tables of both sides, with the columns of the join."""
    row = _make_row(left.schema, right.schema, names, kind)
    refs = {each.name: each for each in fields_of(row)}
    rights = {each: refs[names[each]] for each in right.schema.names}
    lefts = {each: refs[each] for each in left.schema.names}
    return (
        *(_substitute_columns(table, lefts) for table in left.tables),
        *(_substitute_columns(table, rights) for table in right.tables),
    )


def _substitute_columns(table: NamedTable, values: Mapping[str, ColumnRef]) -> NamedTable:
    return replace(table, columns={name: substitute(each, values) for name, each in table.columns.items()})


def _join_using(
    given: UnboundJoin, made: JoinSource, matching: tuple[NamedTable, ...], context: Context
) -> JoinSource | None:
    """The join by the columns of USING, or by all that both sides have. They become one column."""
    source, errors = context.source, context.errors
    count = len(made.left.tables)
    sides = [context.scope(made.schema, each, "in USING") for each in (matching[:count], matching[count:])]
    found = [context.scope(made.schema, each, "in USING") for each in (made.tables[:count], made.tables[count:])]
    names = given.using
    if given.natural:
        own = [[name for table in each.named_tables for name in table.unqualified_columns] for each in sides]
        names = tuple(Name(name, given.at) for name in dict.fromkeys(own[0]) if name in own[1])
    conditions, merged = [], {}
    for name in names:
        pair = [errors.attempt(partial(each.column, name)) for each in sides]
        first, second = pair
        if first is None or second is None:
            continue
        if find_key_type(first.type, second.type) is None:
            reason = f"'{name.text}' is {first.type.text()} in one table and {second.type.text()} in the other"
            errors.append(source.schema_error(name.at, reason, "join with ON, and CAST one of them"))
            continue
        conditions.append(call("=", first, second, place=source.at(name.at)))
        merged[name.text] = _merge_values(made.kind, *(each.column(name) for each in found))
    if len(merged) < len(names):
        return None
    tables = (replace(each, merged=each.merged | merged.keys()) for each in made.tables)
    return replace(made, conditions=tuple(conditions), tables=(NamedTable("", merged), *tables))


def _merge_values(kind: JoinKind, left: Expression, right: Expression) -> Expression:
    """The value of a column of USING."""
    if kind is JoinKind.FULL:
        common = find_comparable_type(left.type, right.type, ordered=False)
        assert common is not None  # noqa: S101 - they were compared
        return Call("COALESCE", (coerce(left, common), coerce(right, common)), type=common.with_nullability(True))
    return right if kind is JoinKind.RIGHT else left
