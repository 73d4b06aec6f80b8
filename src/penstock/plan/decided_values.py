"""Random values of rows that change are decided once: a retraction has the values of the row that it retracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.errors import Problem, UnsupportedError
from penstock.plan.expressions import Call, ColumnRef, Expression, columns_of, fields_of
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import Filter, Item, Materialize, Node, Project, Sink, Stateful, items_of, project
from penstock.plan.scalar_functions import Varies, function_of
from penstock.plan.traits import traits
from penstock.plan.walk import fold

#: Columns of values that are kept begin with this.
_DECIDED = "__decided_"


def decide_values(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, with a step that keeps the random values of rows that are updated or deleted, where a step with state
    or a sink has to find the row that is retracted, or a condition has to decide for both alike. Idempotent. Raises
    UnsupportedError for rows without a key, since rows are found by their key."""
    needed = _find_needed(sinks)
    problems: dict[Problem, None] = {}

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(inputs)
        if id(node) not in needed or not isinstance(made, Filter | Project):
            return made
        keys = traits(made.input).upsert_keys
        if keys:
            return _place_above_decided(made, keys[0])
        for each in _find_random_calls(made):
            where = str(each.place) if each.place else ""
            reason = f"{flink_sql(each)} has another value when its row is retracted, and rows that change have no key"
            hint = "compute it below the joins and groups, where rows are only added, or give the rows a key"
            problems[Problem(reason, where=where, hint=hint)] = None
        return made

    made = fold(sinks, visit)
    if problems:
        raise UnsupportedError(tuple(problems))
    return tuple(each for each in made if isinstance(each, Sink))


def _find_needed(sinks: Sequence[Sink]) -> set[int]:
    """The nodes, by their identity, whose random values for rows that change have to stay the same, because a step
    above finds rows by these columns."""
    changing: dict[int, bool] = {}

    def note(node: Node, inputs: tuple[tuple[Node, object], ...]) -> tuple[Node, object]:
        own = node.own_traits(tuple(each for _, each in inputs))  # type: ignore[misc]
        changing[id(node)] = own.changing
        return node, own

    fold(sinks, note)
    found: set[int] = set()
    seen: set[tuple[int, frozenset[str]]] = set()
    waiting: list[tuple[Node, frozenset[str]]] = [(sink, frozenset(sink.schema.names)) for sink in sinks]
    while waiting:
        node, columns = waiting.pop()
        if (id(node), columns) in seen:
            continue
        seen.add((id(node), columns))
        below = node.inputs
        waiting += zip(below, _find_columns_below(node, columns), strict=True)
        if isinstance(node, Filter | Project) and changing[id(node.input)]:
            items = [] if isinstance(node, Filter) else [each for each in node.items if each.name in columns]
            read = [node.condition] if isinstance(node, Filter) else [each.expression for each in items]
            if any(True for each in read for _ in _walk_random_calls(each)):
                found.add(id(node))
    return found


def _find_columns_below(node: Node, columns: frozenset[str]) -> Iterator[frozenset[str]]:
    """The columns of each input that rows are found by, if rows of the node are found by ``columns``."""
    match node:
        case Sink():
            names = dict(zip(node.schema.names, node.input.schema.names, strict=False))
            keys = node.spec.capabilities.upsert_keys
            yield frozenset(names[each] for each in (keys or node.schema.names) if each in names)
        case Project(items=items):
            read = (columns_of(each.expression) for each in items if each.name in columns)
            yield frozenset[str]().union(*read)
        case Filter(condition=condition):
            yield columns | columns_of(condition)
        case Materialize(decided=decided, input=below):
            yield frozenset(below.schema.names) - set(decided)
        case _:
            every = isinstance(node, Stateful)
            for each in node.inputs:
                names_below = frozenset(each.schema.names)
                yield names_below if every or not columns <= names_below else columns


def _place_above_decided(node: Filter | Project, key: tuple[str, ...]) -> Node:
    """``node`` above the step that keeps its random values, by a key of its input."""
    below = node.input
    taken = set(below.schema.names)
    calls = {id(each): each for each in _find_random_calls(node)}
    names: dict[int, str] = {}
    for each in calls:
        number = len(names)
        while f"{_DECIDED}{number}" in taken:
            number += 1
        names[each] = f"{_DECIDED}{number}"
        taken.add(names[each])
    rows = project(below, (*items_of(below.schema), *(Item(names[each], call) for each, call in calls.items())))
    kept = Materialize(rows.schema, rows, key, decided=tuple(names.values()))
    refs = {each: ColumnRef(names[each], type=call.type) for each, call in calls.items()}
    if isinstance(node, Project):
        items = tuple(replace(each, expression=_replace_calls(each.expression, refs)) for each in node.items)
        return replace(node, input=kept, items=items)
    left = Filter(kept.schema, kept, _replace_calls(node.condition, refs))
    return project(left, tuple(Item(each.name, each) for each in fields_of(below.schema)))


def _find_random_calls(node: Node) -> tuple[Call, ...]:
    return tuple(call for each in node.expressions for call in _walk_random_calls(each))


def _walk_random_calls(expression: Expression) -> Iterator[Call]:
    """The outermost calls in an expression whose value is random for each row."""
    if isinstance(expression, Call):
        function = function_of(expression)
        if function is not None and function.varies is Varies.BY_ROW:
            yield expression
            return
    for each in expression.operands:
        yield from _walk_random_calls(each)


def _replace_calls(expression: Expression, columns: dict[int, ColumnRef]) -> Expression:
    """The expression with calls, by their identity, replaced by columns."""
    if id(expression) in columns:
        return columns[id(expression)]
    operands = tuple(_replace_calls(each, columns) for each in expression.operands)
    same = all(one is other for one, other in zip(operands, expression.operands, strict=True))
    return expression if same else expression.with_operands(operands)
