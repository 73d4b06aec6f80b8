"""Functions with OVER as expressions, while a query is bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from penstock.plan.expressions import Expression, Literal, coerce, rewrite, walk
from penstock.plan.nodes import Frame, SortColumn
from penstock.sql.bind.expressions.aggregates import Aggregate, Grouping, aggregate
from penstock.sql.bind.expressions.row_numbers import RowNumber
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import FrameBound, OverWindow, UnboundAggregate, UnboundFrame, UnboundOver
from penstock.sql.parse.vocabulary import RANKINGS
from penstock.types import BIGINT, DOUBLE, NullType
from penstock.types.casts import is_integer, is_numeric, is_point
from penstock.types.logical import root

#: Functions of all rows of a partition, including the rows after a row, which streams do not have yet.
_OF_WHOLE = ("LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST")
_MILLI = timedelta(milliseconds=1)
_NOT_NULL = {"ROW_NUMBER": BIGINT, "RANK": BIGINT, "DENSE_RANK": BIGINT, "PERCENT_RANK": DOUBLE, "CUME_DIST": DOUBLE}


@dataclass(frozen=True)
class BoundWindow:
    """A window of OVER: rows with equal values of ``partition``, in this ``order``, whose expressions may be descending
    and have nulls first or last, and the ``frame`` around a row."""

    partition: tuple[Expression, ...]
    order: tuple[Expression, ...]
    ways: tuple[SortColumn, ...]
    frame: Frame


@dataclass(frozen=True)
class OverFunction(Expression):
    """A function over the rows of a window: the fields are those of the plan's call. Exists while a query is bound; the
    plan has a node instead."""

    function: str
    argument: Expression | None
    window: BoundWindow
    default: Expression | None = None
    distinct: bool = False
    nulls: bool = False
    separator: str = ""
    number: int = 1

    @property
    def operands(self) -> tuple[Expression, ...]:
        own = (each for each in (self.argument, self.default) if each is not None)
        return (*self.window.partition, *self.window.order, *own)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        first = len(self.window.partition)
        last = first + len(self.window.order)
        window = replace(self.window, partition=operands[:first], order=operands[first:last])
        own = list(operands[last:])
        argument = own.pop(0) if self.argument is not None else None
        return replace(self, window=window, argument=argument, default=own.pop() if own else None)


def has_over(expression: Expression) -> bool:
    """Whether an expression contains a function with OVER that is not a row number."""
    return any(isinstance(each, OverFunction) for each in walk(expression))


def number_rows(expression: Expression) -> Expression:
    """The expression with row numbers replaced by ordinary functions with OVER."""

    def change(each: Expression) -> Expression:
        if not isinstance(each, RowNumber):
            return each
        ways = zip(each.descending, each.nulls_first, strict=True)
        window = BoundWindow(
            each.partition,
            each.order,
            tuple(SortColumn("", *way) for way in ways),
            frame_of_function(each.ranking.name),
        )
        return OverFunction(each.ranking.name, None, window, type=each.type, place=each.place)

    return rewrite(expression, change)


def frame_of_function(name: str) -> Frame:
    """The frame of a function whose window does not declare one."""
    return Frame(rows=name == "ROW_NUMBER")


@dataclass(frozen=True)
class OverBinder:
    """Binds functions with OVER, other than row numbers: ``bind`` binds the expressions in them. In a ``batch`` all
    rows exist at once."""

    source: SourceText
    bind: Callable[..., Expression]
    batch: bool

    def function(self, given: UnboundOver, window: OverWindow) -> Expression:
        """The function, or the expression of functions. Raises SqlError or UnsupportedError with its place."""
        if given.name in RANKINGS:
            return self._bind_number(given, window)
        if self.batch and given.distinct and given.name in ("FIRST_VALUE", "LAST_VALUE"):
            reason = f"{given.name}(DISTINCT ..) with OVER is not supported in batch mode, as in Flink"
            raise self.source.unsupported_feature(given.at, reason, "leave DISTINCT out")
        bound = self.window(window, given.name)
        call = UnboundAggregate(given.at, given.name, given.args, given.distinct, None, given.nulls)
        args = [self.bind(each) for each in given.args]
        found = aggregate(call, args, None, Grouping.WHOLE, self.source)
        return _replace_aggregates(found, bound)

    def window(self, given: OverWindow, function: str) -> BoundWindow:
        """The window of a function."""
        if function in RANKINGS and given.frame is not None:
            hint = f"leave {'ROWS' if given.frame.rows else 'RANGE'} out: {function} works on whole partitions"
            raise self.source.error(given.frame.at, f"ROW/RANGE is not allowed with {function}", hint)
        partition = tuple(self.bind(each) for each in given.partition)
        order = tuple(self.bind(each.expression) for each in given.order)
        ways = tuple(SortColumn("", each.descending, each.nulls_first) for each in given.order)
        frame = frame_of_function(function)
        if given.frame is not None:
            frame = self._bind_frame(given.frame, order, given.at)
        elif not given.order:
            frame = Frame(rows=frame.rows, end=frame.end if function in RANKINGS else None)
        return BoundWindow(partition, order, ways, frame)

    # --- functions that only OVER has ---------------------------------------------------------------------------

    def _bind_number(self, given: UnboundOver, window: OverWindow) -> Expression:
        name, place = given.name, self.source.at(given.at)
        if name in _OF_WHOLE and not self.batch:
            hint = "set 'execution.runtime-mode' to 'BATCH'" + (", or use LAG" if name == "LEAD" else "")
            raise self.source.unsupported_feature(given.at, f"{name} is not supported in streams", hint)
        if given.distinct or given.nulls:
            reason = f"{name} with {'DISTINCT' if given.distinct else f'{given.nulls} NULLS'} is not supported"
            raise self.source.unsupported_feature(given.at, reason, "leave it out")
        if not window.order:
            raise self.source.error(given.at, f"{name} needs ORDER BY in its window", "write OVER (ORDER BY ..)")
        bound = self.window(window, name)
        if name in _NOT_NULL:
            if given.args:
                raise self.source.error(given.at, f"{name} takes no arguments, not {len(given.args)}", f"{name}()")
            return OverFunction(name, None, bound, type=_NOT_NULL[name].with_nullability(False), place=place)
        if name == "NTILE":
            number = self._read_count(given, 0, least=1)
            return OverFunction(name, None, bound, number=number, type=BIGINT.with_nullability(False), place=place)
        return self._bind_neighbour(given, bound)

    def _bind_neighbour(self, given: UnboundOver, window: BoundWindow) -> Expression:
        """LAG or LEAD."""
        if not 1 <= len(given.args) <= 3:
            reason = f"{given.name} takes a value, a number of rows and a default, not {len(given.args)} arguments"
            raise self.source.error(given.at, reason, f"{given.name}(price, 1)")
        value = self.bind(given.args[0])
        if isinstance(value.type, NullType):
            raise self.source.error(given.args[0].at, f"{given.name} takes a value of a known type", "CAST it")
        number = self._read_count(given, 1, least=0) if len(given.args) > 1 else 1
        default = coerce(self.bind(given.args[2]), value.type) if len(given.args) > 2 else None
        nullable = default is None or default.type.nullable or value.type.nullable
        if self.batch:  # it counts rows, also those that are equal in the order
            window = replace(window, frame=Frame(rows=True))
        return OverFunction(
            given.name,
            value,
            window,
            default,
            number=number,
            type=value.type.with_nullability(nullable),
            place=self.source.at(given.at),
        )

    def _read_count(self, given: UnboundOver, at: int, *, least: int) -> int:
        """The argument at a place, a constant whole number."""
        if len(given.args) <= at:
            raise self.source.error(given.at, f"{given.name} takes a number", f"{given.name}(4)")
        found = self.bind(given.args[at])
        if not isinstance(found, Literal) or not isinstance(found.value, int) or found.value < least:
            reason = f"the number of {given.name} must be a constant of at least {least}"
            raise self.source.error(given.args[at].at, reason, "write a number, such as 4")
        return found.value

    # --- frames ---------------------------------------------------------------------------------------------------

    def _bind_frame(self, given: UnboundFrame, order: Sequence[Expression], at: int) -> Frame:
        if not given.rows and not order:
            raise self.source.error(given.at, "RANGE needs ORDER BY", "write OVER (ORDER BY .. RANGE ..)")
        start, end = (self._bind_offset(each, given, order) for each in (given.start, given.end))
        if given.start.offset is None and not given.start.before and not given.start.current:
            raise self.source.error(given.start.at, "a frame cannot begin with UNBOUNDED FOLLOWING", "swap its bounds")
        if given.end.offset is None and given.end.before and not given.end.current:
            raise self.source.error(given.end.at, "a frame cannot end with UNBOUNDED PRECEDING", "swap its bounds")
        if given.start.current and given.end.before and not given.end.current:
            reason = "a frame that begins with CURRENT ROW cannot end with PRECEDING"
            raise self.source.error(given.end.at, reason, "swap its bounds")
        if given.start.offset is not None and not given.start.before and (given.end.before or given.end.current):
            reason = "a frame that begins with FOLLOWING must end with FOLLOWING"
            raise self.source.error(given.end.at, reason, "swap its bounds")
        return Frame(given.rows, start, end)

    def _bind_offset(self, bound: FrameBound, frame: UnboundFrame, order: Sequence[Expression]) -> int | Decimal | None:
        if bound.current:
            return 0
        if bound.offset is None:
            return None
        found = self.bind(bound.offset)
        value = found.value if isinstance(found, Literal) else None
        if frame.rows:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0 or not is_integer(found.type):
                raise self.source.error(bound.offset.at, "ROWS takes a constant number of rows", "such as 5 PRECEDING")
            return -value if bound.before else value
        offset = self._read_distance(value, found, order, bound)
        return -offset if bound.before else offset

    def _read_distance(
        self, value: object, found: Expression, order: Sequence[Expression], bound: FrameBound
    ) -> int | Decimal:
        """An offset of RANGE, in milliseconds for times."""
        if len(order) > 1:
            raise self.source.error(bound.at, "RANGE takes one column in ORDER BY", "or count the rows with ROWS")
        (by,) = order
        timed = is_point(by.type) or root(by.type) in ("DATE", "TIME")
        if not timed and not is_numeric(by.type):
            reason = f"RANGE with a distance takes a number, date or time in ORDER BY, not {by.type.text()}"
            raise self.source.error(bound.at, reason, "or count the rows with ROWS")
        if timed and isinstance(value, timedelta) and value >= timedelta(0):
            return value // _MILLI
        if not timed and is_numeric(found.type) and isinstance(value, int | Decimal | float) and value >= 0:
            return Decimal(str(value)) if not isinstance(value, int) else value
        assert bound.offset is not None  # noqa: S101
        kind = "an INTERVAL of days or shorter, such as INTERVAL '1' HOUR" if timed else "a constant number"
        reason = f"a distance in the order of {by.type.text()} must be {kind}"
        raise self.source.error(bound.offset.at, reason, "write it before PRECEDING or FOLLOWING")


def _replace_aggregates(given: Expression, window: BoundWindow) -> Expression:
    """An aggregate, or the aggregates that an expression is computed from, as functions with OVER. Aggregates in their
    arguments are those of groups."""
    if not isinstance(given, Aggregate):
        operands = tuple(_replace_aggregates(each, window) for each in given.operands)
        return given.with_operands(operands) if operands != given.operands else given
    return OverFunction(
        given.function,
        given.argument,
        window,
        distinct=given.distinct,
        nulls=given.nulls,
        separator=given.separator,
        type=given.type,
        place=given.place,
    )
