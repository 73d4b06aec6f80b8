"""The arguments of functions in transforms of pipelines."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.expressions import Expression, Literal
from penstock.sql.bind.expressions.binding import Bound, ExpressionBinder
from penstock.sql.parse.syntax import Unbound, UnboundCall
from penstock.types import STRING, DataType


def bind_first(scope: ExpressionBinder, given: UnboundCall, count: int = 1) -> tuple[UnboundCall, list[Expression]]:
    """The call with its first arguments bound, which are bound once; and these."""
    bound = [scope.bind(each) for each in given.args[:count]]
    parts = (Bound(each.at, value) for each, value in zip(given.args, bound, strict=False))
    return replace(given, args=(*parts, *given.args[count:])), bound


def make_text(value: str) -> Literal:
    """A constant text."""
    return Literal(value, type=STRING.with_nullability(False))


def check_count(scope: ExpressionBinder, given: UnboundCall, least: int, most: int) -> None:
    """Raises SqlError for a call with fewer or more arguments."""
    if not least <= len(given.args) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        reason = f"{given.name} takes {expected} argument{'' if most == 1 else 's'}, not {len(given.args)}"
        raise scope.source.error(given.at, reason)


def refuse_type(scope: ExpressionBinder, given: Unbound, name: str, expected: str, found: DataType) -> Exception:
    """The error for an argument of another type."""
    return scope.source.error(given.at, f"{name} takes {expected} here, not {found.text()}", "CAST it")
