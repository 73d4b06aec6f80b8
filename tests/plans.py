"""What holds for every plan, whatever it computes."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan.expressions import ColumnRef, Expression, walk
from penstock.plan.nodes import (
    AssignWatermarks,
    Deduplicate,
    Filter,
    GroupAggregate,
    Job,
    Join,
    JoinKind,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    Project,
    Rank,
    SetOperation,
    Sink,
    Stateful,
    Union,
    Unnest,
)
from penstock.plan.planning import plan_job
from penstock.plan.walk import fold
from penstock.spi import WATERMARK
from penstock.types import IntervalType, NullType, RowType
from penstock.types.casts import is_alike
from penstock.types.logical import root


def check_job(job: Job) -> Job:
    """The job as it runs, which is checked, before and after."""
    check(*job.sinks)
    found = plan_job(job)
    check(*found.sinks)
    assert plan_job(found) == found
    uids = {id(node): node.uid for node in nodes(*found.sinks) if isinstance(node, Stateful)}
    assert all(uids.values())
    assert len(set(uids.values())) == len(uids)
    return found


def nodes(*roots: Node) -> list[Node]:
    """All nodes, each once, inputs first."""
    found: list[Node] = []
    fold(roots, lambda node, _: found.append(node))
    return found


def check(*roots: Node) -> None:
    """Every node has different columns of types that columns can have, and reads columns that its inputs have."""
    for node in nodes(*roots):
        _check(node)


def _check(node: Node) -> None:
    names = node.schema.names
    assert names, "a row without columns"
    assert len(set(names)) == len(names), f"{names}: a name twice"
    assert not any(isinstance(each.type, NullType | IntervalType) for each in node.schema.fields), str(node.schema)
    for each in node.expressions:
        _reads(each, node.inputs[0].schema)
        assert all(type(part).__module__ == "penstock.plan.expressions" for part in walk(each)), repr(each)
    match node:
        case Filter(condition=condition):
            assert node.schema == node.input.schema
            assert root(condition.type) == "BOOLEAN"
        case AssignWatermarks():
            assert node.schema == node.input.schema
        case Project(items=items):
            assert [(each.name, each.expression.type) for each in items] == [
                (f.name, f.type) for f in node.schema.fields
            ]
        case GroupAggregate(keys=keys, calls=calls):
            assert names == (*keys, *(each.name for each in calls))
            _has(node.input.schema, keys)
            for call in calls:
                _has(node.input.schema, [each for each in (call.argument, call.filter) if each is not None])
                assert call.argument is not None or (call.function == "COUNT" and not call.distinct)
                assert call.filter is None or root(_type(node.input.schema, call.filter)) == "BOOLEAN"
        case Join():
            _check_join(node)
        case Union(members=members):
            assert len(members) > 1
            for member in members:
                assert len(member.schema.fields) == len(names)
                for own, to in zip(member.schema.fields, node.schema.fields, strict=True):
                    assert is_alike(own.type, to.type), f"{own} is not {to}"
        case Normalize(keys=keys) | Deduplicate(keys=keys) | Materialize(keys=keys):
            assert node.schema == node.input.schema
            _has(node.schema, keys)
        case SetOperation(left=left, right=right):
            assert names == left.schema.names
            for one, other in zip(left.schema.fields, right.schema.fields, strict=True):
                assert is_alike(one.type, other.type), f"{one} and {other} are of different types"
        case OverAggregate(keys=keys, order=order, calls=calls, time=time):
            assert names == (*node.input.schema.names, *(each.name for each in calls))
            read = (name for each in calls for name in (each.argument, each.default) if name is not None)
            _has(node.input.schema, [*keys, *([time] if time else []), *(each.name for each in order), *read])
        case Rank(keys=keys, order=order, number=number):
            assert names == (*node.input.schema.names, *([number] if number else []))
            _has(node.input.schema, [*keys, *(each.name for each in order)])
        case Unnest(collection=collection, columns=columns):
            rest = tuple(each for each in node.input.schema.names if each != collection)
            assert names == (*rest, *columns)
            _has(node.input.schema, (collection,))
        case Sink():
            assert len(names) == len(node.input.schema.fields)


def _check_join(node: Join) -> None:
    left, right = node.left.schema, node.right.schema
    _has(left, node.left_keys)
    _has(right, node.right_keys)
    for one, other in zip(node.left_keys, node.right_keys, strict=True):
        assert is_alike(_type(left, one), _type(right, other)), f"{one} and {other} are of different types"
    nullable = (node.kind in (JoinKind.RIGHT, JoinKind.FULL), node.kind in (JoinKind.LEFT, JoinKind.FULL))
    given = [
        each.type.with_nullability(each.type.nullable or null)
        for side, null in zip((left, right), nullable, strict=True)
        for each in side.fields
    ]
    assert [each.type for each in node.schema.fields] == given


def _reads(expression: Expression, schema: RowType) -> None:
    for each in walk(expression):
        if isinstance(each, ColumnRef) and each.name != WATERMARK:  # a column that scans have beside their schema
            assert schema.field(each.name) is not None, f"{each.name} is not in {schema}"
            assert is_alike(each.type, _type(schema, each.name)), f"{each!r} is another type in {schema}"


def _has(schema: RowType, names: Iterable[str]) -> None:
    assert set(names) <= set(schema.names), f"{names} are not in {schema}"


def _type(schema: RowType, name: str):  # type: ignore[no-untyped-def]
    found = schema.field(name)
    assert found is not None
    return found.type
