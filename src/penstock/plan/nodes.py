"""The plan: frozen nodes that SQL, YAML and Python lower to, and the only input of the engine.

The same job written in all three gives equal plans.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

from penstock.plan.expressions import Expression, Place, fields_of
from penstock.plan.windowing import Attached, WindowColumns, Windowing
from penstock.settings import Settings
from penstock.spi import ScanSpec, SinkSpec
from penstock.types import DataType, Field, RowType


@dataclass(frozen=True)
class Node:
    """A step that gives rows of ``schema``, from the rows of its ``inputs``.

    A checkpoint finds the node by its ``uid`` after other steps of the job changed; users may set it.
    """

    schema: RowType
    uid: str = field(default="", kw_only=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that feed this one."""
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        """This node with other inputs."""
        assert not inputs, f"{type(self).__name__} has no inputs"  # noqa: S101
        return self


@dataclass(frozen=True)
class Step(Node):
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        (only,) = inputs
        return self if only is self.input else replace(self, input=only)


@dataclass(frozen=True)
class TwoInputs(Node):
    """A node with two inputs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        left, right = inputs
        return self if left is self.left and right is self.right else replace(self, left=left, right=right)


@dataclass(frozen=True)
class Scan(Node):
    """Reads a table. ``spec`` is the connector's own frozen description. The default ``uid`` is the table's name.
    ``key`` has the columns of the table's PRIMARY KEY, which is not checked."""

    table: str
    connector: str
    spec: ScanSpec
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Filter(Step):
    """Keeps the rows for which ``condition`` is true. The schema is the input's."""

    condition: Expression


@dataclass(frozen=True)
class Item:
    """One column of a projection."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Project(Step):
    """Computes new columns. ``schema`` names and types them, in the order of ``items``."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class AssignWatermarks(Step):
    """Names the ``column`` with the event time of the rows, and the ``watermark`` (a TIMESTAMP) after a row, for
    sources that do not measure it. The schema is the input's."""

    column: str
    watermark: Expression


@dataclass(frozen=True)
class MapRows(Step):
    """Applies a user-defined Python function to each row: ``rows`` takes an iterator of tuples and returns one."""

    rows: Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class DeadLetters(Step):
    """The records that the scan below could not decode, instead of its rows."""


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of a group: ``function`` (``COUNT``, ``SUM``, ``AVG``, ``MIN``, ``MAX``, ``FIRST_VALUE``,
    ``LAST_VALUE``, ``LISTAGG``, ``ARRAY_AGG``, ``COLLECT``, ``SINGLE_VALUE``) of the input's column ``argument`` (None:
    of the rows), as the column ``name`` of ``type``. With ``distinct`` equal values count once; rows in which the
    BOOLEAN column ``filter`` is not true do not count, and values that are null count with ``nulls`` only. LISTAGG puts
    the ``separator`` between the values. ``place`` is that of the text, for errors."""

    name: str
    function: str
    type: DataType
    argument: str | None = None
    distinct: bool = False
    filter: str | None = None
    nulls: bool = False
    separator: str = ""
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class GroupAggregate(Step):
    """Groups rows by the columns ``keys``. ``schema`` has the keys, then the ``calls``. Without keys there is one
    group. ``ttl`` is the time to live of its state; None for that of the job, zero for rows that are kept forever."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    ttl: timedelta | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class WindowTable(Step):
    """Gives each row once for each window of event time that it is in. ``schema`` has the columns of the input, then
    the ``columns`` of the window."""

    windowing: Windowing
    columns: WindowColumns


@dataclass(frozen=True)
class SessionTable(WindowTable):
    """The same for sessions: rows are given when their session closes."""


@dataclass(frozen=True)
class WindowAggregate(Step):
    """Groups the rows of each window by the columns ``keys``, and gives its groups when it closes. ``schema`` has the
    keys, then the ``calls``, then the ``columns`` of the window."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    windowing: Windowing | Attached
    columns: WindowColumns


@dataclass(frozen=True)
class Unnest(Step):
    """Gives each row once for each element of its column ``collection``, which is dropped: of an ARRAY, a MAP or a
    MULTISET; with ``outer`` once without an element if there is none. ``schema`` has the other columns of the input,
    then ``columns``: the element or, of a row, its fields, or the key and the value, and with ``numbered`` its number,
    counted from 1."""

    collection: str
    columns: tuple[str, ...]
    outer: bool = False
    numbered: bool = False


class JoinKind(enum.Enum):
    """Which rows without a match a join keeps; SEMI and ANTI give the left rows with a match, or without one, and no
    columns of the right."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Join(TwoInputs):
    """Pairs the rows of ``left`` and ``right`` whose keys are equal and not null. ``schema`` has the columns of the
    left, then those of the right, under names of its own. ``left_ttl`` and ``right_ttl`` are the times to live of the
    rows of each side, as of :class:`GroupAggregate`. Only within :class:`InWindows`, rows may have to meet a
    ``condition`` too, which reads columns of both sides by their own names, all of them different; and the kind may be
    SEMI or ANTI."""

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    condition: Expression | None = field(default=None, kw_only=True)
    left_ttl: timedelta | None = field(default=None, kw_only=True)
    right_ttl: timedelta | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Union(Node):
    """The rows of all ``members`` (UNION ALL), whose columns correspond by position and have the types of
    ``schema``."""

    members: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.members

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        same = all(new is old for new, old in zip(inputs, self.members, strict=True))
        return self if same else replace(self, members=tuple(inputs))


class SetKind(enum.Enum):
    """Which rows of the left side are in a result, by the equal rows of the right side; NULL is equal to NULL.
    INTERSECT and EXCEPT give each row once, SEMI and ANTI as often as it is on the left side."""

    INTERSECT = "intersect"
    INTERSECT_ALL = "intersect all"
    EXCEPT = "except"
    EXCEPT_ALL = "except all"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class SetOperation(TwoInputs):
    """Rows of ``left`` that are, or are not, rows of ``right`` too, whose columns correspond by position and have the
    same types. The schema is that of ``left``."""

    kind: SetKind


@dataclass(frozen=True)
class Normalize(Step):
    """Makes a full changelog of upserts and deletions by the primary key ``keys``, or of a changelog with repeated
    changes. The schema is the input's."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Deduplicate(Step):
    """Keeps the first or, with ``last``, the last row of each key by the event time in ``order`` (empty: by arrival).
    The schema is the input's."""

    keys: tuple[str, ...]
    order: str = ""
    last: bool = False

    @property
    def by_watermark(self) -> bool:
        """Whether rows are given when the watermark reaches them: first ones by event time, which are final then."""
        return bool(self.order) and not self.last


@dataclass(frozen=True)
class SortColumn:
    """A column that rows are ordered by."""

    name: str
    descending: bool = False
    nulls_first: bool = True


class Ranking(enum.Enum):
    """How rows are numbered: each by its own number, or equal ones by the same, after which numbers are skipped, or
    not."""

    ROW_NUMBER = "row number"
    RANK = "rank"
    DENSE_RANK = "dense rank"


@dataclass(frozen=True)
class Rank(Step):
    """Orders the rows of each key by the columns ``order``, and keeps those from the number ``first`` to ``last``, both
    counted from 1, by this ``ranking``. Rows that are equal there are in the order of arrival, with ``latest`` in
    reverse. ``schema`` has the input's columns, then, if it has a name, the ``number``."""

    keys: tuple[str, ...]
    order: tuple[SortColumn, ...]
    first: int
    last: int
    number: str = ""
    latest: bool = False
    ranking: Ranking = Ranking.ROW_NUMBER


@dataclass(frozen=True)
class Frame:
    """The rows that an aggregate with OVER is over: from the offset ``start`` to the offset ``end`` of a row, which are
    below 0 before it; None without a bound. Offsets of ``rows`` count rows. Others are of the values that rows are
    ordered by, in milliseconds where that is a time: at 0 begin, or end, the rows that are equal to the row."""

    rows: bool = False
    start: int | Decimal | None = None
    end: int | Decimal | None = 0

    def describe(self) -> str:
        """The frame as SQL has it, without its unit of time."""
        ends = f"{_bound(self.start, 'PRECEDING')} AND {_bound(self.end, 'FOLLOWING')}"
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {ends}"

    @property
    def running(self) -> bool:
        """Whether it has all rows before the row."""
        return self.start is None and self.end == 0


def _bound(offset: int | Decimal | None, way: str) -> str:
    if offset is None:
        return f"UNBOUNDED {way}"
    if not offset:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


@dataclass(frozen=True)
class OverCall(AggregateCall):
    """A function with OVER: an aggregate, or one that only OVER has (``ROW_NUMBER``, ``RANK``, ``DENSE_RANK``,
    ``PERCENT_RANK``, ``CUME_DIST``, ``NTILE``, ``LAG``, ``LEAD``). ``number`` is that of groups of NTILE, or how many
    rows LAG and LEAD go back or forward; where there is no such row they give the column ``default``, or NULL."""

    number: int = 1
    default: str | None = None


@dataclass(frozen=True)
class OverAggregate(Step):
    """Gives each row with the results of ``calls`` for its ``frame`` among the rows with its ``keys``, which are in
    this ``order``, equal ones as they came. ``schema`` has the columns of the input, then the calls.

    With the event time in ``time``, or by ``processing`` time, which the order begins with then, rows are only added: a
    result is final. Otherwise the results of other rows change with each row, unless all rows are there at once."""

    keys: tuple[str, ...]
    order: tuple[SortColumn, ...]
    calls: tuple[OverCall, ...]
    frame: Frame
    time: str = ""
    processing: bool = False

    @property
    def by_time(self) -> bool:
        """Whether results are final."""
        return bool(self.time) or self.processing


@dataclass(frozen=True)
class TemporalSort(Step):
    """Gives rows that are only added in the order of the event time in ``time``, when the watermark reaches them, and
    equal ones in the order of the columns ``order``; without ``time`` the rows of each batch in the order of ``order``.
    Rows that are equal there are in the order in which they came. The schema is the input's."""

    time: str
    order: tuple[SortColumn, ...]


@dataclass(frozen=True)
class Sort(Step):
    """Gives the rows of the only batch in the order of the columns ``order``, equal ones as they came. The schema is
    the input's."""

    order: tuple[SortColumn, ...]


@dataclass(frozen=True)
class Materialize(Step):
    """The last row of each key to arrive, of those that were not retracted. The schema is the input's."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class InWindows(Node):
    """What ``inner`` makes of the rows of each window, given when the window closes. Its inputs have the ``windows`` in
    their columns, and only add rows. The schema is that of ``inner``."""

    inner: Node
    windows: tuple[Attached, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inner.inputs

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        inner = self.inner.with_inputs(inputs)
        return self if inner is self.inner else replace(self, schema=inner.schema, inner=inner)


#: The nodes that keep state.
STATEFUL = (
    GroupAggregate
    | WindowAggregate
    | SessionTable
    | InWindows
    | Join
    | Normalize
    | Deduplicate
    | Rank
    | SetOperation
    | OverAggregate
    | TemporalSort
    | Sort
    | Materialize
)


@dataclass(frozen=True)
class Sink(Step):
    """Writes the input's rows to a table; columns are matched by position and cast to ``schema``. ``deduplicates``: the
    statement has ON CONFLICT DO DEDUPLICATE. ``at`` is the place of the statement in its file."""

    table: str
    connector: str
    spec: SinkSpec
    deduplicates: bool = False
    at: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """The statement and the table, for errors."""
        return f"{self.at}: table '{self.table}'" if self.at else f"table '{self.table}'"


@dataclass(frozen=True)
class Job:
    """Everything that one ``execute`` starts: one Spark query with any number of sinks."""

    name: str
    sinks: tuple[Sink, ...]
    settings: Settings = field(default_factory=Settings)


def project(node: Node, items: tuple[Item, ...]) -> Node:
    """``node`` with these columns; ``node`` itself if they are its own columns, unchanged and in order."""
    return node if items == items_of(node.schema) else Project(row_of(items), node, items)


def row_of(items: tuple[Item, ...]) -> RowType:
    """The row type of a projection."""
    return RowType(tuple(Field(each.name, each.expression.type) for each in items), nullable=False)


def items_of(row: RowType) -> tuple[Item, ...]:
    """The columns of a row, unchanged."""
    return tuple(Item(each.name, each) for each in fields_of(row))
