"""Aggregate functions: which there are, and the types of their arguments and results, as in Flink."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.plan.expressions import Expression, walk
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import UnboundAggregate
from penstock.types import BIGINT, DataType, DecimalType, NullType
from penstock.types.casts import is_numeric, is_point
from penstock.types.logical import root

#: The functions that there are.
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")
_ORDERED = {"STRING", "BOOLEAN"}
_MAX_PRECISION = 38
#: The least scale of an average of decimals.
_LEAST_SCALE = 6


class Grouping(enum.Enum):
    """What aggregates are of: nothing, where there can be none, all rows, or the rows of each key."""

    NONE = "none"
    WHOLE = "whole"
    KEYS = "keys"


@dataclass(frozen=True)
class Aggregate(Expression):
    """An aggregate of the rows of a group: ``COUNT(*)``, which has no ``argument``, or ``SUM(DISTINCT argument) FILTER
    (WHERE filter)``. Exists while a query is bound; the plan has aggregates in nodes only."""

    function: str
    argument: Expression | None
    distinct: bool
    filter: Expression | None

    @property
    def operands(self) -> tuple[Expression, ...]:
        return tuple(each for each in (self.argument, self.filter) if each is not None)


@dataclass(frozen=True)
class GroupingBits(Expression):
    """GROUPING and GROUPING_ID: a bit for each of the ``args``, the first the highest, which is set where the row was
    not grouped by it. Exists while a query is bound."""

    args: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.args

    def number(self, keys: Sequence[Expression]) -> int:
        """The value for rows that were grouped by ``keys``."""
        found = 0
        for each in self.args:
            found = found * 2 + (each not in keys)
        return found


def aggregates_in(expression: Expression) -> bool:
    """Whether an expression has an aggregate in it."""
    return any(isinstance(each, Aggregate) for each in walk(expression))


def aggregate(
    call: UnboundAggregate,
    args: Sequence[Expression],
    condition: Expression | None,
    grouping: Grouping,
    source: SourceText,
) -> Aggregate:
    """The aggregate that ``call`` writes. Raises SqlError for other arguments, and UnsupportedError for a function that
    only Flink has."""
    name = call.name
    if name not in FUNCTIONS:
        raise source.unsupported(call.at, f"aggregate {name} is not supported", f"there are {', '.join(FUNCTIONS)}")
    if len(args) > 1 or (not args and name != "COUNT"):
        given = len(args) or "'*'"
        raise source.error(call.at, f"{name} takes one argument, not {given}", "aggregate one value")
    argument = args[0] if args else None
    distinct = call.distinct and name not in ("MIN", "MAX")  # which it does not change
    place = source.at(call.at)
    if argument is None or name == "COUNT":
        if argument is not None and not argument.type.nullable and not distinct:
            argument = None  # it counts rows
        return Aggregate(name, argument, distinct, condition, type=BIGINT.with_nullability(False), place=place)
    if not _takes(name, argument.type):
        expected = "a number" if name in ("SUM", "AVG") else "a number, STRING, BOOLEAN, date or time"
        raise source.error(call.args[0].at, f"{name} takes {expected}, not {argument.type.text()}", "CAST it")
    nullable = argument.type.nullable or grouping is not Grouping.KEYS or condition is not None
    result = _result(name, argument.type).with_nullability(nullable)
    return Aggregate(name, argument, distinct, condition, type=result, place=place)


def _takes(function: str, given: DataType) -> bool:
    if isinstance(given, NullType):
        return False
    return is_numeric(given) or (function in ("MIN", "MAX") and (is_point(given) or root(given) in _ORDERED))


def _result(function: str, given: DataType) -> DataType:
    """The type of the value: that of the argument, except that of decimals, which have the most digits that there
    are."""
    if not isinstance(given, DecimalType) or function in ("MIN", "MAX"):
        return given
    return DecimalType(_MAX_PRECISION, given.scale if function == "SUM" else max(given.scale, _LEAST_SCALE))
