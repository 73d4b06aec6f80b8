"""Logic of three values."""

from __future__ import annotations

from penstock.flow.kernels.conditions import logic
from penstock.plan.scalar_functions import Function

GROUP = "Logic"

FUNCTIONS = (
    Function("OR", "a OR b", kernel=logic.disjunction),
    Function("AND", "a AND b", kernel=logic.conjunction),
    Function("NOT", "NOT a", kernel=logic.negation),
    Function("IS TRUE", "a IS [NOT] TRUE, a IS [NOT] FALSE, a IS [NOT] UNKNOWN", kernel=logic.is_true),
    Function("IS FALSE", kernel=logic.is_false),
)
