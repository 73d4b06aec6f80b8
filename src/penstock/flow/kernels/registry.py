"""The functions that have kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.flow.kernels import arithmetic, comparison, logic, moments, nested, patterns, strings
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel
from penstock.plan.expressions import Call

#: Makes the kernel of a call in a session; None if there is none for its types.
Maker = Callable[[Call, Session], Kernel | None]

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
    "/": arithmetic.division,
    "MOD": arithmetic.remainder,
    "ABS": arithmetic.magnitude,
    "CEIL": arithmetic.ceiling,
    "FLOOR": arithmetic.floor,
    "ROUND": arithmetic.rounded,
    "SIGN": arithmetic.sign,
    "SQRT": arithmetic.square_root,
    "UPPER": strings.UPPER,
    "LOWER": strings.LOWER,
    "REVERSE": strings.REVERSE,
    "REPLACE": strings.REPLACE,
    "CONCAT": strings.concatenation,
    "CONCAT_WS": strings.joining,
    "SUBSTRING": strings.SUBSTRING,
    "LEFT": strings.LEFT,
    "RIGHT": strings.RIGHT,
    "BTRIM": strings.BTRIM,
    "LTRIM": strings.LTRIM,
    "RTRIM": strings.RTRIM,
    "LPAD": strings.LPAD,
    "RPAD": strings.RPAD,
    "REPEAT": strings.REPEAT,
    "SPLIT_INDEX": strings.SPLIT_INDEX,
    "CHAR_LENGTH": strings.length,
    "LOCATE": strings.place,
    "LIKE": strings.like,
    "EXTRACT": moments.extract,
    "TIMESTAMPADD": moments.timestampadd,
    "TIMESTAMPDIFF": moments.timestampdiff,
    "TO_TIMESTAMP_LTZ": moments.to_timestamp_ltz,
    "DATE_FORMAT": patterns.date_format,
    "FROM_UNIXTIME": patterns.from_unixtime,
    **dict.fromkeys(("TO_TIMESTAMP", "TO_DATE"), patterns.to_moment),
    "ITEM": nested.item,
    "CARDINALITY": nested.cardinality,
}
