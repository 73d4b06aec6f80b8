"""Transforms against the cases of Flink CDC's own tests: schema and events of a table of all types."""

from __future__ import annotations

import re

import pytest

from penstock.errors import PenstockError
from tests.cdc_cases import Case, read_cases
from tests.corpora import needed

CASES = read_cases()
_ZONED = "no column has the type TIMESTAMP WITH TIME ZONE"
_VARIANT = "no column has the type VARIANT"
_BOTH = "no column has the types TIMESTAMP WITH TIME ZONE and VARIANT"

#: The cases that do not give what Flink CDC expects, and why.
REASONS = {
    "Wildcard": _BOTH,
    "Soft Delete Post Converter": _BOTH,
    **dict.fromkeys(
        (
            "All Primitive Columns",
            "Cast To String",
            "Cast To Timestamp (UTC)",
            "Cast To Timestamp (Asia/Shanghai)",
            "FLINK-39682 (Invoke TO_DATE with TIMESTAMP_TZ)",
        ),
        _ZONED,
    ),
    **dict.fromkeys(
        (
            "All Nested Columns",
            "Select Nested Objects",
            "Parse Variant from JSON",
            "Parse Variant from JSON with Error",
            "Parse Variant from JSON with duplicate key allowed",
            "Parse Variant from JSON with duplicate key rejected",
            "Try Parse Variant from JSON",
            "Try Parse Variant from JSON with Error",
            "Try Parse Variant from JSON with duplicate key allowed",
            "Try Parse Variant from JSON with duplicate key rejected",
            "Variant Object Subscripting With String Key",
            "Variant Array Subscripting With Integer Index",
            "Variant Nested Subscripting",
            "Variant Subscripting With Absent Key",
            "Variant Subscripting With Parsed JSON",
            "Variant Subscripting With Parsed JSON Object",
        ),
        _VARIANT,
    ),
    "Char Length (With NULL)": "CHAR_LENGTH of NULL is NULL; Flink CDC does not meet this either (FLINK-38905)",
}

#: What penstock says where Flink CDC has an error.
ERRORS = {
    "Invalid Projection Expr": "there is no column 'a_column_that_is_nowhere_to_be_found'",
    "Invalid Filter Expr": "there is no column 'another_column_that_is_nowhere_to_be_found'",
    "Cast To Timestamp Failure": r"'FOOBAR' cannot be read as TIMESTAMP\(3\)",
    "Element with Multiple Values": "ELEMENT takes an array of one element, not of 7",
    "Record Subscripting With Invalid Index": "a row of 2 fields is indexed by a constant from 1",
    "Record Subscripting With Computed Index (Illegal, type must be statically determined)": (
        "a row of 2 fields is indexed by a constant from 1"
    ),
    "Substring with Index OOB": "the length of SUBSTRING is not negative",
    "To Timestamp Function Failure (1)": r"'2024 !! 02 !! 14' cannot be read as TIMESTAMP\(3\)",
    "To Timestamp Function Failure (2)": "cannot be read as TIMESTAMP",
    "Parse Variant from JSON with Error": "NOT A VALID JSON",
    "Parse Variant from JSON with duplicate key rejected": "'id' .* twice",
}


def run(case: Case) -> None:
    """Raises AssertionError for what is not as expected."""
    if case.error:
        with pytest.raises(PenstockError) as caught:
            case.run()
        assert re.search(ERRORS[case.name], str(caught.value))
        return
    schema, events = case.run()
    if case.schema:  # Flink CDC has no expectation of some of the cases that it ignores
        assert schema == case.schema
        assert events == case.events


@needed()
@pytest.mark.parametrize("name", [name for name in CASES if name not in REASONS])
def test_a_case_gives_what_flink_cdc_gives(name):
    run(CASES[name])


@needed()
@pytest.mark.parametrize("name", REASONS)
def test_a_case_with_a_reason_still_fails(name):
    with pytest.raises((AssertionError, PenstockError)):
        run(CASES[name])


#: The cases with a reason that have other columns too.
OTHER_COLUMNS = (
    "Wildcard",
    "Soft Delete Post Converter",
    "All Primitive Columns",
    "All Nested Columns",
    "Select Nested Objects",
    "Cast To String",
    "Cast To Timestamp (UTC)",
    "Cast To Timestamp (Asia/Shanghai)",
)


@needed()
@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_other_columns_of_a_case_are_as_in_flink_cdc(name):
    run(CASES[name].leave_out_missing())


@needed()
def test_every_case_is_run():
    assert len(CASES) == 184
    assert REASONS.keys() | ERRORS.keys() <= CASES.keys()
