"""Expressions and queries after parsing, before their names are bound to columns and functions.

Every expression carries ``at``, the offset of its first character. Operators are calls under their own sign.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes import JoinKind, SetKind
from penstock.sql.parse.tokens import Token
from penstock.types import DataType


@dataclass(frozen=True)
class Unbound:
    """An expression."""

    at: int


@dataclass(frozen=True)
class UnboundLiteral(Unbound):
    """A constant. ``form`` is NUMBER, STRING, BYTES, BOOLEAN, NULL, DATE, TIME, TIMESTAMP, or INTERVAL with its unit,
    as in ``INTERVAL DAY TO SECOND``. ``text`` has no quotes; the text of a number or an interval has its sign."""

    form: str
    text: str


@dataclass(frozen=True)
class Name:
    """One identifier."""

    text: str
    at: int


@dataclass(frozen=True)
class UnboundName(Unbound):
    """``column``, ``alias.column`` or ``column.field``. Only a schema distinguishes them."""

    parts: tuple[Name, ...]


@dataclass(frozen=True)
class UnboundField(Unbound):
    """A field of a computed row: ``a[1].name``."""

    base: Unbound
    name: Name


@dataclass(frozen=True)
class UnboundCall(Unbound):
    """A function or operator, by its upper-case name or sign; ``[]`` is an element of an array, or a value of a map.
    Predicates may be ``negated``: NOT IN, IS NOT NULL. The arguments of ``CASE`` are as in the plan. ``spaces`` are the
    catalog and the database of a function, or the database, where they are written."""

    name: str
    args: tuple[Unbound, ...]
    negated: bool = False
    spaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnboundAggregate(Unbound):
    """An aggregate function, by its upper-case name: ``COUNT(*)``, which has no arguments, or ``SUM(DISTINCT x) FILTER
    (WHERE y)``. ``nulls`` is RESPECT or IGNORE where that is written."""

    name: str
    args: tuple[Unbound, ...]
    distinct: bool = False
    filter: Unbound | None = None
    nulls: str = ""


@dataclass(frozen=True)
class SortKey:
    """One entry of ORDER BY. Without NULLS FIRST or LAST, NULL is the smallest value."""

    expression: Unbound
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class FrameBound:
    """Where a frame begins or ends: a number of rows, or a distance, ``before`` or after a row; None is UNBOUNDED.
    CURRENT ROW is neither."""

    at: int
    offset: Unbound | None = None
    before: bool = False
    current: bool = False


@dataclass(frozen=True)
class UnboundFrame:
    """``ROWS`` or ``RANGE BETWEEN start AND end``."""

    at: int
    rows: bool
    start: FrameBound
    end: FrameBound


@dataclass(frozen=True)
class OverWindow:
    """The rows around a row: ``([base] PARTITION BY partition ORDER BY order frame)``, where ``base`` is the name of a
    window of the query that this one adds to."""

    at: int
    partition: tuple[Unbound, ...]
    order: tuple[SortKey, ...]
    base: Name | None = None
    frame: UnboundFrame | None = None


@dataclass(frozen=True)
class UnboundOver(Unbound):
    """A function over other rows: ``ROW_NUMBER() OVER (..)``, ``SUM(DISTINCT x) OVER (..)``, or OVER the name of a
    window of the query. ``nulls`` is RESPECT or IGNORE where that is written."""

    name: str
    args: tuple[Unbound, ...]
    window: OverWindow | Name
    distinct: bool = False
    nulls: str = ""


@dataclass(frozen=True)
class UnboundSubquery(Unbound):
    """``EXISTS (query)``, ``operand [NOT] IN (query)``, or with ``only`` a query whose only value is meant."""

    query: UnboundQuery
    operand: Unbound | None = None
    negated: bool = False
    only: bool = False


@dataclass(frozen=True)
class UnboundCast(Unbound):
    """CAST, or with ``safe`` TRY_CAST."""

    operand: Unbound
    target: DataType
    safe: bool


@dataclass(frozen=True)
class Star(Unbound):
    """``*``, ``alias.*`` or ``row.*``, with the names before the star, which may be several: ``alias.row.*``."""

    parts: tuple[Name, ...] = ()


@dataclass(frozen=True)
class SelectItem:
    """One entry of a select list."""

    expression: Unbound
    alias: Name | None


@dataclass(frozen=True)
class TableName:
    """The name of a table, with the names of its catalog and its database, or of the latter alone, if they are
    written."""

    name: str
    at: int
    spaces: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """All parts of the name."""
        return (*self.spaces, self.name)

    @property
    def text(self) -> str:
        """The name as errors show it."""
        return ".".join(self.path)


@dataclass(frozen=True)
class NamedQuery:
    """A query of WITH: ``name [(columns)] AS (query)``."""

    name: Name
    columns: tuple[Name, ...]
    query: UnboundQuery


@dataclass(frozen=True)
class UnboundSource:
    """What a query reads: an entry of FROM. ``at`` is the offset of its first character."""

    at: int


@dataclass(frozen=True)
class Hint:
    """A hint in ``/*+ .. */``, by its upper-case name: ``NAME('key' = 'value')``, or ``NAME(a, b)``, which has no
    ``options``."""

    name: Name
    options: tuple[tuple[Token, Token], ...]


@dataclass(frozen=True)
class UnboundTable(UnboundSource):
    """``table [/*+ hints */] [AS alias [(columns)]]``."""

    table: TableName
    alias: Name | None = None
    columns: tuple[Name, ...] = ()
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class UnboundDerived(UnboundSource):
    """``[LATERAL] (query) [AS alias [(columns)]]``; with LATERAL, it may read columns of the tables before it."""

    query: UnboundQuery
    alias: Name | None = None
    columns: tuple[Name, ...] = ()
    lateral: bool = False


@dataclass(frozen=True)
class UnboundUnnest(UnboundSource):
    """``UNNEST(collection) [WITH ORDINALITY] [AS alias [(columns)]]``, of a value of the tables before it."""

    collection: Unbound
    numbered: bool = False
    alias: Name | None = None
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True)
class UnboundJoin(UnboundSource):
    """``left [kind] JOIN right [ON condition | USING (columns)]``; with ``natural`` the columns are those that both
    have. A comma in FROM is an inner join without a condition. ``at`` is the offset of the first word of JOIN."""

    kind: JoinKind
    left: UnboundSource
    right: UnboundSource
    condition: Unbound | None = None
    using: tuple[Name, ...] = ()
    natural: bool = False


@dataclass(frozen=True)
class UnboundWindow(UnboundSource):
    """``TABLE(function(TABLE table [PARTITION BY keys], DESCRIPTOR(time), lengths)) [AS alias [(columns)]]``, with the
    lengths by the names of their parameters."""

    function: str
    table: UnboundSource
    time: Name
    lengths: tuple[tuple[str, Unbound], ...]
    keys: tuple[Name, ...] = ()
    alias: Name | None = None
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True)
class UnboundQuery:
    """A query. ``at`` is the offset of its first character."""

    at: int


@dataclass(frozen=True)
class UnboundSelect(UnboundQuery):
    """``SELECT [/*+ hints */] [DISTINCT] items [FROM source] [WHERE condition] [GROUP BY grouping] [HAVING having]
    [WINDOW windows]``. ``grouping`` is None without GROUP BY, and has a set of expressions for each of GROUPING
    SETS."""

    items: tuple[SelectItem, ...]
    source: UnboundSource | None
    condition: Unbound | None = None
    grouping: tuple[tuple[Unbound, ...], ...] | None = None
    having: Unbound | None = None
    distinct: bool = False
    hints: tuple[Hint, ...] = ()
    windows: tuple[tuple[Name, OverWindow], ...] = ()


@dataclass(frozen=True)
class UnboundValues(UnboundQuery):
    """``VALUES (1, 'a'), (2, 'b')``."""

    rows: tuple[tuple[Unbound, ...], ...]


@dataclass(frozen=True)
class UnboundUnion(UnboundQuery):
    """``left UNION [ALL] right``."""

    left: UnboundQuery
    right: UnboundQuery
    all: bool


@dataclass(frozen=True)
class UnboundSetOperation(UnboundQuery):
    """``left INTERSECT [ALL] right`` or ``left EXCEPT [ALL] right``."""

    left: UnboundQuery
    right: UnboundQuery
    kind: SetKind


@dataclass(frozen=True)
class UnboundSorted(UnboundQuery):
    """``query [ORDER BY order] [LIMIT limit] [OFFSET offset]``. ``clause`` is the offset of what follows the query."""

    query: UnboundQuery
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int
    clause: int


@dataclass(frozen=True)
class UnboundWith(UnboundQuery):
    """``WITH tables body``: each table sees those before it."""

    tables: tuple[NamedQuery, ...]
    body: UnboundQuery
