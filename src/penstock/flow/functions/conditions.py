"""Choices between values."""

from __future__ import annotations

from penstock.flow.kernels import rewrites
from penstock.flow.kernels.conditions import greatest, logic
from penstock.flow.kernels.texts import words
from penstock.plan.overloads import overloads
from penstock.plan.scalar_functions import Entry, Function
from penstock.types import BOOLEAN

GROUP = "Conditions"

FUNCTIONS = (
    Function("CASE", "CASE a WHEN b THEN c .. [ELSE d] END, CASE WHEN a THEN b .. [ELSE c] END", kernel=logic.choice),
    Function("NULLIF", "NULLIF(a, b)", kernel=None, rewrite=rewrites.nullif),
    Function("COALESCE", "COALESCE(a, ..)", kernel=logic.first_known),
    Function("IF", "IF(condition, a, b)", kernel=None, rewrite=rewrites.choose),
    Entry("IFNULL", "IFNULL(a, b)"),
    Function("IS_ALPHA", "IS_ALPHA(a)", kernel=words.IS_ALPHA, overloads=overloads(BOOLEAN, "v")),
    Function("IS_DECIMAL", "IS_DECIMAL(a)", kernel=words.IS_DECIMAL, overloads=overloads(BOOLEAN, "v")),
    Function("IS_DIGIT", "IS_DIGIT(a)", kernel=words.IS_DIGIT, overloads=overloads(BOOLEAN, "v")),
    Function("GREATEST", "GREATEST(a, ..)", kernel=greatest.extreme, rewrite=rewrites.to_result_type),
    Function("LEAST", "LEAST(a, ..)", kernel=greatest.extreme, rewrite=rewrites.to_result_type),
)
