"""Parsed expressions against a schema: names become columns, and every part gets a type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import DefinitionError, nearest
from penstock.plan.expressions import TRUE, Call, ColumnRef, Expression, Literal, Place, Value, call, cast, coerce
from penstock.plan.nodes import Ranking
from penstock.plan.scalar_functions import Function, UserCall, aliases, functions, missing
from penstock.sql.bind.expressions import special_functions, transform_casts, transform_functions
from penstock.sql.bind.expressions.aggregates import JSON_AGGREGATES, GroupId, Grouping, GroupingBits, aggregate
from penstock.sql.bind.expressions.arithmetic import bind_arithmetic, bind_sign
from penstock.sql.bind.expressions.binding import Bound
from penstock.sql.bind.expressions.dialect import FLINK_SQL, Dialect
from penstock.sql.bind.expressions.group_windows import FUNCTIONS, bind_group_window
from penstock.sql.bind.expressions.literals import bind_literal
from penstock.sql.bind.expressions.over_functions import OverBinder
from penstock.sql.bind.expressions.resolution import Names
from penstock.sql.bind.expressions.row_numbers import RowNumber
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, UserFunctions
from penstock.sql.parse.source import suggest_similar
from penstock.sql.parse.syntax import (
    Name,
    OverWindow,
    Unbound,
    UnboundAggregate,
    UnboundCall,
    UnboundCast,
    UnboundField,
    UnboundLiteral,
    UnboundName,
    UnboundOver,
    UnboundSubquery,
)
from penstock.sql.parse.vocabulary import AGGREGATES, RANKINGS, WINDOWS
from penstock.types import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    NullType,
    TimestampType,
)
from penstock.types.casts import (
    find_common_type,
    find_comparable_type,
    has_interval,
    is_castable,
    is_integer,
    is_numeric,
    is_point,
    merge_types,
)
from penstock.types.logical import root

#: The reason and the hint where an interval would leave a query.
NO_INTERVAL = ("an interval cannot be a column of a table", "CAST it to STRING, or use TIMESTAMPDIFF")
#: The same for a NULL without a type.
UNTYPED_NULL = ("the type of NULL is not known here", "write CAST(NULL AS STRING)")


@dataclass(frozen=True)
class Scope(Names):
    """Binds expressions. Raises SchemaError for an unknown name, SqlError for an expression without a type, and
    UnsupportedError for a feature that only Flink has; each with its place."""

    #: The columns with an event time that watermarks follow.
    event_times: tuple[str, ...] = ()
    #: The rows that aggregates are over, and the clause where aggregates are not allowed.
    grouping: Grouping = Grouping.NONE
    clause: str = "here"
    #: Whether there may be row numbers, and the windows that they are over, by their names.
    ranking: bool = False
    windows: Mapping[str, OverWindow] = field(default_factory=dict)
    #: Whether all rows exist before the first result is given.
    batch: bool = False
    #: The current database of a query.
    database: str | None = None
    #: The functions that the user has defined.
    user_functions: UserFunctions = NO_FUNCTIONS
    dialect: Dialect = FLINK_SQL
    #: Binds queries that are values, where queries are allowed.
    query: Callable[[UnboundSubquery, Scope], Expression] | None = None

    def for_clause(self, clause: str) -> Scope:
        """The scope of a clause that has no aggregates."""
        return replace(self, grouping=Grouping.NONE, clause=clause, ranking=False)

    def bind(self, given: Unbound) -> Expression:
        """The typed expression."""
        match given:
            case Bound(expression=found):
                return found
            case UnboundLiteral():
                return bind_literal(given, self.source)
            case UnboundName():
                return self.name(given)
            case UnboundField(base=base, name=name):
                return self.field(self.bind(base), name)
            case UnboundCast():
                return self._cast(given)
            case UnboundCall():
                return self._call(given)
            case UnboundAggregate():
                return self._aggregate(given)
            case UnboundOver():
                return self._over(given)
            case UnboundSubquery():
                if self.query is None:
                    reason = f"a query in an expression is not supported {self.clause}"
                    raise self.source.unsupported_feature(given.at, reason, "write it in SELECT, WHERE or HAVING")
                return self.query(given, self)
        raise self._error(given, "'*' is not an expression", "use it only by itself in a select list")

    def condition(self, given: Unbound, role: str) -> Expression:
        """An expression that is true or false. ``role`` describes it in errors."""
        found = self.bind(given)
        if isinstance(found.type, NullType):
            return cast(found, BOOLEAN)
        if root(found.type) != "BOOLEAN":
            raise self._error(given, f"{role} must be BOOLEAN, not {found.type.text()}", "compare it with a value")
        return found

    def value(self, given: Unbound) -> Expression:
        """An expression whose value a column of a table can hold."""
        found = self.bind(given)
        if has_interval(found.type):
            raise self._error(given, *NO_INTERVAL)
        return found

    def make_call(
        self, call: UnboundCall, function: str, args: Sequence[Expression], data_type: DataType
    ) -> Expression:
        """A call, or NULL if that is its type."""
        place = self.source.at(call.at)
        if isinstance(data_type, NullType):
            return Literal(None, type=data_type, place=place)
        return Call(function, tuple(args), type=data_type, place=place)

    # --- aggregates -------------------------------------------------------------------------------------------

    def _aggregate(self, given: UnboundAggregate) -> Expression:
        if given.name in missing():
            raise self._unsupported_error(given.name, given.at)
        if self.grouping is Grouping.NONE:
            hint = "filter groups with HAVING" if self.clause == "in WHERE" else "aggregate in a separate query"
            raise self._error(given, f"aggregate {given.name} cannot be used {self.clause}", hint)
        inner = self.for_clause("in an aggregate")
        of = special_functions.unwrap_document if given.name in JSON_AGGREGATES else Scope.bind
        args = [of(inner, each) for each in given.args]
        condition = inner.condition(given.filter, "the condition of FILTER") if given.filter else None
        return aggregate(given, args, condition, self.grouping, self.source)

    def _over(self, given: UnboundOver) -> Expression:
        if given.name in missing():
            raise self._unsupported_error(given.name, given.at)
        if given.name not in RANKINGS | AGGREGATES:
            raise self._not_over_error(given)
        if not self.ranking:
            raise self._error(given, f"{given.name}() cannot be used {self.clause}", "select it as a separate column")
        window = self._resolve_window(given.window)
        inner = replace(self, ranking=False, clause="in OVER")
        binder = OverBinder(self.source, inner.bind, self.batch)
        if given.name not in Ranking.__members__ or given.args or given.distinct or given.nulls:
            return binder.function(given, window)
        bound = binder.window(window, given.name)
        descending = tuple(each.descending for each in bound.ways)
        nulls_first = tuple(each.nulls_first for each in bound.ways)
        type_ = BIGINT.with_nullability(False)
        ranking, place = Ranking[given.name], self.source.at(given.at)
        return RowNumber(
            bound.partition, bound.order, descending, nulls_first, ranking, self.batch, type=type_, place=place
        )

    def _not_over_error(self, given: UnboundOver) -> DefinitionError:
        """The error for a function that cannot have OVER."""
        if given.name not in known_functions():
            return self._no_function_error(UnboundCall(given.at, given.name, given.args))
        reason = f"OVER is for aggregates and functions such as ROW_NUMBER, and {given.name} is not one"
        return self._error(given, reason, "leave OVER out")

    def _resolve_window(self, given: OverWindow | Name) -> OverWindow:
        """A window with the parts of its base. Raises SqlError for parts that both have."""
        if isinstance(given, Name):
            found = self.windows.get(given.text)
            if found is None:
                hint = suggest_similar(given.text, self.windows)
                hint = hint or f"declare it after FROM and WHERE: WINDOW {given.text} AS (..)"
                raise self.source.error(given.at, f"there is no window '{given.text}'", hint)
            others = {name: each for name, each in self.windows.items() if name != given.text}
            return replace(self, windows=others)._resolve_window(found)  # so that no window is its own base
        if given.base is None:
            return given
        base = self._resolve_window(given.base)
        again = "PARTITION BY" if given.partition else "ORDER BY" if given.order and base.order else ""
        again = again or ("ROWS or RANGE" if given.frame and base.frame else "")
        if again:
            reason = f"a window that adds to window '{given.base.text}' cannot have {again}"
            raise self.source.error(given.base.at, reason, f"write a separate window, without '{given.base.text}'")
        return OverWindow(given.at, base.partition, given.order or base.order, frame=given.frame or base.frame)

    def _grouping(self, call: UnboundCall) -> Expression:
        if self.grouping is not Grouping.KEYS and call.args:
            raise self._error(call, f"{call.name} needs GROUP BY", "group by its arguments")
        if call.name == "GROUP_ID":
            if self.grouping is Grouping.NONE:
                raise self._error(call, f"GROUP_ID() cannot be used {self.clause}", "select it beside GROUP BY")
            return GroupId(type=BIGINT.with_nullability(False), place=self.source.at(call.at))
        inner = self.for_clause("in GROUPING")
        args = tuple(inner.bind(each) for each in call.args)
        return GroupingBits(args, type=BIGINT.with_nullability(False), place=self.source.at(call.at))

    # --- CAST, CASE and functions ---------------------------------------------------------------------------

    def _cast(self, given: UnboundCast) -> Expression:
        operand = self.bind(given.operand)
        if self.dialect.transforms:
            return transform_casts.bind_cast(self, given, operand)
        if not is_castable(operand.type, given.target):
            raise self._error(given, f"{operand.type.text()} cannot be CAST to {given.target.text()}")
        return cast(operand, given.target, safe=given.safe)

    def _case(self, call: UnboundCall) -> Expression:
        pairs = len(call.args) // 2
        conditions = [self.condition(when, "a condition after WHEN") for when in call.args[: 2 * pairs : 2]]
        common, values = self.bind_to_common_type((*call.args[1::2], *call.args[2 * pairs :]))
        args = [each for pair in zip(conditions, values, strict=False) for each in pair] + values[pairs:]
        nullable = len(call.args) == 2 * pairs or common.nullable
        return self.make_call(call, "CASE", args, common.with_nullability(nullable))

    def bind_to_common_type(
        self, given: Sequence[Unbound], merge: Callable[[tuple[DataType, ...]], DataType | None] = find_common_type
    ) -> tuple[DataType, list[Expression]]:
        """The type that ``merge`` gives values, nullable if one of them is, and the values in that type."""
        values = [self.bind(each) for each in given]
        common = values[0].type
        for each, value in zip(given[1:], values[1:], strict=True):
            wider = merge((common, value.type))
            if wider is None:
                reason = f"{common.text()} and {value.type.text()} have no common type"
                raise self._error(each, reason, "CAST one of them")
            common = wider
        return common, [coerce(value, common) for value in values]

    def _call(self, call: UnboundCall) -> Expression:
        found = transform_functions.bind_call(self, call) if self.dialect.transforms else self.bind_flink_call(call)
        return self._negate(found, found.place) if call.negated else found

    def bind_flink_call(self, call: UnboundCall) -> Expression:
        """A call by the rules of Flink SQL; without the NOT before its operator."""
        if call.spaces:
            function = self.user_functions.find_function((*call.spaces, call.name))
            if function is None:
                name = ".".join((*call.spaces, call.name))
                raise self._error(call, f"there is no function {name}", "define it with CREATE FUNCTION")
            return self._choose_overload(call, function)
        form = FORMS.get(call.name)
        system = self.user_functions.find_system_function(call.name)
        if system is not None:
            return self._choose_overload(call, system)
        if form is None:
            return self._bind_overloads(call)
        least, most, count = form.least, form.most, len(call.args)
        if not least <= count <= (most or count):
            expected = str(least) if least == most else f"{least} to {most}" if most else f"at least {least}"
            raise self._error(call, f"{call.name} takes {expected} argument{'' if most == 1 else 's'}, not {count}")
        return form.bind(self, call)

    def _bind_overloads(self, call: UnboundCall) -> Expression:
        name = aliases().get(call.name, call.name)
        if name in FUNCTIONS:
            return bind_group_window(call, self)
        function = functions().get(name)
        if function is None or not function.overloads:
            function = self.user_functions.find_function((call.name,))
        if function is None:
            raise self._no_function_error(call)
        return self._choose_overload(call, function)

    def _choose_overload(self, call: UnboundCall, function: Function) -> Expression:
        """The call by the first overload that takes its arguments."""
        args = tuple(self.bind(arg) for arg in call.args)
        for overload in function.overloads:
            if overload.takes(args):
                args = overload.cast_arguments(args)
                type_ = overload.type_of(args)
                if any(isinstance(arg.type, NullType) for arg in args):  # a collection of elements of no type
                    return Literal(None, type=type_, place=self.source.at(call.at))
                if functions().get(function.name) is function:
                    return self.make_call(call, function.name, args, type_)
                return UserCall(function.name, args, function, type=type_, place=self.source.at(call.at))
        expected = " or ".join(overload.text for overload in function.overloads)
        given = ", ".join(arg.type.text() for arg in args)
        raise self._error(call, f"{call.name} takes {expected}, not ({given})", "CAST the arguments" if args else "")

    def _no_function_error(self, call: UnboundCall) -> DefinitionError:
        if call.name in missing():
            return self._unsupported_error(call.name, call.at)
        if call.name == "POSITION FROM":
            return self._error(call, "POSITION takes no FROM", "write LOCATE(a, b, start)")
        if call.name in WINDOWS:
            table = f"FROM TABLE({call.name.partition('_')[0]}(TABLE .., DESCRIPTOR(..), ..))"
            reason, hint = f"{call.name} in an expression", f"a window is a table of a query: {table}"
        elif call.name in RANKINGS:
            reason, hint = f"{call.name} without OVER", f"write {call.name}() OVER (PARTITION BY .. ORDER BY ..)"
        else:
            own = transform_functions.NAMES if self.dialect.transforms else ()
            known = [*known_functions(), *own, *self.user_functions.names()]
            hint = nearest(call.name, known) or "define it, or use a built-in one"
            return self._error(call, f"there is no function {call.name}", hint)
        return self.source.unsupported_feature(call.at, f"{reason} is not supported", hint)

    def _unsupported_error(self, name: str, at: int) -> DefinitionError:
        """The error for a function that only Flink has."""
        reason, _, hint = missing()[name].partition("; ")
        return self.source.unsupported_feature(at, f"function {name} is not supported: {reason}", hint)

    def read_unit(self, given: Unbound, units: Collection[str]) -> str:
        """The unit that a literal names."""
        unit = given.text if isinstance(given, UnboundLiteral) else ""
        if unit not in units:
            raise self._error(given, f"there is no unit {unit}", f"one of {', '.join(units)}")
        return unit

    # --- conditions -----------------------------------------------------------------------------------------

    def _logical(self, call: UnboundCall) -> Expression:
        """AND and OR, flat because they are associative."""
        operands: list[Expression] = []
        for arg in call.args:
            found = self.condition(arg, f"an operand of {call.name}")
            operands += found.args if isinstance(found, Call) and found.function == call.name else (found,)
        return self._make_condition(call, operands)

    def _not(self, call: UnboundCall) -> Expression:
        return self._negate(self.condition(call.args[0], "the operand of NOT"), self.source.at(call.at))

    def _negate(self, operand: Expression, place: Place | None) -> Expression:
        """NOT; of a NOT, its operand."""
        if isinstance(operand, Call) and operand.function == "NOT":
            return operand.args[0]
        return Call("NOT", (operand,), type=operand.type, place=place)

    def _test(self, call: UnboundCall) -> Expression:
        word = call.name.removeprefix("IS ")
        (arg,) = call.args
        operand = self.bind(arg) if word == "NULL" else self.condition(arg, f"the operand of IS {word}")
        return self.make_call(call, "IS NULL" if word == "UNKNOWN" else call.name, (operand,), TRUE.type)

    def _bind_operands(self, call: UnboundCall, ordered: bool = False) -> list[Expression]:
        """Operands of a comparison. Strings are cast to the type that they are compared with."""
        values = [self.bind(each) for each in call.args]
        if ordered:
            values = _cast_for_order(values)
        elif call.name == "IN":
            values = _cast_list(values)
        typed = [value.type for value in values if not isinstance(value.type, NullType)] or [BOOLEAN]
        first = next((each for each in typed if is_point(each)), typed[0])
        for each, value in zip(call.args, values, strict=True):
            if find_comparable_type(first, value.type, ordered) is None:
                reason = f"{first.text()} cannot be compared with {value.type.text()}"
                raise self._error(each, reason, "CAST one of them")
        if not is_point(first):
            return [coerce(v, first) if isinstance(v.type, NullType) else v for v in values]
        # All digits of a string count, however few the timestamp beside it has.
        point = TimestampType(local_zone=first.local_zone) if isinstance(first, TimestampType) else first
        return [
            cast(v, point) if root(v.type) == "STRING" else coerce(v, first) if isinstance(v.type, NullType) else v
            for v in values
        ]

    def _bind_comparison(self, call: UnboundCall) -> Expression:
        return self._make_condition(call, self._bind_operands(call, ordered=call.name not in ("=", "<>", "IN")))

    def _make_condition(self, given: UnboundCall, args: Sequence[Expression]) -> Expression:
        """A call that is BOOLEAN, and null only if an argument is."""
        return call(given.name, *args, place=self.source.at(given.at))

    def _distinct(self, call: UnboundCall) -> Expression:
        return self.make_call(call, call.name, self._bind_operands(call), TRUE.type)

    def string(self, given: Unbound, function: str) -> Expression:
        found = self.bind(given)
        if root(found.type) not in ("STRING", "NULL"):
            raise self._error(given, f"{function} takes STRING, not {found.type.text()}", "CAST it to STRING")
        return coerce(found, STRING) if isinstance(found.type, NullType) else found

    # --- functions whose type depends on their arguments ----------------------------------------------------

    def _element(self, call: UnboundCall) -> Expression:
        base, index = (self.bind(arg) for arg in call.args)
        match base.type:
            case ArrayType(element=element):
                if not is_integer(index.type):
                    raise self._error(call.args[1], f"an array is indexed by INT, not {index.type.text()}", "CAST it")
                if isinstance(index, Literal) and isinstance(index.value, int) and index.value < 1:
                    raise self._error(call.args[1], "the first element of an array is [1]", "count from 1")
                found = element
            case MapType(key=key, value=value):
                if find_comparable_type(key, index.type, ordered=False) is None:
                    raise self._error(
                        call.args[1], f"the map's keys are {key.text()}, not {index.type.text()}", "CAST it"
                    )
                index, found = coerce(index, key), value
            case _:
                raise self._error(call, f"{base.type.text()} has no elements", "only ARRAY and MAP have elements")
        return self.make_call(call, "ITEM", (base, index), found.with_nullability(True))

    def _concat(self, call: UnboundCall) -> Expression:
        args = [self.string(arg, call.name) for arg in call.args]
        separated = call.name == "CONCAT_WS"  # null only if the separator is
        nullable = any(arg.type.nullable for arg in (args[:1] if separated else args))
        return self.make_call(call, "CONCAT_WS" if separated else "CONCAT", args, STRING.with_nullability(nullable))

    def _coalesce(self, call: UnboundCall) -> Expression:
        common, values = self.bind_to_common_type(call.args, merge_types)
        nullable = all(value.type.nullable for value in values)
        return self.make_call(call, "COALESCE", values, common.with_nullability(nullable))

    def _nullif(self, call: UnboundCall) -> Expression:
        values = self._bind_operands(call)
        first = self.bind(call.args[0])
        type_ = first.type.with_nullability(True)
        if root(first.type) == root(values[0].type):
            return self.make_call(call, "NULLIF", values, type_)
        same = Call("=", tuple(values), type=BOOLEAN, place=self.source.at(call.at))  # of a text that is a date or time
        return self.make_call(call, "CASE", (same, Literal(None, type=type_), first), type_)

    def _if(self, call: UnboundCall) -> Expression:
        condition = self.condition(call.args[0], "the first argument of IF")
        common, values = self.bind_to_common_type(call.args[1:])
        return self.make_call(call, "IF", (condition, *values), common)

    def _round(self, call: UnboundCall) -> Expression:
        value, *rest = (self.bind(arg) for arg in call.args)
        if not is_numeric(value.type):
            raise self._error(call.args[0], f"ROUND takes a number, not {value.type.text()}", "CAST it")
        digits: Value = 0
        if rest:
            if not is_integer(rest[0].type):
                reason = f"the second argument of ROUND is a number of digits, not {rest[0].type.text()}"
                raise self._error(call.args[1], reason, "such as 2")
            digits = rest[0].value if isinstance(rest[0], Literal) else None
            if isinstance(digits, int) and abs(digits) > 999:
                raise self._error(call.args[1], "ROUND takes up to 999 digits", "such as 2")
        result = value.type
        if isinstance(result, DecimalType) and isinstance(digits, int) and digits < result.scale:
            kept = max(digits, 0)
            result = DecimalType(min(38, result.precision - result.scale + 1 + kept), kept)
        nullable = value.type.nullable or any(each.type.nullable for each in rest)
        return self.make_call(call, "ROUND", (value, *rest), result.with_nullability(nullable))

    def _to_timestamp_ltz(self, call: UnboundCall) -> Expression:
        """The form with a number; the others are overloads."""
        values = [self.bind(arg) for arg in call.args]
        if not values or not is_numeric(values[0].type):
            return self._bind_overloads(call)
        if len(values) == 2 and isinstance(values[1].type, NullType):
            values[1] = coerce(values[1], INT)
        precision = values[1] if len(values) == 2 else None
        known = precision is None or not isinstance(precision, Literal) or precision.value in (0, 3, None)
        if not known or len(values) > 2 or (precision is not None and not is_integer(precision.type)):
            reason = "TO_TIMESTAMP_LTZ of a number takes a precision, 0 for seconds or 3 for milliseconds"
            raise self._error(call.args[-1], reason, "such as TO_TIMESTAMP_LTZ(ms, 3)")
        return self.make_call(call, call.name, values, TimestampType(3, local_zone=True))

    def _current_watermark(self, call: UnboundCall) -> Expression:
        (argument,) = call.args
        found = self.bind(argument)
        if not (isinstance(found, ColumnRef) and found.name in self.event_times):
            known = " or ".join(f"{call.name}({each})" for each in self.event_times)
            hint = f"write {known}" if known else "declare WATERMARK FOR it"
            raise self._error(argument, f"{call.name} takes the column that has the watermark", hint)
        zoned = isinstance(found.type, TimestampType) and found.type.local_zone
        return self.make_call(call, call.name, (found,), TimestampType(3, local_zone=zoned))

    def _array(self, call: UnboundCall) -> Expression:
        if not call.args:
            raise self._error(call, "an empty ARRAY has no type", "CAST(NULL AS ARRAY<..>)")
        element, values = self._bind_elements(call, call.args)
        return self.make_call(call, "ARRAY", values, ArrayType(element, nullable=False))

    def _map(self, call: UnboundCall) -> Expression:
        if not call.args or len(call.args) % 2:
            raise self._error(call, "MAP takes alternating keys and values", "MAP['key', 'value']")
        (key, keys), (value, values) = (self._bind_elements(call, call.args[start::2]) for start in (0, 1))
        if isinstance(key, MapType):
            raise self._error(call.args[0], "a map cannot be the key of a map", "use keys of another type")
        pairs = [each for pair in zip(keys, values, strict=True) for each in pair]
        return self.make_call(call, "MAP", pairs, MapType(key, value, nullable=False))

    def _bind_elements(self, call: UnboundCall, given: Sequence[Unbound]) -> tuple[DataType, list[Expression]]:
        common, values = self.bind_to_common_type(given)
        if isinstance(common, NullType):
            raise self._error(call, *UNTYPED_NULL)
        return common, values


def _cast_for_order(values: Sequence[Expression]) -> list[Expression]:
    """The values of a comparison of order, with strings cast to numbers or BOOLEAN if others are: beside whole numbers
    and decimals they become BIGINT, as in Flink. '=' does not do so."""
    numbers = [each.type for each in values if is_numeric(each.type)]
    exact = numbers and not any(root(each) in ("FLOAT", "DOUBLE") for each in numbers)
    found = find_common_type((*numbers, BIGINT) if exact else tuple(numbers)) if numbers else None
    if found is None:
        found = next((BOOLEAN for each in values if root(each.type) == "BOOLEAN"), None)
    return [cast(each, found) if found is not None and root(each.type) == "STRING" else each for each in values]


def _cast_list(values: Sequence[Expression]) -> list[Expression]:
    """The values of IN. As in Flink, the values of the list are cast to the type of the first value if it is a number
    or BOOLEAN and they are strings, or the other way round."""
    first, *others = values

    def cast_to_first(each: Expression) -> bool:
        text, other = (first, each) if root(first.type) == "STRING" else (each, first)
        return root(text.type) == "STRING" and (is_numeric(other.type) or root(other.type) == "BOOLEAN")

    return [first, *(cast(each, first.type) if cast_to_first(each) else each for each in others)]


@dataclass(frozen=True)
class _Form:
    """How a call with its own typing rules is bound, and how many arguments it takes; ``most`` is 0 for no limit."""

    bind: Callable[[Scope, UnboundCall], Expression]
    least: int = 0
    most: int = 0


_WITH_ELEMENT = ("ARRAY_APPEND", "ARRAY_PREPEND", "ARRAY_REMOVE", "ARRAY_CONTAINS", "ARRAY_POSITION")
FORMS: dict[str, _Form] = {
    **dict.fromkeys(("AND", "OR"), _Form(Scope._logical)),
    "NOT": _Form(Scope._not),
    **dict.fromkeys(("IS NULL", "IS TRUE", "IS FALSE", "IS UNKNOWN"), _Form(Scope._test)),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN"), _Form(Scope._bind_comparison)),
    "IS DISTINCT FROM": _Form(Scope._distinct),
    **dict.fromkeys(("LIKE", "SIMILAR"), _Form(special_functions.like, 2, 3)),
    "IS JSON": _Form(special_functions.is_json),
    "OVERLAPS": _Form(special_functions.overlaps, 2, 2),
    "[]": _Form(Scope._element),
    "ROW": _Form(special_functions.row, 1),
    "TYPEOF": _Form(special_functions.typeof, 1, 2),
    "CURRENT_DATABASE": _Form(special_functions.current_database, 0, 0),
    **dict.fromkeys(("GREATEST", "LEAST"), _Form(special_functions.greatest, 1)),
    "EXTRACT": _Form(special_functions.extract),
    **dict.fromkeys(("FLOOR TO", "CEIL TO"), _Form(special_functions.round_moment)),
    **dict.fromkeys(("||", "CONCAT"), _Form(Scope._concat, 1)),
    "CONCAT_WS": _Form(Scope._concat, 1),
    **dict.fromkeys(("+x", "-x"), _Form(lambda scope, call: bind_sign(call, scope.bind(call.args[0]), scope.source))),
    **dict.fromkeys(
        ("+", "-", "*", "/"),
        _Form(lambda scope, call: bind_arithmetic(call, [scope.bind(arg) for arg in call.args], scope.source)),
    ),
    "CASE": _Form(Scope._case),
    "COALESCE": _Form(Scope._coalesce, 1),
    "IFNULL": _Form(Scope._coalesce, 2, 2),
    "NULLIF": _Form(Scope._nullif, 2, 2),
    "IF": _Form(Scope._if, 3, 3),
    "ROUND": _Form(Scope._round, 1, 2),
    "GROUPING": _Form(Scope._grouping, 1),
    "GROUPING_ID": _Form(Scope._grouping, 1),
    "GROUP_ID": _Form(Scope._grouping, 0, 0),
    "JSON_VALUE": _Form(special_functions.json_value),
    "JSON_QUERY": _Form(special_functions.json_query),
    "JSON_EXISTS": _Form(special_functions.json_exists),
    "JSON_OBJECT": _Form(special_functions.json_object),
    "JSON_ARRAY": _Form(special_functions.json_array),
    "TO_TIMESTAMP_LTZ": _Form(Scope._to_timestamp_ltz),
    "CURRENT_WATERMARK": _Form(Scope._current_watermark, 1, 1),
    **dict.fromkeys(("TIMESTAMPADD", "TIMESTAMPDIFF"), _Form(special_functions.timestamp_arithmetic, 3, 3)),
    **dict.fromkeys(_WITH_ELEMENT, _Form(special_functions.with_element, 2, 2)),
    **dict.fromkeys(
        ("ARRAY_UNION", "ARRAY_INTERSECT", "ARRAY_EXCEPT"), _Form(special_functions.combine_collections, 2, 2)
    ),
    **dict.fromkeys(("ARRAY_CONCAT", "MAP_UNION"), _Form(special_functions.combine_collections, 1)),
    "ARRAY[]": _Form(Scope._array),
    "MAP[]": _Form(Scope._map),
}


def known_functions() -> list[str]:
    """The names of all functions except aggregates."""
    overloaded = {name for name, each in functions().items() if each.overloads}
    forms = {name for name in FORMS if name.isidentifier()}
    return sorted({*overloaded, *aliases(), *forms, "CAST", "TRY_CAST", "TRIM"})
