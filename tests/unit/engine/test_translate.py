"""What the plan's expressions are in Spark SQL, beside the cases of tests/specs/sql/expressions.yaml."""

from __future__ import annotations

from penstock.engine.translate.functions import FUNCTIONS as RENDERED
from penstock.sql.bind.functions import ALIASES, FUNCTIONS


def test_every_function_that_can_be_bound_is_rendered():
    assert FUNCTIONS.keys() - RENDERED.keys() == set()
    assert ALIASES.keys() & (FUNCTIONS.keys() | RENDERED.keys()) == set()
    assert set(ALIASES.values()) <= RENDERED.keys()
