"""The types of inferred columns: each holds all values that it was inferred from, without loss."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.inference import InferenceRules
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.survey import survey_messages
from penstock.types import NULL, Field, RowType, parse_columns

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "BIGINT": [0, -(2**63), 2**63 - 1],
    "DECIMAL(20, 0)": [12345678901234567890],
    "DOUBLE": [1.5, -2.5e-7],
    "STRING": ["x", {"a": [1]}, [1, "b"], 10**40, "2024-01-31 10:00:00.1234567", "10:00:00.1234"],
    "DATE": ["2024-01-31"],
    "TIME(0)": ["10:20:30"],
    "TIME(3)": ["10:20:30.1", "10:20:30.123"],
    "TIMESTAMP(0)": ["2024-01-31 10:00:00"],
    "TIMESTAMP(3)": ["2024-01-31 10:00:00.123"],
    "TIMESTAMP(6)": ["2024-01-31 10:00:00.1234"],
    "TIMESTAMP_LTZ(3)": ["2024-01-31 10:00:00.12Z"],
}
#: Pairs whose type is that of neither.
MIXED = {
    ("BIGINT", "DOUBLE"): "DOUBLE",
    ("BIGINT", "DECIMAL(20, 0)"): "DECIMAL(20, 0)",
    ("DATE", "TIMESTAMP(0)"): "TIMESTAMP(0)",
    ("DATE", "TIMESTAMP(3)"): "TIMESTAMP(3)",
    ("DATE", "TIMESTAMP(6)"): "TIMESTAMP(6)",
    ("DATE", "TIMESTAMP_LTZ(3)"): "TIMESTAMP_LTZ(3)",
    ("TIME(0)", "TIME(3)"): "TIME(3)",
    ("TIMESTAMP(0)", "TIMESTAMP(3)"): "TIMESTAMP(3)",
    ("TIMESTAMP(0)", "TIMESTAMP(6)"): "TIMESTAMP(6)",
    ("TIMESTAMP(3)", "TIMESTAMP(6)"): "TIMESTAMP(6)",
    ("TIMESTAMP(0)", "TIMESTAMP_LTZ(3)"): "TIMESTAMP_LTZ(3)",
    ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"): "TIMESTAMP_LTZ(3)",
    ("TIMESTAMP(6)", "TIMESTAMP_LTZ(3)"): "TIMESTAMP_LTZ(6)",
}


PLAIN = InferenceRules()


def infer(*values: Any, rules: InferenceRules = PLAIN) -> RowType:
    messages = pa.array([json.dumps({"a": each}).encode() for each in values], pa.binary())
    found = survey_messages(messages)
    return RowType(tuple(Field(each.name, rules.infer_type(each)) for each in found.fields))


@pytest.mark.parametrize("name", VALUES)
def test_each_value_has_the_narrowest_type(name: str):
    for value in VALUES[name]:
        assert str(infer(value).fields[0].type) == name, value
        assert str(infer(None, value, None).fields[0].type) == name, value


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(VALUES, 2)))
def test_two_values_have_a_type_that_holds_both(one: str, other: str):
    wanted = MIXED.get((one, other), "STRING")
    assert str(infer(VALUES[one][0], VALUES[other][0]).fields[0].type) == wanted


def test_null_alone_says_nothing():
    assert infer(None, None).fields[0].type == NULL


def test_types_may_be_fixed_or_all_be_strings():
    fixed = InferenceRules(fixed=parse_columns("a VARCHAR(10), b INT"))
    assert str(infer(1, rules=fixed)) == "ROW<`a` VARCHAR(10)>"
    strings = InferenceRules(as_string=True, fixed=parse_columns("b INT"))
    assert [str(infer(each, rules=strings).fields[0].type) for each in (1, True, 1.5, "2024-01-31")] == ["STRING"] * 4
    assert infer(None, rules=strings).fields[0].type == NULL


@pytest.mark.parametrize("name", VALUES)
def test_every_value_can_be_read_as_its_type(name: str):
    values = VALUES[name]
    row = infer(*values)
    decoder = JsonDecoder(row, JsonOptions())
    decoded = decoder.decode(pa.array([json.dumps({"a": each}).encode() for each in values], pa.binary()))
    assert not decoded.bad
    assert decoded.rows.num_rows == len(values)
    assert decoded.rows.column("a").null_count == 0
