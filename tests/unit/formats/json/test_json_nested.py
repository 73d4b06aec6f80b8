"""The compiled loops and the exact paths read and write nested columns alike, whatever the schema and the messages."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.exact.merge import merge_exact_rows
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.exact_writer import write_json_texts
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.loops.record_status import EXACT, NO_ROW
from penstock.spi import Decoded
from penstock.types import RowType, arrow_schema, parse_columns
from tests.unit.formats.json.documents import broken, document, schema

OPTIONS = st.builds(
    JsonOptions,
    ignore_parse_errors=st.booleans(),
    timestamp_standard=st.sampled_from(TimestampStandard),
    json_parser=st.booleans(),
    decimal_as_plain_number=st.booleans(),
    ignore_null_fields=st.booleans(),
) | st.builds(JsonOptions, fail_on_missing_field=st.just(True), json_parser=st.booleans())
SEEDS = st.integers(0, 2**64 - 1)
DEBEZIUM = "before ROW<id BIGINT, name STRING, n DECIMAL(10, 2), at TIMESTAMP(3), ok BOOLEAN>, "
DEBEZIUM += DEBEZIUM.replace("before", "after") + "op STRING"


def by_the_loop(row: RowType, options: JsonOptions, messages: list[bytes]) -> Decoded:
    decoded = JsonDecoder(row, options).decode(pa.array(messages, pa.binary()))
    decoded.rows.validate(full=True)
    return decoded


def by_the_exact_path(row: RowType, options: JsonOptions, messages: list[bytes]) -> Decoded:
    reader, arrow = ExactJsonReader(row, options), arrow_schema(row)
    status = np.array([EXACT if message else NO_ROW for message in messages], np.uint8)
    nothing = pa.RecordBatch.from_arrays([pa.nulls(len(messages), each.type) for each in arrow], schema=arrow)
    return merge_exact_rows(nothing, status, lambda index: reader.read_rows(messages[index]))


def answer(decoded: Decoded) -> tuple[Any, ...]:
    origin = list(range(decoded.rows.num_rows)) if decoded.origin is None else decoded.origin.tolist()
    return shown(decoded.rows.to_struct_array()), origin, decoded.bad


def shown(array: pa.Array) -> list[Any]:
    """The values of a column, dates and times as numbers: theirs is a wider range than Python's."""
    if pa.types.is_temporal(array.type):
        return shown(array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()))
    if pa.types.is_struct(array.type):
        fields = [shown(each) for each in array.flatten()]
        return [
            values if valid else None
            for valid, *values in zip(array.is_valid().to_pylist(), *fields, strict=True)
        ]  # fmt: skip
    if not pa.types.is_nested(array.type):
        return [repr(value) for value in array.to_pylist()]
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    items = list(zip(*map(shown, parts), strict=True))
    offsets = array.offsets.to_pylist()
    return [
        items[offsets[index] : offsets[index + 1]] if valid else None
        for index, valid in enumerate(array.is_valid().to_pylist())
    ]


def some(random: Random, row: RowType) -> list[bytes]:
    """Messages for a row: good ones, others with values that do not fit, and broken ones."""
    messages = [document(random, row, random.choice([0.0, 0.0, 0.05, 0.3])).encode() for _ in range(8)]
    return [broken(random, each) if random.random() < 0.25 else each for each in messages]


@settings(max_examples=300, deadline=None)
@given(SEEDS, OPTIONS)
def test_both_paths_read_any_schema_alike(seed: int, options: JsonOptions) -> None:
    random = Random(seed)
    row = schema(random)
    messages = some(random, row)
    assert answer(by_the_loop(row, options, messages)) == answer(by_the_exact_path(row, options, messages))


@settings(max_examples=100, deadline=None)
@given(SEEDS, OPTIONS)
def test_both_paths_read_changes_alike(seed: int, options: JsonOptions) -> None:
    random, row = Random(seed), parse_columns(DEBEZIUM)
    messages = some(random, row)
    assert answer(by_the_loop(row, options, messages)) == answer(by_the_exact_path(row, options, messages))


@settings(max_examples=200, deadline=None)
@given(SEEDS, OPTIONS)
def test_both_paths_write_any_schema_alike(seed: int, options: JsonOptions) -> None:
    random = Random(seed)
    row = schema(random)
    rows = by_the_loop(row, JsonOptions(), [document(random, row).encode() for _ in range(8)]).rows
    rows = rows.slice(random.randint(0, min(2, rows.num_rows)))
    messages = JsonEncoder(row, options).encode(rows)
    messages.validate(full=True)
    texts = write_json_texts(rows.to_struct_array(), row, options)
    assert [each.decode() for each in messages.to_pylist()] == texts


@pytest.mark.parametrize("sizes", [[2000, 0, 1], [1] * 2000, [0, 70, 0, 3000]])
def test_room_is_made_for_any_number_of_elements(sizes: list[int]) -> None:
    row = parse_columns("a ARRAY<ROW<x INT, m MAP<STRING, ARRAY<STRING>>>>, z INT")
    items = [f'{{"x":{index},"m":{{"k":["a","b"],"l":null}}}}' for index in range(max(sizes))]
    messages = [f'{{"a":[{",".join(items[:size])}],"z":{size}}}'.encode() for size in sizes]
    decoded = by_the_loop(row, JsonOptions(), messages)
    assert JsonEncoder(row, JsonOptions()).encode(decoded.rows).to_pylist() == messages


def test_nested_records_never_reach_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactJsonReader, "read_rows", lambda self, message: pytest.fail(f"exact path for {message!r}"))
    image = '{"id":1,"name":"a\\n","n":1.50,"at":"2024-01-01 00:00:00","ok":true}'
    source = '{"version":"2","name":"dbz","ts_ms":1,"snapshot":false,"db":null,"list":[1,{"a":"\\u00e9"}]}'
    message = f'{{"before":null,"after":{image},"source":{source},"op":"c","ts_ms":1,"transaction":null}}'
    changed = f'{{"op":"u","after":{image},"before":{{"id":2,"extra":{{}},"name":null}}}}'
    decoded = by_the_loop(parse_columns(DEBEZIUM), JsonOptions(), [message.encode(), changed.encode()])
    assert [row["op"] for row in decoded.rows.to_pylist()] == ["c", "u"]
    assert [row["before"] and row["before"]["id"] for row in decoded.rows.to_pylist()] == [None, 2]


def test_names_with_escapes_never_reach_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactJsonReader, "read_rows", lambda self, message: pytest.fail(f"exact path for {message!r}"))
    row = parse_columns("`größe` INT, r ROW<a INT, `名` STRING>")
    message = b'{"gr\\u00f6\\u00dfe":1,"\\u0072":{"\\u540d":"x","\\u0062":2,"a much longer name that is unknown\\n":3}}'
    assert by_the_loop(row, JsonOptions(), [message]).rows.to_pylist() == [{"größe": 1, "r": {"a": None, "名": "x"}}]


def test_long_numbers_never_reach_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExactJsonReader, "read_rows", lambda self, message: pytest.fail(f"exact path for {message!r}"))
    row = parse_columns("i BIGINT, n DECIMAL(38, 3), t DECIMAL(38, 3), s DECIMAL(4, 2)")
    message = b'{"i":9223372036854775807,"n":-12345678901234567890123456789.0125,"t":"1e30","s":1.00000000000000000005}'
    decoded = by_the_loop(row, JsonOptions(), [message])
    written = b'{"i":9223372036854775807,"n":-12345678901234567890123456789.013,"t":1E+30,"s":1}'
    assert JsonEncoder(row, JsonOptions()).encode(decoded.rows).to_pylist() == [written]


def test_a_record_that_is_refused_late_leaves_nothing_behind() -> None:
    row = parse_columns("a ARRAY<ROW<x INT, y STRING>>, m MAP<STRING, INT>")
    good = b'{"a":[{"x":1}],"m":{"k":1}}'
    bad = b'{"a":[{"x":5,"y":"q"},{"y":"r"},{"x":6}],"m":{"k":1,"l":"x"}}'
    decoded = by_the_loop(row, JsonOptions(), [good, bad, good, bad, good])
    assert [each.index for each in decoded.bad] == [1, 3]
    assert decoded.rows.to_pylist() == [{"a": [{"x": 1, "y": None}], "m": [("k", 1)]}] * 3


def test_a_field_that_a_nested_row_lacks_is_named() -> None:
    row = parse_columns("a INT, r ROW<x INT, l ARRAY<ROW<y INT, z INT>>>")
    messages = [b'{"a":1,"r":null}', b'{"a":1,"r":{"x":1}}', b'{"a":1,"r":{"x":1,"l":[{"y":1}]}}']
    decoded = by_the_loop(row, JsonOptions(fail_on_missing_field=True), messages)
    assert [(each.index, each.field) for each in decoded.bad] == [(1, "r.l"), (2, "r.l.z")]


def test_the_streaming_parser_stops_counting_in_nested_objects_too() -> None:
    row, message = parse_columns("r ROW<a INT, b INT>"), b'{"r":{"a":1,"a":2,"b":3}}'
    assert by_the_loop(row, JsonOptions(), [message]).rows.to_pylist() == [{"r": {"a": 2, "b": None}}]
    assert by_the_loop(row, JsonOptions(json_parser=False), [message]).rows.to_pylist() == [{"r": {"a": 2, "b": 3}}]


@pytest.mark.parametrize("count", [3, 9, 40_000])
def test_a_key_that_a_map_has_twice_is_written_once_with_its_last_value(count: int) -> None:
    row = parse_columns("i INT, m MAP<STRING, INT>")
    pairs = [(f"k{index % (count - 1)}", index) for index in range(count)]
    rows = pa.RecordBatch.from_pylist([{"i": 1, "m": pairs}, {"i": 2, "m": None}], arrow_schema(row))
    first, second = JsonEncoder(row, JsonOptions()).encode(rows).to_pylist()
    wanted = ",".join(f'"{key}":{value}' for key, value in dict(pairs).items())
    assert first.decode() == f'{{"i":1,"m":{{{wanted}}}}}'
    assert second == b'{"i":2,"m":null}'


def test_null_fields_of_nested_rows_are_left_out_and_null_elements_are_not() -> None:
    row = parse_columns("a ROW<x INT, y ROW<z INT>>, l ARRAY<ROW<x INT>>, m MAP<STRING, INT>, n INT")
    values = [{"a": {"x": None, "y": {"z": None}}, "l": [None, {"x": None}], "m": [("k", None)], "n": 1}, {"n": 2}, {}]
    rows = pa.RecordBatch.from_pylist(values, arrow_schema(row))
    assert JsonEncoder(row, JsonOptions(ignore_null_fields=True)).encode(rows).to_pylist() == [
        b'{"a":{"y":{}},"l":[null,{}],"m":{"k":null},"n":1}',
        b'{"n":2}',
        b"{}",
    ]


def test_values_that_the_loop_leaves_stand_within_others() -> None:
    row = parse_columns("d ROW<x DATE>, s STRING, n ARRAY<DECIMAL(30, 0)>")
    days = pa.StructArray.from_arrays([pa.array([2932897, 0], pa.int32()).view(pa.date32())], ["x"])
    numbers = pa.array([[10**29 + 1], None], pa.list_(pa.field("element", pa.decimal128(30, 0))))
    rows = pa.RecordBatch.from_arrays([days, pa.array(["a", "b"]), numbers], schema=arrow_schema(row))
    assert JsonEncoder(row, JsonOptions(ignore_null_fields=True)).encode(rows).to_pylist() == [
        b'{"d":{"x":"+10000-01-01"},"s":"a","n":[100000000000000000000000000001]}',
        b'{"d":{"x":"1970-01-01"},"s":"b"}',
    ]
