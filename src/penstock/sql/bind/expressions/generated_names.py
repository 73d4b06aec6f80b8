"""Generated column names."""

from __future__ import annotations

import hashlib
from collections.abc import Container

from penstock.plan.expressions import ColumnRef, Expression
from penstock.plan.flink_sql import flink_sql

_LONGEST = 60


def find_free_name(wanted: str, taken: Container[str]) -> str:
    """``wanted``, with a number after it if it is ``taken``: ``a0``, as Flink does."""
    name, count = wanted, 0
    while name in taken:
        name, count = f"{wanted}{count}", count + 1
    return name


def generate_name(expression: Expression) -> str:
    """A name for a column with the value of ``expression``: the column's name if it is a column, else a dollar sign and
    its text. State is found by this name, so it says what is computed, and not where it is written."""
    if isinstance(expression, ColumnRef):
        return expression.name
    return shorten("$" + flink_sql(expression).replace("`", ""))


def shorten(text: str) -> str:
    """``text``, or its beginning and a digest of the whole if it is long."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 9]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
