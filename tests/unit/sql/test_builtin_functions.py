"""The list of Flink's functions says what is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.errors import UnsupportedError
from penstock.plan.scalar_functions import aliases, catalogue, functions, missing
from penstock.sql import parse_expression
from penstock.sql.bind.expressions.aggregates import FUNCTIONS
from penstock.sql.bind.expressions.scope import FORMS
from penstock.sql.parse.vocabulary import AGGREGATES, RANKINGS
from penstock.types import parse_columns

#: What SQL has: functions that only plans have are not listed.
LISTED = {each.name for group in catalogue().values() for each in group if each.syntax} | aliases().keys()
OVERLOADED = {name for name, each in functions().items() if each.overloads}
#: Not calls: parts of the grammar, and other names of what is listed.
GRAMMAR = {"EXISTS", "DATE", "CAST", "TRY_CAST", "[]", "ARRAY[]", "MAP[]", "JSON"}


def test_what_is_listed_can_be_bound():
    bound = GRAMMAR | FORMS.keys() | OVERLOADED | aliases().keys() | set(FUNCTIONS) | RANKINGS
    assert LISTED - missing().keys() - bound == set()


def test_what_can_be_bound_is_listed():
    assert (OVERLOADED | set(FUNCTIONS) | AGGREGATES | RANKINGS) - LISTED == set()


@pytest.mark.parametrize("name", missing())
def test_what_is_refused_is_refused_with_its_reason(name):
    with pytest.raises(UnsupportedError) as caught:
        parse_expression(f"{name}(x)", parse_columns("x STRING"))

    assert missing()[name].partition("; ")[0] in str(caught.value)


def test_every_function_of_flink_is_listed():
    """By the names that Flink 2.2 lists as its own (``SHOW FUNCTIONS``), and those of its SQL operators that it does
    not list: functions of groups and of the rows around a row."""
    names = json.loads((Path(__file__).parents[2] / "recorded" / "names.json").read_text("utf-8"))
    written = {word for group in catalogue().values() for each in group for word in re.findall(r"\w+", each.syntax)}
    assert [name for name in names if name not in written] == []
