"""Lengths of windows: intervals that are constants."""

from __future__ import annotations

from datetime import timedelta

from penstock.plan.expressions import Literal
from penstock.sql.bind.expressions.literals import bind_literal
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Unbound, UnboundLiteral


def read_length(given: Unbound, name: str, source: SourceText, *, positive: bool = True) -> int:
    """An interval of days or less, in milliseconds. Raises SqlError for anything else."""
    value = bind_literal(given, source) if isinstance(given, UnboundLiteral) else None
    if not (isinstance(value, Literal) and isinstance(value.value, timedelta)):
        reason = f"{name.lower()} must be an interval of days, hours, minutes or seconds"
        raise source.error(given.at, reason, "such as INTERVAL '10' MINUTE")
    millis, rest = divmod(value.value, timedelta(milliseconds=1))
    if rest or (positive and millis <= 0):
        reason = f"{name.lower()} must be {'whole milliseconds' if rest else 'longer than 0 ms'}"
        raise source.error(given.at, reason, "write a longer interval")
    return millis
