"""Parsed expressions against a schema: names get columns, every part gets a type, and Spark SQL comes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import DefinitionError, Problem, SchemaError, SqlError, UnsupportedError
from penstock.options import nearest
from penstock.plan import column_text
from penstock.spi import WATERMARK
from penstock.sql.arithmetic import arithmetic, sign
from penstock.sql.coercion import (
    NULL,
    IntervalType,
    NullType,
    castable,
    common_type,
    comparable,
    is_integer,
    is_numeric,
    is_point,
    root,
)
from penstock.sql.functions import FUNCTIONS, families
from penstock.sql.literals import interval, literal
from penstock.sql.rendering import Binding, Expression, cast, coerce, column, infix, member, moment_of, quoted
from penstock.sql.source import Source
from penstock.sql.syntax import (
    Call,
    Case,
    Cast,
    Element,
    Extract,
    Interval,
    Literal,
    Member,
    Name,
    Reference,
    Tree,
)
from penstock.sql.vocabulary import AGGREGATES, ELSEWHERE
from penstock.types import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

__all__ = ["Scope"]

_UNITS = {
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND")},
    "DOW": "DAYOFWEEK",
}
_TIME_UNITS = ("HOUR", "MINUTE", "SECOND")
_STEPS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_JSON_PATH = re.compile(r"\$(\.[\w-]+|\[\d+\]|\['[^']+'\])*")


@dataclass(frozen=True)
class Scope:
    """What names mean: a schema, the alias it goes by, and the text that errors point into.

    Raises SchemaError for a name that is not there, SqlError for what cannot be typed, UnsupportedError for what
    only Flink has; each with the place.
    """

    schema: RowType
    source: Source
    qualifier: str = ""
    #: The column with the event time, if there is one.
    event_time: str = ""

    def resolve(self, tree: Tree) -> Expression:
        """The expression that a tree means here."""
        match tree:
            case Literal():
                return literal(tree, self.source)
            case Interval():
                return interval(tree, self.source)
            case Reference():
                return self._reference(tree)
            case Member(base=base, name=name):
                return self._member(self.resolve(base), name)
            case Element():
                return self._element(tree)
            case Extract():
                return self._extract(tree)
            case Cast():
                return self._cast(tree)
            case Case():
                return self._case(tree)
            case Call():
                return self._call(tree)
        raise self._error(tree, "'*' is not an expression")

    def condition(self, tree: Tree, what: str) -> Expression:
        """The same for what must be true or false."""
        found = self.resolve(tree)
        if isinstance(found.type, NullType):
            return cast(found, BOOLEAN, safe=False)
        if root(found.type) != "BOOLEAN":
            raise self._error(tree, f"{what} must be BOOLEAN, not {found.type.text()}")
        return found

    def value(self, tree: Tree) -> Expression:
        """The same for what becomes a column."""
        found = self.resolve(tree)
        if isinstance(found.type, IntervalType):
            raise self._error(tree, "an interval cannot be a column", "use TIMESTAMPDIFF, or add it to a timestamp")
        return found

    def field(self, name: Name) -> Expression:
        """A column of the schema by name."""
        found = self.schema.field(name.text)
        if found is None:
            raise self._unknown("column", name, self.schema)
        return column(found.name, found.type)

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

    # --- names ----------------------------------------------------------------------------------------------

    def _reference(self, tree: Reference) -> Expression:
        first, *rest = tree.parts
        if rest and first.text == self.qualifier and self.schema.field(rest[0].text) is not None:
            first, *rest = rest
        elif rest and first.text == self.qualifier and self.schema.field(first.text) is None:
            raise self._unknown("column", rest[0], self.schema)
        found = self.field(first)
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
        return member(base, found.name, found.type)

    def _element(self, tree: Element) -> Expression:
        base, index = self.resolve(tree.base), self.resolve(tree.index)
        match base.type:
            case ArrayType(element=element):
                if not is_integer(index.type):
                    raise self._error(tree.index, f"an array is indexed by INT, not {index.type.text()}")
                if re.fullmatch(r"-\d+|0+", index.text):
                    raise self._error(tree.index, "the first element of an array is [1]")
                found = element
            case MapType(key=key, value=value):
                if comparable(key, index.type, ordered=False) is None:
                    raise self._error(tree.index, f"the map's keys are {key.text()}, not {index.type.text()}")
                index, found = coerce(index, key), value
            case _:
                raise self._error(tree, f"{base.type.text()} has no elements", "only ARRAY and MAP have")
        # element_at fails for what is not there; Flink gives NULL.
        return Expression(f"try_element_at({base.text}, {index.text})", found.with_nullability(True))

    # --- forms with a rule of their own ---------------------------------------------------------------------

    def _cast(self, tree: Cast) -> Expression:
        operand = self.value(tree.operand)
        if not castable(operand.type, tree.target):
            raise self._error(tree, f"{operand.type.text()} cannot be CAST to {tree.target.text()}")
        return cast(operand, tree.target, tree.safe)

    def _extract(self, tree: Extract) -> Expression:
        operand = self.resolve(tree.operand)
        if tree.unit not in _UNITS:
            raise self._error(tree, f"there is no unit {tree.unit}", f"one of {', '.join(_UNITS)}")
        dated = root(operand.type) in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "NULL")
        timed = isinstance(operand.type, TimestampType | TimeType | NullType)
        if not (timed if tree.unit in _TIME_UNITS else dated):
            wanted = "a TIME or TIMESTAMP" if tree.unit in _TIME_UNITS else "a DATE or TIMESTAMP"
            raise self._error(tree.operand, f"{tree.unit} needs {wanted}, not {operand.type.text()}", "CAST it first")
        text = f"CAST(extract({_UNITS[tree.unit]} FROM {operand.text}) AS BIGINT)"
        return Expression(text, BIGINT.with_nullability(operand.type.nullable))

    def _case(self, tree: Case) -> Expression:
        conditions, values = [], []
        for when, then in tree.branches:
            if tree.subject is None:
                conditions.append(self.condition(when, "a condition after WHEN"))
            else:
                conditions.append(self._compared(Call(when.at, "=", (tree.subject, when))))
            values.append(self.value(then))
        trees = [then for _, then in tree.branches]
        if tree.otherwise is not None:
            values.append(self.value(tree.otherwise))
            trees.append(tree.otherwise)
        values = self._alike(trees, values)
        branches = " ".join(
            f"WHEN {condition.text} THEN {value.text}" for condition, value in zip(conditions, values, strict=False)
        )
        otherwise = f" ELSE {values[-1].text}" if tree.otherwise is not None else ""
        nullable = tree.otherwise is None or any(value.type.nullable for value in values)
        return Expression(f"CASE {branches}{otherwise} END", values[0].type.with_nullability(nullable))

    def _alike(self, trees: list[Tree], values: list[Expression]) -> list[Expression]:
        """Values brought to their common type."""
        common = values[0].type
        for each, value in zip(trees[1:], values[1:], strict=True):
            wider = common_type((common, value.type))
            if wider is None:
                reason = f"{value.type.text()} does not go together with {common.text()}"
                raise self._error(each, reason, "CAST one of them")
            common = wider
        return [coerce(value, common) for value in values]

    # --- calls ----------------------------------------------------------------------------------------------

    def _call(self, tree: Call) -> Expression:
        if tree.name in _FORMS:
            return _FORMS[tree.name](self, tree)
        if tree.name not in FUNCTIONS:
            raise self._no_function(tree)
        return self._overloaded(tree)

    def _overloaded(self, tree: Call) -> Expression:
        args = tuple(self.resolve(arg) for arg in tree.args)
        for overload in FUNCTIONS[tree.name]:
            if overload.takes(args):
                return overload.apply(args)
        wanted = " or ".join(families(overload.signature) for overload in FUNCTIONS[tree.name])
        given = ", ".join(arg.type.text() for arg in args)
        raise self._error(tree, f"{tree.name} takes {wanted}, not ({given})", "CAST the arguments" if args else "")

    def _no_function(self, tree: Call) -> DefinitionError:
        if tree.name in AGGREGATES:
            return self._unsupported(
                tree, f"aggregate or window {tree.name} is not supported", "compute it after reading the sink's topic"
            )
        if tree.name in ELSEWHERE:
            return self._unsupported(tree, f"function {tree.name} is not supported", "compute it downstream")
        return self._error(tree, f"there is no function {tree.name}", nearest(tree.name, _KNOWN))

    def _count(self, tree: Call, least: int, most: int) -> None:
        if not least <= len(tree.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}" if most < 99 else f"at least {least}"
            raise self._error(tree, f"{tree.name} takes {wanted} arguments, not {len(tree.args)}")

    def _logical(self, tree: Call) -> Expression:
        operands = [self.condition(arg, f"an operand of {tree.name}") for arg in tree.args]
        return infix(operands, tree.name, Binding[tree.name], self._boolean(operands))

    @staticmethod
    def _boolean(operands: list[Expression]) -> DataType:
        return BOOLEAN.with_nullability(any(operand.type.nullable for operand in operands))

    def _not(self, tree: Call) -> Expression:
        (inner,) = tree.args
        if isinstance(inner, Call) and inner.name in _NEGATABLE:
            return self.resolve(Call(inner.at, inner.name, inner.args, not inner.negated))
        operand = self.condition(inner, "the operand of NOT")
        return Expression(f"NOT {operand.within(Binding.ATOM)}", self._boolean([operand]), Binding.NOT)

    def _test(self, tree: Call) -> Expression:
        word = tree.name.removeprefix("IS ")
        operand = (
            self.resolve(tree.args[0]) if word == "NULL" else self.condition(tree.args[0], f"the operand of IS {word}")
        )
        word = "NULL" if word == "UNKNOWN" else word
        text = f"{operand.within(Binding.SUM)} IS {'NOT ' if tree.negated else ''}{word}"
        return Expression(text, BOOLEAN.with_nullability(False), Binding.PREDICATE)

    def _comparison(self, tree: Call, trees: tuple[Tree, ...], ordered: bool) -> list[Expression]:
        """Operands that are compared with one another; strings among them become what they are compared with."""
        values = [self.resolve(each) for each in trees]
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
        return [cast(v, point.with_nullability(True), safe=False) if root(v.type) == "STRING" else v for v in values]

    def _compared(self, tree: Call) -> Expression:
        values = self._comparison(tree, tree.args, ordered=tree.name not in ("=", "<>"))
        return infix(values, tree.name, Binding.PREDICATE, self._boolean(values))

    def _distinct(self, tree: Call) -> Expression:
        left, right = self._comparison(tree, tree.args, ordered=False)
        words = "IS NOT DISTINCT FROM" if tree.negated else "IS DISTINCT FROM"
        text = f"{left.within(Binding.SUM)} {words} {right.within(Binding.SUM)}"
        return Expression(text, BOOLEAN.with_nullability(False), Binding.PREDICATE)

    def _between(self, tree: Call) -> Expression:
        value, low, high = values = self._comparison(tree, tree.args, ordered=True)
        low_text, high_text = low.within(Binding.SUM), high.within(Binding.SUM)
        text = f"{value.within(Binding.SUM)}{_negation(tree)} BETWEEN {low_text} AND {high_text}"
        return Expression(text, self._boolean(values), Binding.PREDICATE)

    def _in(self, tree: Call) -> Expression:
        value, *listed = values = self._comparison(tree, tree.args, ordered=False)
        text = f"{value.within(Binding.SUM)}{_negation(tree)} IN ({', '.join(each.text for each in listed)})"
        return Expression(text, self._boolean(values), Binding.PREDICATE)

    def _like(self, tree: Call) -> Expression:
        values = [self._strings(arg, "LIKE") for arg in tree.args]
        pattern, escape = values[1].text, ""
        if len(tree.args) == 3:
            mark = tree.args[2]
            if not (isinstance(mark, Literal) and mark.kind == "STRING" and len(mark.text) == 1):
                raise self._error(mark, "ESCAPE takes one character in quotes")
            escape = f" ESCAPE {values[2].text}"
        elif isinstance(tree.args[1], Literal):
            # Spark's default escape character is the backslash; Flink has none.
            pattern = quoted(tree.args[1].text.replace("\\", "\\\\"))
        else:
            pattern = f"replace({pattern}, '\\\\', '\\\\\\\\')"
        text = f"{values[0].within(Binding.SUM)}{_negation(tree)} LIKE {pattern}{escape}"
        return Expression(text, self._boolean(values), Binding.PREDICATE)

    def _strings(self, tree: Tree, what: str) -> Expression:
        found = self.resolve(tree)
        if root(found.type) not in ("STRING", "NULL"):
            raise self._error(tree, f"{what} takes STRING, not {found.type.text()}", "CAST it to STRING")
        return found

    def _concat(self, tree: Call) -> Expression:
        name = "concat_ws" if tree.name == "CONCAT_WS" else "concat"
        self._count(tree, 1 if name == "concat" else 2, 99)
        args = [self._strings(arg, tree.name) for arg in tree.args]
        judged = args[:1] if name == "concat_ws" else args
        nullable = any(arg.type.nullable for arg in judged)
        return Expression(f"{name}({', '.join(arg.text for arg in args)})", STRING.with_nullability(nullable))

    def _sign(self, tree: Call) -> Expression:
        return sign(tree, self.resolve(tree.args[0]), self.source)

    def _arithmetic(self, tree: Call) -> Expression:
        left, right = (self.resolve(arg) for arg in tree.args)
        return arithmetic(tree, left, right, self.source)

    # --- functions whose type depends on their arguments ----------------------------------------------------

    def _coalesce(self, tree: Call) -> Expression:
        self._count(tree, 2 if tree.name == "IFNULL" else 1, 2 if tree.name == "IFNULL" else 99)
        values = self._alike(list(tree.args), [self.value(arg) for arg in tree.args])
        nullable = all(value.type.nullable for value in values)
        text = f"coalesce({', '.join(value.text for value in values)})"
        return Expression(text, values[0].type.with_nullability(nullable))

    def _nullif(self, tree: Call) -> Expression:
        self._count(tree, 2, 2)
        left, right = self._comparison(tree, tree.args, ordered=False)
        return Expression(f"nullif({left.text}, {right.text})", left.type.with_nullability(True))

    def _if(self, tree: Call) -> Expression:
        self._count(tree, 3, 3)
        condition = self.condition(tree.args[0], "the first argument of IF")
        yes, no = self._alike(list(tree.args[1:]), [self.value(arg) for arg in tree.args[1:]])
        nullable = yes.type.nullable or no.type.nullable
        return Expression(f"if({condition.text}, {yes.text}, {no.text})", yes.type.with_nullability(nullable))

    def _round(self, tree: Call) -> Expression:
        self._count(tree, 1, 2)
        value, *rest = (self.resolve(arg) for arg in tree.args)
        digits = 0
        if not is_numeric(value.type):
            raise self._error(tree.args[0], f"ROUND takes a number, not {value.type.text()}", "CAST it")
        if rest:
            if re.fullmatch(r"-?\d{1,3}", rest[0].text) is None:
                raise self._error(tree.args[1], "the digits of ROUND are a whole number written out", "such as 2")
            digits = int(rest[0].text)
        result = value.type
        if isinstance(result, DecimalType) and digits < result.scale:
            kept = max(digits, 0)
            result = DecimalType(min(38, result.precision - result.scale + 1 + kept), kept, nullable=result.nullable)
        rounded = f"round({value.text}{f', {digits}' if digits else ''})"
        text = f"CAST({rounded} AS {_spark(result)})" if isinstance(result, DecimalType) else rounded
        return Expression(text, result)

    def _json_value(self, tree: Call) -> Expression:
        self._count(tree, 2, 2)
        document, path = self._strings(tree.args[0], "JSON_VALUE"), tree.args[1]
        if not (isinstance(path, Literal) and path.kind == "STRING"):
            raise self._error(path, "the path of JSON_VALUE is a string in quotes", "such as '$.owner.name'")
        plain = path.text.strip().removeprefix("lax ").strip()
        if _JSON_PATH.fullmatch(plain) is None:
            raise self._unsupported(
                path, "this JSON path is not supported", "use names and indices only, such as '$.owner.tags[0]'"
            )
        return Expression(f"get_json_object({document.text}, {quoted(plain)})", STRING)

    def _timestamp_arithmetic(self, tree: Call) -> Expression:
        self._count(tree, 3, 3)
        unit = tree.args[0].text if isinstance(tree.args[0], Literal) else ""
        if unit not in _STEPS:
            raise self._error(tree.args[0], f"there is no unit {unit}", f"one of {', '.join(_STEPS)}")
        first, second = (self.resolve(arg) for arg in tree.args[1:])
        adding = tree.name == "TIMESTAMPADD"
        for arg, value in zip(tree.args[1:], (first, second), strict=True):
            fine = is_integer(value.type) if adding and value is first else isinstance(value.type, TimestampType)
            if not fine:
                wanted = "INT" if adding and value is first else "TIMESTAMP"
                raise self._error(arg, f"{tree.name} takes {wanted} here, not {value.type.text()}", "CAST it")
        nullable = first.type.nullable or second.type.nullable
        if adding:
            text = f"timestampadd({unit}, {first.text}, {second.text})"
            return Expression(text, second.type.with_nullability(nullable))
        text = f"CAST(timestampdiff({unit}, {first.text}, {second.text}) AS INT)"
        return Expression(text, INT.with_nullability(nullable))

    def _to_timestamp_ltz(self, tree: Call) -> Expression:
        """The numeric form; the others are in the table."""
        values = [self.resolve(arg) for arg in tree.args]
        if not values or not is_integer(values[0].type):
            return self._overloaded(tree)
        self._count(tree, 2, 2)
        functions = {"0": "timestamp_seconds", "3": "timestamp_millis"}
        if values[1].text not in functions:
            raise self._error(tree.args[1], "the precision is 0 for seconds or 3 for milliseconds")
        result = TimestampType(3, local_zone=True, nullable=values[0].type.nullable)
        return Expression(f"{functions[values[1].text]}({values[0].text})", result)

    def _current_watermark(self, tree: Call) -> Expression:
        self._count(tree, 1, 1)
        (argument,) = tree.args
        found = self.resolve(argument)
        if not self.event_time or found.text != column_text(self.event_time):
            hint = "declare WATERMARK FOR it" if not self.event_time else f"write {tree.name}({self.event_time})"
            raise self._error(argument, f"{tree.name} takes the column that has the watermark", hint)
        zoned = isinstance(found.type, TimestampType) and found.type.local_zone
        text = moment_of(column_text(WATERMARK), zoned)
        return Expression(text, TimestampType(3, local_zone=zoned), Binding.ATOM if zoned else Binding.SUM)

    def _array(self, tree: Call) -> Expression:
        if not tree.args:
            raise self._error(tree, "an empty ARRAY has no type", "CAST(NULL AS ARRAY<..>)")
        values = self._alike(list(tree.args), [self.value(arg) for arg in tree.args])
        text = f"array({', '.join(value.text for value in values)})"
        return Expression(text, ArrayType(self._element_type(tree, values), nullable=False))

    def _map(self, tree: Call) -> Expression:
        if not tree.args or len(tree.args) % 2:
            raise self._error(tree, "MAP takes keys and values in turn", "MAP['key', 'value']")
        halves = [
            self._alike(list(tree.args[start::2]), [self.value(arg) for arg in tree.args[start::2]]) for start in (0, 1)
        ]
        if isinstance(halves[0][0].type, MapType):
            raise self._error(tree.args[0], "a map cannot be the key of a map")
        pairs = ", ".join(f"{key.text}, {value.text}" for key, value in zip(*halves, strict=True))
        key, value = (self._element_type(tree, half) for half in halves)
        return Expression(f"map({pairs})", MapType(key, value, nullable=False))

    def _element_type(self, tree: Tree, values: list[Expression]) -> DataType:
        found = common_type(tuple(value.type for value in values))
        if found is None or isinstance(found, NullType):
            raise self._error(tree, "the type of NULL is not known here", "write CAST(NULL AS STRING)")
        return found


def _negation(tree: Call) -> str:
    return " NOT" if tree.negated else ""


def _spark(data_type: DecimalType) -> str:
    return f"DECIMAL({data_type.precision},{data_type.scale})"


_NEGATABLE = frozenset({"BETWEEN", "IN", "LIKE", "IS NULL", "IS TRUE", "IS FALSE", "IS UNKNOWN", "IS DISTINCT FROM"})
_FORMS: dict[str, Callable[[Scope, Call], Expression]] = {
    "AND": Scope._logical,
    "OR": Scope._logical,
    "NOT": Scope._not,
    **dict.fromkeys(("IS NULL", "IS TRUE", "IS FALSE", "IS UNKNOWN"), Scope._test),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), Scope._compared),
    "IS DISTINCT FROM": Scope._distinct,
    "BETWEEN": Scope._between,
    "IN": Scope._in,
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
_KNOWN = sorted({*FUNCTIONS, *(name for name in _FORMS if name.isidentifier()), "CAST", "TRY_CAST", "EXTRACT", "TRIM"})
