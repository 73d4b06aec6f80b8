"""Facts about the rows of a node, from the capabilities of the scans that feed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.plan.expressions import Call, Cast, ColumnRef, Expression, columns_of
from penstock.plan.windowing import Attached, WindowColumns, Windowing
from penstock.spi import INSERTIONS
from penstock.types import RowKind
from penstock.types.casts import widens

#: A key: the columns whose values at most one row has.
Key = tuple[str, ...]
#: Kinds that a step may add to those of its input.
UPDATES = frozenset({RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER})
DELETIONS = frozenset({RowKind.DELETE})


@dataclass(frozen=True)
class Windowed:
    """The ``columns`` that say which window a row belongs to, and how the row was assigned to it."""

    columns: WindowColumns
    windowing: Windowing | Attached

    def rename_columns(self, names: Mapping[str, str]) -> Windowed:
        """The same for rows whose columns have other ``names``, by their names here; empty for missing columns."""
        return replace(self, columns=WindowColumns(*(names.get(each, "") for each in self.columns.names)))


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

    def has_key(self, columns: tuple[str, ...]) -> bool:
        """Whether at most one row has given values in these columns."""
        return any(set(key) <= set(columns) for key in self.upsert_keys)

    def filter_rows(self, condition: Expression) -> Traits:
        """The traits of the rows that meet a condition. An update to a row that it leaves out deletes the former row,
        unless the filter decides by a key, which no update changes."""
        if not self.kinds & UPDATES or any(columns_of(condition) <= set(key) for key in self.upsert_keys):
            return self
        return replace(self, kinds=self.kinds | DELETIONS)

    def rename_columns(self, names: Mapping[str, str]) -> Traits:
        """The traits of rows whose columns have other ``names``, by their names here, without the time attributes."""
        keys = (tuple(names.get(each, "") for each in key) for key in self.upsert_keys)
        return replace(
            self,
            rowtimes=(),
            proctimes=(),
            window=None,
            upsert_keys=tuple(dict.fromkeys(key for key in keys if "" not in key)),
        )

    def with_times_of(self, below: Traits, columns: Mapping[str, Expression]) -> Traits:
        """These traits with the time attributes and the window of rows with these computed ``columns``. The traits
        ``below`` say which: columns that pass unchanged, and calls of PROCTIME()."""
        passing = [(name, value.name) for name, value in columns.items() if isinstance(value, ColumnRef)]
        now = [name for name, each in columns.items() if isinstance(each, Call) and each.function == "PROCTIME"]
        window = (
            None
            if below.window is None
            else below.window.rename_columns({own: name for name, own in reversed(passing)})
        )
        return replace(
            self,
            rowtimes=tuple(name for name, own in passing if own in below.rowtimes),
            proctimes=(*(name for name, own in passing if own in below.proctimes), *now),
            window=window if window is not None and window.columns.start and window.columns.end else None,
        )


def source_column(expression: Expression) -> str:
    """The column that ``expression`` is an injective function of; empty if there is none."""
    while isinstance(expression, Cast) and widens(expression.operand.type, expression.type):
        expression = expression.operand
    return expression.name if isinstance(expression, ColumnRef) else ""
