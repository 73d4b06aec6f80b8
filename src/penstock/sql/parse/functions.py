"""Functions with their own grammar between the parentheses, such as ``TRIM(BOTH 'x' FROM y)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from penstock.sql.parse.cursor import Cursor
from penstock.sql.parse.syntax import Unbound, UnboundAggregate, UnboundCall, UnboundCast, UnboundLiteral
from penstock.sql.parse.tokens import TokenType
from penstock.types import DataType


class FunctionGrammar(Cursor, ABC):
    """Parses the arguments of functions. Raises SqlError or UnsupportedError with the place."""

    @abstractmethod
    def expression(self) -> Unbound:
        """A whole expression."""

    @abstractmethod
    def operand(self) -> Unbound:
        """An expression without comparisons, outside of parentheses."""

    @abstractmethod
    def cast_type(self) -> DataType:
        """The target of a CAST: the type of a column, or an interval."""


#: Reads what is between the parentheses, given the place and the name of the function.
Reader = Callable[[FunctionGrammar, int, str], Unbound]


def word(at: int, text: str) -> UnboundLiteral:
    """A keyword as an argument."""
    return UnboundLiteral(at, "STRING", text)


def _make_null(at: int) -> UnboundLiteral:
    return UnboundLiteral(at, "NULL", "NULL")


def _parse_cast(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    operand = grammar.expression()
    grammar.expect("AS")
    return UnboundCast(at, operand, grammar.cast_type(), name == "TRY_CAST")


def _unit(grammar: FunctionGrammar, example: str) -> UnboundLiteral:
    name = grammar.name(f"a unit such as {example}")
    return word(name.at, name.text.upper())


def _extract(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    unit = _unit(grammar, "YEAR")
    grammar.expect("FROM")
    return UnboundCall(at, name, (unit, grammar.expression()))


def _trim(grammar: FunctionGrammar, at: int, _name: str) -> Unbound:
    side = grammar.take_any("BOTH", "LEADING", "TRAILING") if grammar.peek().keyword not in (")", ",") else ""
    characters: tuple[Unbound, ...] = ()
    if side and grammar.take("FROM"):
        operand = grammar.expression()
    else:
        operand = grammar.expression()
        if grammar.take("FROM"):
            characters, operand = (operand,), grammar.expression()
        elif side:
            raise grammar.unexpected_token("FROM")
    return UnboundCall(at, {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side, "BTRIM"), (operand, *characters))


def _substring(grammar: FunctionGrammar, at: int, _name: str) -> Unbound:
    args = [grammar.expression()]
    if grammar.take("FROM"):
        args.append(grammar.expression())
        args += [grammar.expression()] if grammar.take("FOR") else []
    elif grammar.take(","):
        args += grammar.parse_list(grammar.expression)
    return UnboundCall(at, "SUBSTRING", tuple(args))


def _position(grammar: FunctionGrammar, at: int, _name: str) -> Unbound:
    wanted = grammar.operand()
    grammar.expect("IN")
    args = wanted, grammar.operand()
    if grammar.take("FROM"):  # which only transforms of pipelines have
        return UnboundCall(at, "POSITION FROM", (*args, grammar.operand()))
    return UnboundCall(at, "LOCATE", args)


def _overlay(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    text = grammar.expression()
    grammar.expect("PLACING")
    args = [text, grammar.expression()]
    grammar.expect("FROM")
    args.append(grammar.expression())
    args += [grammar.expression()] if grammar.take("FOR") else []
    return UnboundCall(at, name, tuple(args))


def _rounding(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    operand = grammar.expression()
    if grammar.take("TO"):
        return UnboundCall(at, "FLOOR TO" if name == "FLOOR" else "CEIL TO", (_unit(grammar, "DAY"), operand))
    return UnboundCall(at, name, (operand,))


def _timestamp_arithmetic(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    unit = _unit(grammar, "DAY")
    grammar.expect(",")
    return UnboundCall(at, name, (unit, *grammar.parse_list(grammar.expression)))


# --- JSON ----------------------------------------------------------------------------------------------------


def _document_and_path(grammar: FunctionGrammar) -> tuple[Unbound, Unbound]:
    document = grammar.expression()
    grammar.expect(",")
    return document, grammar.expression()


def _behaviours(grammar: FunctionGrammar, behaviour: Callable[[], tuple[Unbound, Unbound]]) -> list[Unbound]:
    """``.. ON EMPTY .. ON ERROR``: the word and the default of each, ``NULL`` where there is none."""
    at = grammar.at
    found = {"EMPTY": (word(at, "NULL"), _make_null(at)), "ERROR": (word(at, "NULL"), _make_null(at))}
    for _ in found:
        if grammar.token.keyword not in ("NULL", "ERROR", "DEFAULT", "EMPTY"):
            break
        given = behaviour()
        grammar.expect("ON")
        on = grammar.take_any("EMPTY", "ERROR")
        if not on:
            raise grammar.unexpected_token("EMPTY or ERROR")
        found[on] = given  # type: ignore[assignment]
    return [each for pair in found.values() for each in pair]


def _parse_returning(grammar: FunctionGrammar, default: str) -> UnboundLiteral:
    at = grammar.at
    return word(at, grammar.data_type(nullability=False).text() if grammar.take("RETURNING") else default)


def _json_value(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    document, path = _document_and_path(grammar)
    returned = _parse_returning(grammar, "STRING")

    def behaviour() -> tuple[Unbound, Unbound]:
        here = grammar.at
        if grammar.take("DEFAULT"):
            return word(here, "DEFAULT"), grammar.expression()
        return word(here, grammar.take_any("NULL", "ERROR") or "NULL"), _make_null(here)

    return UnboundCall(at, name, (document, path, returned, *_behaviours(grammar, behaviour)))


def _json_query(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    document, path = _document_and_path(grammar)
    returned = _parse_returning(grammar, "STRING")
    wrapper = "WITHOUT"
    if grammar.take("WITHOUT"):
        grammar.take("ARRAY")
        grammar.expect("WRAPPER")
    elif grammar.take("WITH"):
        wrapper = grammar.take_any("CONDITIONAL", "UNCONDITIONAL") or "UNCONDITIONAL"
        grammar.take("ARRAY")
        grammar.expect("WRAPPER")

    def behaviour() -> tuple[Unbound, Unbound]:
        here = grammar.at
        if grammar.take("EMPTY"):
            kind = grammar.take_any("ARRAY", "OBJECT")
            if not kind:
                raise grammar.unexpected_token("ARRAY or OBJECT")
            return word(here, f"EMPTY {kind}"), _make_null(here)
        found = grammar.take_any("NULL", "ERROR")
        if not found:
            raise grammar.unexpected_token("NULL, ERROR, EMPTY ARRAY or EMPTY OBJECT")
        return word(here, found), _make_null(here)

    empty, _, error, _ = _behaviours(grammar, behaviour)
    return UnboundCall(at, name, (document, path, returned, word(at, wrapper), empty, error))


def _json_exists(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    document, path = _document_and_path(grammar)
    here = grammar.at
    error = grammar.take_any("TRUE", "FALSE", "UNKNOWN", "ERROR")
    if error:
        grammar.expect("ON", "ERROR")
    return UnboundCall(at, name, (document, path, word(here, error or "FALSE")))


def _on_null(grammar: FunctionGrammar, default: str) -> UnboundLiteral:
    at = grammar.at
    found = default
    for each in ("NULL", "ABSENT"):
        if grammar.take(each, "ON", "NULL"):
            found = each
    return word(at, found)


def _entry(grammar: FunctionGrammar) -> tuple[Unbound, Unbound]:
    """``[KEY] key VALUE value`` or ``key : value``."""
    after = grammar.peek()
    named = after.type in (TokenType.STRING, TokenType.WORD, TokenType.QUOTED) and after.keyword != "VALUE"
    explicit = named and grammar.take("KEY")
    key = grammar.operand()
    if not grammar.take("VALUE") and (explicit or not grammar.take(":")):
        raise grammar.unexpected_token("VALUE")
    return key, grammar.expression()


def _json_object(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    args: list[Unbound] = []

    def entry() -> None:
        args.extend(_entry(grammar))

    if not grammar.sees(")") and not (grammar.token.keyword in ("NULL", "ABSENT") and grammar.peek().keyword == "ON"):
        grammar.parse_list(entry)
    return UnboundCall(at, name, (_on_null(grammar, "NULL"), *args))


def _json_array(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    empty = grammar.sees(")") or (grammar.token.keyword in ("NULL", "ABSENT") and grammar.peek().keyword == "ON")
    args = () if empty else grammar.parse_list(grammar.expression)
    return UnboundCall(at, name, (_on_null(grammar, "ABSENT"), *args))


def _json_objectagg(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    key, value = _entry(grammar)
    return UnboundAggregate(at, name, (_on_null(grammar, "NULL"), key, value))


def _json_arrayagg(grammar: FunctionGrammar, at: int, name: str) -> Unbound:
    value = grammar.expression()
    if grammar.sees("ORDER", "BY"):
        raise grammar.unsupported_feature(f"{name} with ORDER BY", "values are in the order of their arrival", at)
    return UnboundAggregate(at, name, (_on_null(grammar, "ABSENT"), value))


#: By the name of the function.
READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("CAST", "TRY_CAST"), _parse_cast),
    "EXTRACT": _extract,
    "TRIM": _trim,
    **dict.fromkeys(("SUBSTRING", "SUBSTR"), _substring),
    "POSITION": _position,
    "OVERLAY": _overlay,
    **dict.fromkeys(("CEIL", "CEILING", "FLOOR"), _rounding),
    **dict.fromkeys(("TIMESTAMPADD", "TIMESTAMPDIFF"), _timestamp_arithmetic),
    "JSON_VALUE": _json_value,
    "JSON_QUERY": _json_query,
    "JSON_EXISTS": _json_exists,
    "JSON_OBJECT": _json_object,
    "JSON_ARRAY": _json_array,
    "JSON_OBJECTAGG": _json_objectagg,
    "JSON_ARRAYAGG": _json_arrayagg,
}
