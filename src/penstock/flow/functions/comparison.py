"""Comparison and patterns."""

from __future__ import annotations

from penstock.flow.kernels import rewrites
from penstock.flow.kernels.conditions import comparison, constraints, logic
from penstock.flow.kernels.makers import either
from penstock.flow.kernels.texts import java_regex, strings
from penstock.plan.scalar_functions import Entry, Function

GROUP = "Comparison"
_ALL = "a = b, a <> b, a < b, a <= b, a > b, a >= b"

FUNCTIONS = (
    Function(
        "=",
        _ALL,
        "keys of joins have no maps, other conditions may",
        kernel=comparison.comparison,
        rewrite=rewrites.compare_alike,
    ),
    *(
        Function(name, kernel=comparison.comparison, rewrite=rewrites.compare_alike)
        for name in ("<>", "<", "<=", ">", ">=")
    ),
    Function("ORDERED", kernel=comparison.order),
    Function("IS NULL", "a IS [NOT] NULL", kernel=logic.is_null),
    Function(
        "IS DISTINCT FROM",
        "a IS [NOT] DISTINCT FROM b",
        kernel=comparison.distinct,
        rewrite=rewrites.compare_alike,
    ),
    Function("BETWEEN", "a [NOT] BETWEEN [ASYMMETRIC | SYMMETRIC] b AND c", kernel=None, rewrite=rewrites.between),
    Function("LIKE", "a [NOT] LIKE b [ESCAPE c]", kernel=either(strings.like, java_regex.LIKE)),
    Function("SIMILAR", "a [NOT] SIMILAR TO b [ESCAPE c]", kernel=java_regex.SIMILAR),
    Function("IN", "a [NOT] IN (b, ..)", kernel=comparison.member, rewrite=rewrites.member),
    Entry("EXISTS", "EXISTS (query), a [NOT] IN (query)", "in SELECT, WHERE, HAVING and ON of an INNER JOIN"),
    # What columns that are NOT NULL, or of limited length, check.
    Function("NOT NULL", kernel=constraints.not_null),
    Function("FITTED", kernel=constraints.fit_length),
)
