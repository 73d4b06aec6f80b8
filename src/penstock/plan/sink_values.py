"""Functions that check the values of a sink's columns."""

from __future__ import annotations

from penstock.plan.expressions import Call, Expression

#: The value, which must not be NULL; the value in the length of its type. Both then take the names of the table and the
#: column; the latter also takes what to do with a value of another length.
NOT_NULL, FITTED = "NOT NULL", "FITTED"


def find_checked_value(expression: Expression) -> Expression:
    """What is written, if it is not NULL."""
    return expression.args[0] if isinstance(expression, Call) and expression.function == NOT_NULL else expression
