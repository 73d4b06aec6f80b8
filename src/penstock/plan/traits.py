"""Facts about a node's rows, from the capabilities of the scans that feed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.plan.expressions import Call, Cast, ColumnRef, Expression, columns_of
from penstock.plan.nodes import (
    AssignWatermarks,
    DeadLetters,
    Deduplicate,
    Filter,
    GroupAggregate,
    InWindows,
    Item,
    Join,
    JoinKind,
    MapRows,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    Project,
    Rank,
    Ranking,
    Scan,
    SessionTable,
    SetKind,
    SetOperation,
    Sink,
    Sort,
    TemporalSort,
    Union,
    Unnest,
    WindowAggregate,
    WindowTable,
    items_of,
)
from penstock.plan.walk import fold
from penstock.plan.windowing import Attached, WindowColumns, Windowing
from penstock.spi import CHANGES, INSERTIONS
from penstock.types import RowKind
from penstock.types.casts import widens

#: A key: the columns whose values at most one row has.
Key = tuple[str, ...]
_UPDATES = frozenset({RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER})
_DELETE = frozenset({RowKind.DELETE})


@dataclass(frozen=True)
class Windowed:
    """The ``columns`` of rows that say which window a row belongs to, and how it was assigned to it."""

    columns: WindowColumns
    windowing: Windowing | Attached


@dataclass(frozen=True, kw_only=True)
class Traits:
    """``kinds`` are the row kinds that a node gives. ``bounded``: whether its rows end. ``rowtimes`` and ``proctimes``
    are the columns that are time attributes: event time that watermarks follow, and processing time. ``window``
    has the columns of the window that each row belongs to, and how it was assigned to it.

    ``upsert_keys`` are the keys of the table that the rows make up, such that all changes of a key's row come in order;
    the empty key means a table of one row. ``stateful``: whether the rows depend on those before them, are in windows
    or come from collections.
    """

    kinds: frozenset[RowKind]
    bounded: bool
    rowtimes: tuple[str, ...] = ()
    proctimes: tuple[str, ...] = ()
    window: Windowed | None = None
    upsert_keys: tuple[Key, ...] = ()
    stateful: bool = False

    @property
    def changing(self) -> bool:
        """Whether rows are updated or deleted."""
        return not self.kinds <= INSERTIONS


def traits(node: Node) -> Traits:
    """The traits of the rows of ``node``."""
    return fold((node,), own_traits)[0]


def own_traits(node: Node, inputs: tuple[Traits, ...]) -> Traits:
    """The traits of the rows of ``node``, from those of its inputs."""
    match node, inputs:
        case Scan(), ():
            can = node.spec.capabilities
            key = can.upsert_keys or node.key
            return Traits(kinds=can.kinds, bounded=can.bounded, upsert_keys=(key,) if key else ())
        case AssignWatermarks(column=column), (below,):
            return replace(below, rowtimes=(column,))
        case DeadLetters(), (below,):
            return Traits(kinds=INSERTIONS, bounded=below.bounded)
        case Filter(condition=condition), (below,):
            return replace(below, kinds=below.kinds | _left_out(condition, below))
        case Sink(), (below,):
            return _renamed(below, dict(zip(node.input.schema.names, node.schema.names, strict=False)))
        case Project(items=items), (below,):
            names: dict[str, str] = {}
            for each in items:  # of equal columns, the first counts
                names.setdefault(_kept(each.expression), each.name)
            return replace(_renamed(below, names), **_times(items, below))
        case MapRows(), (below,):
            return Traits(kinds=below.kinds, bounded=below.bounded, stateful=below.stateful)
        case GroupAggregate(keys=keys, calls=calls), (below,):
            kinds = INSERTIONS | (_UPDATES if calls else INSERTIONS) | (_DELETE if below.changing else INSERTIONS)
            return Traits(kinds=kinds, bounded=below.bounded, upsert_keys=(keys,), stateful=True)
        case WindowTable(columns=columns, windowing=windowing), (below,):
            times = (*below.rowtimes, columns.time)
            found = tuple((*key, columns.start, columns.end) for key in below.upsert_keys)
            own = Windowed(columns, windowing)
            if isinstance(node, SessionTable):  # given once, when the session closes
                below = replace(below, kinds=INSERTIONS)
            if windowing.processing:
                proctimes = (*below.proctimes, columns.time)
                return replace(below, proctimes=proctimes, window=own, upsert_keys=found, stateful=True)
            return replace(below, rowtimes=times, window=own, upsert_keys=found, stateful=True)
        case Unnest(columns=columns), (below,):
            kept = node.schema.select(tuple(each for each in node.schema.names if each not in columns))
            return replace(_renamed(below, {}), **_times(items_of(kept), below), stateful=True)
        case WindowAggregate(keys=keys, columns=columns, windowing=windowing), (below,):
            return Traits(
                kinds=INSERTIONS,
                bounded=below.bounded,
                rowtimes=() if windowing.processing else (columns.time,),
                proctimes=(columns.time,) if windowing.processing else (),
                window=Windowed(columns, windowing),
                upsert_keys=((*keys, columns.start, columns.end),),
                stateful=True,
            )
        case InWindows(inner=inner), _:
            return _in_windows(inner, own_traits(inner, inputs), inputs)
        case Join(), (left, right):
            return _joined(node, left, right)
        case Union(), _:
            kinds = frozenset[RowKind]().union(*(each.kinds for each in inputs))
            return Traits(
                kinds=kinds,
                bounded=all(each.bounded for each in inputs),
                rowtimes=_common(node, [each.rowtimes for each in inputs]),
                proctimes=_common(node, [each.proctimes for each in inputs]),
                window=_same_window(node, inputs),
                stateful=any(each.stateful for each in inputs),
            )
        case SetOperation(kind=kind), (left, right):
            return _compared(node, kind, left, right)
        case ((Normalize(keys=keys) | Materialize(keys=keys)), (below,)):
            return replace(below, kinds=CHANGES, upsert_keys=(keys,), stateful=True)
        case Deduplicate(keys=keys, last=last), (below,):
            kinds = below.kinds | (_UPDATES if last else INSERTIONS)
            return replace(below, kinds=kinds, upsert_keys=(keys,), stateful=True)
        case OverAggregate(keys=keys), (below,):
            if node.by_time:
                return replace(below, stateful=True)
            found = tuple(key for key in below.upsert_keys if set(keys) <= set(key))
            kinds = below.kinds | INSERTIONS | _UPDATES
            return replace(below, kinds=kinds, upsert_keys=found, stateful=True)
        case ((TemporalSort() | Sort()), (below,)):
            return replace(below, stateful=True)
        case Rank(), (below,):
            return _ranked(node, below)
    raise TypeError(f"unknown plan node {type(node).__name__}")


def _in_windows(inner: Node, own: Traits, inputs: tuple[Traits, ...]) -> Traits:
    """The traits of rows that are given when their window closes: those of the window are those of the first input."""
    first = inputs[0]
    names = dict(zip(inner.inputs[0].schema.names, inner.schema.names, strict=False))
    window = first.window
    if window is not None:
        start, end, time = (names.get(each, "") for each in window.columns.names)
        window = replace(window, columns=WindowColumns(start, end, time))
    rowtimes = tuple(names[each] for each in first.rowtimes if each in names)
    return replace(own, kinds=INSERTIONS, rowtimes=rowtimes, proctimes=(), window=window)


def _left_out(condition: Expression, below: Traits) -> frozenset[RowKind]:
    """The kinds that a filter adds: an update to a row that it leaves out deletes the former row, unless the filter
    decides by a key, which no update changes."""
    if not below.kinds & _UPDATES or any(columns_of(condition) <= set(key) for key in below.upsert_keys):
        return frozenset()
    return _DELETE


def _kept(expression: Expression) -> str:
    """The column of which ``expression`` is an injective function; nothing if it is none."""
    while isinstance(expression, Cast) and widens(expression.operand.type, expression.type):
        expression = expression.operand
    return expression.name if isinstance(expression, ColumnRef) else ""


def _times(items: tuple[Item, ...], below: Traits) -> dict[str, Any]:
    """The time attributes and the window of a projection: columns that pass unchanged, and calls of PROCTIME()."""
    passing = [(each.name, each.expression.name) for each in items if isinstance(each.expression, ColumnRef)]
    now = [each.name for each in items if isinstance(each.expression, Call) and each.expression.function == "PROCTIME"]
    names = {own: name for name, own in reversed(passing)}
    window = below.window
    if window is not None:
        start, end, time = (names.get(each, "") for each in window.columns.names)
        window = replace(window, columns=WindowColumns(start, end, time)) if start and end else None
    return {
        "rowtimes": tuple(name for name, own in passing if own in below.rowtimes),
        "proctimes": (*(name for name, own in passing if own in below.proctimes), *now),
        "window": window,
    }


def _common(union: Union, times: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The columns of a union that are time attributes of all members."""
    members = zip(union.members, times, strict=True)
    places = [{member.schema.names.index(each) for each in own} for member, own in members]
    return tuple(union.schema.names[each] for each in sorted(set.intersection(*places)))


def _renamed(below: Traits, names: Mapping[str, str]) -> Traits:
    """The traits of rows whose columns have other ``names``, by those below."""
    keys = (tuple(names.get(each, "") for each in key) for key in below.upsert_keys)
    return replace(
        below,
        rowtimes=(),
        proctimes=(),
        window=None,
        upsert_keys=tuple(dict.fromkeys(key for key in keys if "" not in key)),
    )


def _joined(join: Join, left: Traits, right: Traits) -> Traits:
    """The traits of a join's rows. As in Flink, the rows of a join key are at one place, so only keys with the join
    key in them keep their order."""
    if join.kind in (JoinKind.SEMI, JoinKind.ANTI):
        bounded = left.bounded and right.bounded
        return Traits(kinds=CHANGES, bounded=bounded, upsert_keys=left.upsert_keys, stateful=True)
    plain = join.kind is JoinKind.INNER and not left.changing and not right.changing
    names = join.schema.names
    count = len(join.left.schema.names)
    lefts = dict(zip(join.left.schema.names, names[:count], strict=True))
    rights = dict(zip(join.right.schema.names, names[count:], strict=True))
    of_left = [key for key in left.upsert_keys if set(key) >= set(join.left_keys)]
    of_right = [key for key in right.upsert_keys if set(key) >= set(join.right_keys)]
    keys: list[Key] = []
    if join.kind in (JoinKind.INNER, JoinKind.LEFT):
        # The columns of the right join key equal those of the left row.
        rest = [tuple(rights[each] for each in key if each not in join.right_keys) for key in of_right]
        keys += [(*(lefts[each] for each in key), *more) for key in of_left for more in rest]
        keys += [tuple(lefts[each] for each in key) for key in of_left if _unique(right, join.right_keys)]
    if join.kind in (JoinKind.INNER, JoinKind.RIGHT):
        rest = [tuple(lefts[each] for each in key if each not in join.left_keys) for key in of_left]
        keys += [(*more, *(rights[each] for each in key)) for more in rest for key in of_right]
        keys += [tuple(rights[each] for each in key) for key in of_right if _unique(left, join.left_keys)]
    if join.kind is JoinKind.FULL:
        keys += [
            (*(lefts[each] for each in one), *(rights[each] for each in other)) for one in of_left for other in of_right
        ]
    return Traits(
        kinds=INSERTIONS if plain else CHANGES,
        bounded=left.bounded and right.bounded,
        upsert_keys=tuple(dict.fromkeys(keys)),
        stateful=True,
    )


def _same_window(union: Node, members: tuple[Traits, ...]) -> Windowed | None:
    """The window of the rows of a union, if all members have it in the same columns."""
    first = members[0].window
    same = all(each.window == first for each in members)
    return first if same and all(each.schema.names == union.schema.names for each in union.inputs) else None


def _compared(node: SetOperation, kind: SetKind, left: Traits, right: Traits) -> Traits:
    """The traits of rows that are compared with those of another side: they are added and removed, and never
    updated."""
    keeps = kind in (SetKind.INTERSECT, SetKind.INTERSECT_ALL, SetKind.SEMI)
    grows = keeps and not left.changing and not right.changing
    once = kind in (SetKind.INTERSECT, SetKind.EXCEPT)
    return Traits(
        kinds=INSERTIONS if grows else INSERTIONS | _DELETE,
        bounded=left.bounded and right.bounded,
        upsert_keys=(node.schema.names,) if once else (),
        stateful=True,
    )


def _ranked(rank: Rank, below: Traits) -> Traits:
    """The traits of the rows with the first numbers. Those of one key are at one place."""
    found = [key for key in below.upsert_keys if set(rank.keys) <= set(key)]
    if rank.ranking is not Ranking.ROW_NUMBER:  # several rows have one number
        pass
    elif rank.first == rank.last:
        found.insert(0, rank.keys)
    elif rank.number:
        found.append((*rank.keys, rank.number))
    if not (rank.order or rank.latest or below.changing):  # the first rows to arrive are never replaced
        return replace(below, upsert_keys=tuple(dict.fromkeys(found)), stateful=True)
    # Without changes below, a number stays with its row, unless several rows have it.
    stays = rank.number and rank.ranking is Ranking.ROW_NUMBER and not below.changing
    gone = INSERTIONS if stays else _DELETE
    return replace(below, kinds=INSERTIONS | _UPDATES | gone, upsert_keys=tuple(dict.fromkeys(found)), stateful=True)


def _unique(side: Traits, columns: tuple[str, ...]) -> bool:
    """Whether at most one row of a side has given values in ``columns``."""
    return any(set(key) <= set(columns) for key in side.upsert_keys)
