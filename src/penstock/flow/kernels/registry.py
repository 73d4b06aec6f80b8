"""The functions that have kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.flow.kernels import arithmetic, comparison, logic
from penstock.flow.kernels.vectors import Kernel
from penstock.plan.expressions import Call

#: Makes the kernel of a call in a session's time zone (empty: not known); None if there is none for its types.
Maker = Callable[[Call, str], Kernel | None]

#: By the function's name in the plan. Others are rewritten to these (``penstock.flow.kernels.rewrites``).
KERNELS: Mapping[str, Maker] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), comparison.comparison),
    "IS DISTINCT FROM": comparison.distinct,
    "IN": comparison.member,
    "AND": logic.conjunction,
    "OR": logic.disjunction,
    "NOT": logic.negation,
    "IS NULL": logic.is_null,
    "IS TRUE": logic.is_true,
    "IS FALSE": logic.is_false,
    "CASE": logic.choice,
    "COALESCE": logic.first_known,
    **dict.fromkeys(("+", "-", "*"), arithmetic.arithmetic),
    "NEGATE": arithmetic.negation,
}
