"""Parsed expressions against a schema: names become columns, and every part gets a type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import DefinitionError, Problem, SchemaError, SqlError, UnsupportedError
from penstock.options import nearest
from penstock.plan.expressions import Call, Case, ColumnRef, Expression, FieldAccess, Literal, call, cast, coerce
from penstock.sql.bind.arithmetic import arithmetic, sign
from penstock.sql.bind.functions import ALIASES, FUNCTIONS, families
from penstock.sql.bind.literals import interval, literal
from penstock.sql.parse import syntax
from penstock.sql.parse.source import Source
from penstock.sql.parse.syntax import Name, Tree
from penstock.sql.parse.vocabulary import AGGREGATES, ELSEWHERE
from penstock.types import (
    BIGINT,
    BOOLEAN,
    INT,
    NULL,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    IntervalType,
    MapType,
    NullType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from penstock.types.casts import castable, common_type, comparable, is_integer, is_numeric, is_point
from penstock.types.logical import root

_UNITS = {
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND")},
    "DOW": "DAYOFWEEK",
}
_TIME_UNITS = ("HOUR", "MINUTE", "SECOND")
_STEPS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_JSON_PATH = re.compile(r"\$(\.[\w-]+|\[\d+\]|\['[^']+'\])*")
_NOT_NULL = BOOLEAN.with_nullability(False)


@dataclass(frozen=True)
class Scope:
    """Resolves names: by a schema, its alias, and the text that errors point into.

    Raises SchemaError for an unknown name, SqlError for an expression without a type, and UnsupportedError for a
    feature that only Flink has; each with its place.
    """

    schema: RowType
    source: Source
    qualifier: str = ""
    #: The column with the event time, if there is one.
    event_time: str = ""

    def bind(self, tree: Tree) -> Expression:
        """The typed expression of a tree."""
        match tree:
            case syntax.Literal():
                return literal(tree, self.source)
            case syntax.Interval():
                return interval(tree, self.source)
            case syntax.Reference():
                return self._reference(tree)
            case syntax.Member(base=base, name=name):
                return self._member(self.bind(base), name)
            case syntax.Element():
                return self._element(tree)
            case syntax.Extract():
                return self._extract(tree)
            case syntax.Cast():
                return self._cast(tree)
            case syntax.Case():
                return self._case(tree)
            case syntax.Call():
                return self._call(tree)
        raise self._error(tree, "'*' is not an expression")

    def condition(self, tree: Tree, what: str) -> Expression:
        """An expression that is true or false."""
        found = self.bind(tree)
        if isinstance(found.type, NullType):
            return cast(found, BOOLEAN)
        if root(found.type) != "BOOLEAN":
            raise self._error(tree, f"{what} must be BOOLEAN, not {found.type.text()}")
        return found

    def value(self, tree: Tree) -> Expression:
        """An expression whose value a column can hold."""
        found = self.bind(tree)
        if isinstance(found.type, IntervalType):
            raise self._error(tree, "an interval cannot be a column", "use TIMESTAMPDIFF, or add it to a timestamp")
        return found

    def _error(self, tree: Tree, reason: str, hint: str = "") -> SqlError:
        return self.source.error(tree.at, reason, hint)

    def _unsupported(self, tree: Tree, reason: str, hint: str) -> UnsupportedError:
        return UnsupportedError((Problem(reason, where=self.source.place(tree.at), hint=hint),))

    def _unknown(self, what: str, name: Name, row: RowType) -> DefinitionError:
        hint = nearest(name.text, row.names) or f"there are {', '.join(row.names[:12]) or 'none'}"
        same = next((known for known in row.names if known.lower() == name.text.lower()), None)
        if same is not None:
            hint = f"did you mean '{same}'? names are case-sensitive"
        return SchemaError((self.source.problem(name.at, f"there is no {what} '{name.text}'", hint),))

    def _made(self, tree: Tree, function: str, args: Sequence[Expression], data_type: DataType) -> Expression:
        return Call(function, tuple(args), type=data_type, place=self.source.at(tree.at))

    # --- names ----------------------------------------------------------------------------------------------

    def _reference(self, tree: syntax.Reference) -> Expression:
        first, *rest = tree.parts
        if rest and first.text == self.qualifier and self.schema.field(rest[0].text) is not None:
            first, *rest = rest
        elif rest and first.text == self.qualifier and self.schema.field(first.text) is None:
            raise self._unknown("column", rest[0], self.schema)
        field = self.schema.field(first.text)
        if field is None:
            raise self._unknown("column", first, self.schema)
        found: Expression = ColumnRef(field.name, type=field.type, place=self.source.at(first.at))
        for name in rest:
            found = self._member(found, name)
        return found

    def _member(self, base: Expression, name: Name) -> Expression:
        if not isinstance(base.type, RowType):
            hint = "JSON_VALUE(column, '$.name') reads JSON text" if isinstance(base.type, StringType) else ""
            raise self.source.error(name.at, f"{base.type.text()} has no fields, so not '{name.text}'", hint)
        found = base.type.field(name.text)
        if found is None:
            raise self._unknown("field", name, base.type)
        nullable = found.type.nullable or base.type.nullable
        return FieldAccess(base, found.name, type=found.type.with_nullability(nullable), place=self.source.at(name.at))

    def _element(self, tree: syntax.Element) -> Expression:
        base, index = self.bind(tree.base), self.bind(tree.index)
        match base.type:
            case ArrayType(element=element):
                if not is_integer(index.type):
                    raise self._error(tree.index, f"an array is indexed by INT, not {index.type.text()}")
                if isinstance(index, Literal) and isinstance(index.value, int) and index.value < 1:
                    raise self._error(tree.index, "the first element of an array is [1]")
                found = element
            case MapType(key=key, value=value):
                if comparable(key, index.type, ordered=False) is None:
                    raise self._error(tree.index, f"the map's keys are {key.text()}, not {index.type.text()}")
                index, found = coerce(index, key), value
            case _:
                raise self._error(tree, f"{base.type.text()} has no elements", "only ARRAY and MAP have")
        return self._made(tree, "ITEM", (base, index), found.with_nullability(True))

    # --- forms with a rule of their own ---------------------------------------------------------------------

    def _cast(self, tree: syntax.Cast) -> Expression:
        operand = self.value(tree.operand)
        if not castable(operand.type, tree.target):
            raise self._error(tree, f"{operand.type.text()} cannot be CAST to {tree.target.text()}")
        return cast(operand, tree.target, safe=tree.safe)

    def _extract(self, tree: syntax.Extract) -> Expression:
        operand = self.bind(tree.operand)
        if tree.unit not in _UNITS:
            raise self._error(tree, f"there is no unit {tree.unit}", f"one of {', '.join(_UNITS)}")
        dated = root(operand.type) in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "NULL")
        timed = isinstance(operand.type, TimestampType | TimeType | NullType)
        if not (timed if tree.unit in _TIME_UNITS else dated):
            wanted = "a TIME or TIMESTAMP" if tree.unit in _TIME_UNITS else "a DATE or TIMESTAMP"
            raise self._error(tree.operand, f"{tree.unit} needs {wanted}, not {operand.type.text()}", "CAST it first")
        unit = Literal(_UNITS[tree.unit], type=STRING.with_nullability(False))
        return self._made(tree, "EXTRACT", (unit, operand), BIGINT.with_nullability(operand.type.nullable))

    def _case(self, tree: syntax.Case) -> Expression:
        conditions, values = [], []
        for when, then in tree.branches:
            if tree.subject is None:
                conditions.append(self.condition(when, "a condition after WHEN"))
            else:
                conditions.append(self._compared(syntax.Call(when.at, "=", (tree.subject, when))))
            values.append(self.value(then))
        trees = [then for _, then in tree.branches]
        if tree.otherwise is not None:
            values.append(self.value(tree.otherwise))
            trees.append(tree.otherwise)
        common, values = self._alike(trees, values)
        otherwise = values.pop() if tree.otherwise is not None else None
        nullable = tree.otherwise is None or common.nullable
        branches = tuple(zip(conditions, values, strict=True))
        return Case(branches, otherwise, type=common.with_nullability(nullable), place=self.source.at(tree.at))

    def _alike(self, trees: Sequence[Tree], values: Sequence[Expression]) -> tuple[DataType, list[Expression]]:
        """The common type of values, nullable if one of them is, and the values as that."""
        common = values[0].type
        for each, value in zip(trees[1:], values[1:], strict=True):
            wider = common_type((common, value.type))
            if wider is None:
                reason = f"{common.text()} and {value.type.text()} have no common type"
                raise self._error(each, reason, "CAST one of them")
            common = wider
        return common, [coerce(value, common) for value in values]

    # --- calls ----------------------------------------------------------------------------------------------

    def _call(self, tree: syntax.Call) -> Expression:
        found = _FORMS[tree.name](self, tree) if tree.name in _FORMS else self._overloaded(tree)
        return _negated(found, self) if tree.negated else found

    def _overloaded(self, tree: syntax.Call) -> Expression:
        name = ALIASES.get(tree.name, tree.name)
        if name not in FUNCTIONS:
            raise self._no_function(tree)
        args = tuple(self.bind(arg) for arg in tree.args)
        for overload in FUNCTIONS[name]:
            if overload.takes(args):
                return self._made(tree, name, args, overload.type_of(args))
        wanted = " or ".join(families(overload.signature) for overload in FUNCTIONS[name])
        given = ", ".join(arg.type.text() for arg in args)
        raise self._error(tree, f"{tree.name} takes {wanted}, not ({given})", "CAST the arguments" if args else "")

    def _no_function(self, tree: syntax.Call) -> DefinitionError:
        if tree.name in AGGREGATES:
            return self._unsupported(
                tree, f"aggregate or window {tree.name} is not supported", "compute it after reading the sink's topic"
            )
        if tree.name in ELSEWHERE:
            return self._unsupported(tree, f"function {tree.name} is not supported", "compute it downstream")
        return self._error(tree, f"there is no function {tree.name}", nearest(tree.name, _KNOWN))

    def _count(self, tree: syntax.Call, least: int, most: int) -> None:
        if not least <= len(tree.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}" if most < 99 else f"at least {least}"
            raise self._error(tree, f"{tree.name} takes {wanted} arguments, not {len(tree.args)}")

    # --- conditions -----------------------------------------------------------------------------------------

    def _logical(self, tree: syntax.Call) -> Expression:
        """AND and OR, flat: they are associative."""
        operands: list[Expression] = []
        for arg in tree.args:
            found = self.condition(arg, f"an operand of {tree.name}")
            operands += found.args if isinstance(found, Call) and found.function == tree.name else (found,)
        return call(tree.name, *operands, place=self.source.at(tree.at))

    def _not(self, tree: syntax.Call) -> Expression:
        return _negated(self.condition(tree.args[0], "the operand of NOT"), self, tree)

    def _test(self, tree: syntax.Call) -> Expression:
        word = tree.name.removeprefix("IS ")
        (arg,) = tree.args
        operand = self.bind(arg) if word == "NULL" else self.condition(arg, f"the operand of IS {word}")
        return self._made(tree, "IS NULL" if word == "UNKNOWN" else tree.name, (operand,), _NOT_NULL)

    def _comparison(self, tree: syntax.Call, trees: Sequence[Tree], ordered: bool) -> list[Expression]:
        """Operands of a comparison. Strings are cast to the type that they are compared with."""
        values = [self.bind(each) for each in trees]
        typed = [value.type for value in values if not isinstance(value.type, NullType)] or [NULL]
        first = next((each for each in typed if is_point(each)), typed[0])
        for each, value in zip(trees, values, strict=True):
            if comparable(first, value.type, ordered) is None:
                reason = f"{first.text()} cannot be compared with {value.type.text()}"
                raise self._error(each, reason, "CAST one of them")
        if not is_point(first):
            return values
        # All digits of a string count, however few the timestamp beside it has.
        point = TimestampType(local_zone=first.local_zone) if isinstance(first, TimestampType) else first
        return [cast(v, point) if root(v.type) == "STRING" else v for v in values]

    def _compared(self, tree: syntax.Call) -> Expression:
        values = self._comparison(tree, tree.args, ordered=tree.name not in ("=", "<>", "IN"))
        return call(tree.name, *values, place=self.source.at(tree.at))

    def _distinct(self, tree: syntax.Call) -> Expression:
        return self._made(tree, tree.name, self._comparison(tree, tree.args, ordered=False), _NOT_NULL)

    def _like(self, tree: syntax.Call) -> Expression:
        values = [self._strings(arg, "LIKE") for arg in tree.args]
        if len(values) == 3:
            mark = values[2]
            if not (isinstance(mark, Literal) and isinstance(mark.value, str) and len(mark.value) == 1):
                raise self._error(tree.args[2], "ESCAPE takes one character in quotes")
        return call("LIKE", *values, place=self.source.at(tree.at))

    def _strings(self, tree: Tree, what: str) -> Expression:
        found = self.bind(tree)
        if root(found.type) not in ("STRING", "NULL"):
            raise self._error(tree, f"{what} takes STRING, not {found.type.text()}", "CAST it to STRING")
        return found

    # --- functions whose type depends on their arguments ----------------------------------------------------

    def _concat(self, tree: syntax.Call) -> Expression:
        name = "CONCAT_WS" if tree.name == "CONCAT_WS" else "CONCAT"
        self._count(tree, 1 if name == "CONCAT" else 2, 99)
        args = [self._strings(arg, tree.name) for arg in tree.args]
        judged = args[:1] if name == "CONCAT_WS" else args
        return self._made(tree, name, args, STRING.with_nullability(any(arg.type.nullable for arg in judged)))

    def _sign(self, tree: syntax.Call) -> Expression:
        return sign(tree, self.bind(tree.args[0]), self.source)

    def _arithmetic(self, tree: syntax.Call) -> Expression:
        left, right = (self.bind(arg) for arg in tree.args)
        return arithmetic(tree, left, right, self.source)

    def _coalesce(self, tree: syntax.Call) -> Expression:
        self._count(tree, 2 if tree.name == "IFNULL" else 1, 2 if tree.name == "IFNULL" else 99)
        given = [self.value(arg) for arg in tree.args]
        common, values = self._alike(tree.args, given)
        nullable = all(value.type.nullable for value in given)
        return self._made(tree, "COALESCE", values, common.with_nullability(nullable))

    def _nullif(self, tree: syntax.Call) -> Expression:
        self._count(tree, 2, 2)
        values = self._comparison(tree, tree.args, ordered=False)
        return self._made(tree, "NULLIF", values, values[0].type.with_nullability(True))

    def _if(self, tree: syntax.Call) -> Expression:
        self._count(tree, 3, 3)
        condition = self.condition(tree.args[0], "the first argument of IF")
        common, values = self._alike(tree.args[1:], [self.value(arg) for arg in tree.args[1:]])
        return self._made(tree, "IF", (condition, *values), common)

    def _round(self, tree: syntax.Call) -> Expression:
        self._count(tree, 1, 2)
        value, *rest = (self.bind(arg) for arg in tree.args)
        digits = 0
        if not is_numeric(value.type):
            raise self._error(tree.args[0], f"ROUND takes a number, not {value.type.text()}", "CAST it")
        if rest:
            given = rest[0].value if isinstance(rest[0], Literal) else None
            if not isinstance(given, int) or isinstance(given, bool) or abs(given) > 999:
                raise self._error(
                    tree.args[1], "the second argument of ROUND must be a whole number, not an expression", "such as 2"
                )
            digits = given
        result = value.type
        if isinstance(result, DecimalType) and digits < result.scale:
            kept = max(digits, 0)
            result = DecimalType(min(38, result.precision - result.scale + 1 + kept), kept, nullable=result.nullable)
        return self._made(tree, "ROUND", (value, *rest), result)

    def _json_value(self, tree: syntax.Call) -> Expression:
        self._count(tree, 2, 2)
        document, path = self._strings(tree.args[0], "JSON_VALUE"), self.bind(tree.args[1])
        if not (isinstance(path, Literal) and isinstance(path.value, str)):
            raise self._error(tree.args[1], "the path of JSON_VALUE is a string in quotes", "such as '$.owner.name'")
        plain = path.value.strip().removeprefix("lax ").strip()
        if _JSON_PATH.fullmatch(plain) is None:
            raise self._unsupported(
                tree.args[1], "this JSON path is not supported", "use names and indices only, such as '$.owner.tags[0]'"
            )
        return self._made(tree, "JSON_VALUE", (document, Literal(plain, type=path.type)), STRING)

    def _timestamp_arithmetic(self, tree: syntax.Call) -> Expression:
        self._count(tree, 3, 3)
        unit = tree.args[0].text if isinstance(tree.args[0], syntax.Literal) else ""
        if unit not in _STEPS:
            raise self._error(tree.args[0], f"there is no unit {unit}", f"one of {', '.join(_STEPS)}")
        step, first, second = (self.bind(arg) for arg in tree.args)
        adding = tree.name == "TIMESTAMPADD"
        for arg, value in zip(tree.args[1:], (first, second), strict=True):
            fine = is_integer(value.type) if adding and value is first else isinstance(value.type, TimestampType)
            if not fine:
                wanted = "INT" if adding and value is first else "TIMESTAMP"
                raise self._error(arg, f"{tree.name} takes {wanted} here, not {value.type.text()}", "CAST it")
        nullable = first.type.nullable or second.type.nullable
        return self._made(
            tree, tree.name, (step, first, second), (second.type if adding else INT).with_nullability(nullable)
        )

    def _to_timestamp_ltz(self, tree: syntax.Call) -> Expression:
        """The numeric form; the others are in the table."""
        values = [self.bind(arg) for arg in tree.args]
        if not values or not is_integer(values[0].type):
            return self._overloaded(tree)
        self._count(tree, 2, 2)
        precision = values[1].value if isinstance(values[1], Literal) else None
        if precision not in (0, 3) or not is_integer(values[1].type):
            raise self._error(tree.args[1], "the precision is 0 for seconds or 3 for milliseconds")
        return self._made(tree, tree.name, values, TimestampType(3, local_zone=True, nullable=values[0].type.nullable))

    def _current_watermark(self, tree: syntax.Call) -> Expression:
        self._count(tree, 1, 1)
        (argument,) = tree.args
        found = self.bind(argument)
        if not self.event_time or not (isinstance(found, ColumnRef) and found.name == self.event_time):
            hint = "declare WATERMARK FOR it" if not self.event_time else f"write {tree.name}({self.event_time})"
            raise self._error(argument, f"{tree.name} takes the column that has the watermark", hint)
        zoned = isinstance(found.type, TimestampType) and found.type.local_zone
        return self._made(tree, tree.name, (found,), TimestampType(3, local_zone=zoned))

    def _array(self, tree: syntax.Call) -> Expression:
        if not tree.args:
            raise self._error(tree, "an empty ARRAY has no type", "CAST(NULL AS ARRAY<..>)")
        element, values = self._elements(tree, tree.args)
        return self._made(tree, "ARRAY", values, ArrayType(element, nullable=False))

    def _map(self, tree: syntax.Call) -> Expression:
        if not tree.args or len(tree.args) % 2:
            raise self._error(tree, "MAP takes keys and values in turn", "MAP['key', 'value']")
        (key, keys), (value, values) = (self._elements(tree, tree.args[start::2]) for start in (0, 1))
        if isinstance(key, MapType):
            raise self._error(tree.args[0], "a map cannot be the key of a map")
        pairs = [each for pair in zip(keys, values, strict=True) for each in pair]
        return self._made(tree, "MAP", pairs, MapType(key, value, nullable=False))

    def _elements(self, tree: Tree, trees: Sequence[Tree]) -> tuple[DataType, list[Expression]]:
        common, values = self._alike(trees, [self.value(each) for each in trees])
        if isinstance(common, NullType):
            raise self._error(tree, "the type of NULL is not known here", "write CAST(NULL AS STRING)")
        return common, values


def _negated(operand: Expression, scope: Scope, tree: Tree | None = None) -> Expression:
    """NOT; of a NOT, its operand."""
    if isinstance(operand, Call) and operand.function == "NOT":
        return operand.args[0]
    place = scope.source.at(tree.at) if tree is not None else operand.place
    return Call("NOT", (operand,), type=operand.type, place=place)


_FORMS: dict[str, Callable[[Scope, syntax.Call], Expression]] = {
    "AND": Scope._logical,
    "OR": Scope._logical,
    "NOT": Scope._not,
    **dict.fromkeys(("IS NULL", "IS TRUE", "IS FALSE", "IS UNKNOWN"), Scope._test),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN"), Scope._compared),
    "IS DISTINCT FROM": Scope._distinct,
    "LIKE": Scope._like,
    **dict.fromkeys(("||", "CONCAT", "CONCAT_WS"), Scope._concat),
    **dict.fromkeys(("+x", "-x"), Scope._sign),
    **dict.fromkeys(("+", "-", "*", "/"), Scope._arithmetic),
    **dict.fromkeys(("COALESCE", "IFNULL"), Scope._coalesce),
    "NULLIF": Scope._nullif,
    "IF": Scope._if,
    "ROUND": Scope._round,
    "JSON_VALUE": Scope._json_value,
    "TO_TIMESTAMP_LTZ": Scope._to_timestamp_ltz,
    "CURRENT_WATERMARK": Scope._current_watermark,
    **dict.fromkeys(("TIMESTAMPADD", "TIMESTAMPDIFF"), Scope._timestamp_arithmetic),
    "ARRAY[]": Scope._array,
    "MAP[]": Scope._map,
}
_KNOWN = sorted(
    {*FUNCTIONS, *ALIASES, *(name for name in _FORMS if name.isidentifier()), "CAST", "TRY_CAST", "EXTRACT", "TRIM"}
)
