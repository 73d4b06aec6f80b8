"""Which values fit a column of a known type, and the type that a column gets when one does not fit."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.inference import InferenceRules
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.survey import FieldSurvey, survey_messages
from penstock.types import NULL, DataType, Field, RowType, parse_type

#: Values as they are written in JSON, by the type of a column in which they fit.
FITTING = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["127", "-128", "0"],
    "SMALLINT": ["32767", "-32768"],
    "INT": ["2147483647", "-2147483648"],
    "BIGINT": ["9223372036854775807", "-9223372036854775808"],
    "FLOAT": ["1", "1.5", "-2e3"],
    "DOUBLE": ["1", "1.5", "9223372036854775807", "1e300"],
    "DECIMAL(4, 2)": ["12.34", "-99.99", "1", "0", "0.5", "12.3400", "1e1", "1.2E-1", "0.00"],
    "DECIMAL(38, 0)": ["9" * 38],
    "STRING": ['"x"', "1.50", "true", '{"a": 1}', "[1]", '"2024-01-31"'],
    "VARCHAR(3)": ['"abc"', '"\u00e4\u00f6\u00fc"', "123", '"äöü"', '""'],
    "CHAR(4)": ["true"],
    "BYTES": ['"QUJD"'],
    "DATE": ['"2024-01-31"'],
    "TIME(0)": ['"10:20:30"'],
    "TIME(3)": ['"10:20:30.12"', '"10:20:30"'],
    "TIMESTAMP(3)": ['"2024-01-31 10:20:30.123"', '"2024-01-31 10:20:30"', '"2024-01-31"'],
    "TIMESTAMP_LTZ(3)": ['"2024-01-31 10:20:30.123Z"', '"2024-01-31 10:20:30"', '"2024-01-31"'],
    "ARRAY<INT>": ["[1]", "[]"],
    "ROW<a INT>": ['{"a": 1}'],
    "MAP<STRING, INT>": ['{"a": 1}'],
}
#: The type of a column after a value that does not fit.
WIDENED = [
    ("BOOLEAN", "1", "STRING"),
    ("BOOLEAN", '"true"', "STRING"),
    ("TINYINT", "128", "BIGINT"),
    ("SMALLINT", "-32769", "BIGINT"),
    ("INT", "2147483648", "BIGINT"),
    ("INT", "-9223372036854775808", "BIGINT"),
    ("INT", "1.0", "DOUBLE"),
    ("INT", '"12"', "STRING"),
    ("BIGINT", "9223372036854775808", "DECIMAL(19, 0)"),
    ("BIGINT", "9" * 39, "STRING"),
    ("DOUBLE", "9223372036854775808", "STRING"),
    ("DECIMAL(4, 2)", "123", "DECIMAL(5, 2)"),
    ("DECIMAL(4, 2)", "0.125", "DECIMAL(5, 3)"),
    ("DECIMAL(4, 2)", "-1234.5678", "DECIMAL(8, 4)"),
    ("DECIMAL(4, 2)", "1e3", "DECIMAL(6, 2)"),
    ("DECIMAL(4, 2)", "9" * 38, "DECIMAL(38, 0)"),
    ("DECIMAL(4, 2)", '"1.5"', "STRING"),
    ("VARCHAR(3)", '"abcd"', "STRING"),
    ("VARCHAR(3)", '"\u00e4bcd"', "STRING"),
    ("VARCHAR(3)", "1234", "STRING"),
    ("VARCHAR(3)", "[]", "STRING"),
    ("BYTES", "1", "STRING"),
    ("DATE", '"2024-01-31 10:20:30.1"', "TIMESTAMP(3)"),
    ("DATE", '"soon"', "STRING"),
    ("TIME(0)", '"10:20:30.5"', "TIME(3)"),
    ("TIMESTAMP(3)", '"2024-01-31 10:20:30.1234"', "TIMESTAMP(6)"),
    ("TIMESTAMP(3)", '"2024-01-31 10:20:30Z"', "TIMESTAMP_LTZ(3)"),
    ("TIMESTAMP_LTZ(0)", '"2024-01-31 10:20:30.5Z"', "TIMESTAMP_LTZ(3)"),
    ("ARRAY<INT>", '{"a": 1}', "STRING"),
    ("ROW<a INT>", "1", "STRING"),
]
#: Another known field whose name the loop does not read, so that messages are read one by one.
READERS = {"loop": "b", "exact": 'b"'}


def survey(data_type: DataType, text: str, reader: str) -> FieldSurvey:
    message = f'{{"a": {text}}}'.encode()
    known = [Field("a", data_type), Field(READERS[reader], NULL)]
    return survey_messages(pa.array([b'{"a": null}', message], pa.binary()), known).fields[0]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FITTING.items() for text in texts])
def test_a_value_that_fits_is_not_noted(name: str, text: str, reader: str):
    found = survey(parse_type(name), text, reader)
    assert not found.kinds
    assert InferenceRules().infer_type(found, parse_type(name)) == parse_type(name)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("name", "text", "wanted"), WIDENED)
def test_a_value_that_does_not_fit_widens_the_type(name: str, text: str, wanted: str, reader: str):
    found = survey(parse_type(name), text, reader)
    assert (found.first, len(found.kinds)) == (1, 1)
    widened = InferenceRules().infer_type(found, parse_type(name))
    assert str(widened) == wanted
    assert not survey(widened, text, reader).kinds


@pytest.mark.parametrize("name", FITTING)
def test_values_that_fit_can_be_read(name: str):
    decoder = JsonDecoder(RowType((Field("a", parse_type(name)),)), JsonOptions(lenient_times=True))
    decoded = decoder.decode(pa.array([f'{{"a": {text}}}'.encode() for text in FITTING[name]], pa.binary()))
    assert (decoded.bad, decoded.rows.num_rows, decoded.rows.column(0).null_count) == ((), len(FITTING[name]), 0)


@pytest.mark.parametrize(("name", "zone"), [("TIMESTAMP(3)", None), ("TIMESTAMP_LTZ(3)", "UTC")])
def test_dates_and_texts_without_a_zone_are_moments_in_utc(name: str, zone: str | None):
    decoder = JsonDecoder(RowType((Field("a", parse_type(name)),)), JsonOptions(lenient_times=True))
    messages: list[Any] = [json.dumps({"a": each}).encode() for each in ("2024-01-31", "2024-01-31 01:00:00")]
    found = decoder.decode(pa.array(messages, pa.binary())).rows.column(0).cast(pa.timestamp("us", zone))
    assert [str(each) for each in found.cast(pa.timestamp("us"))] == ["2024-01-31 00:00:00", "2024-01-31 01:00:00"]
