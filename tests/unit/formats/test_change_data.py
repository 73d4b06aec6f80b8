"""What is the same in all formats of change data."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.columns.nested import Shape
from penstock.errors import SchemaError
from penstock.formats.json.field_names import FieldNames
from penstock.spi import ChangeFormat, formats
from penstock.types import RowKind, RowType, arrow_schema, parse_columns
from tests.unit.formats.changes import decoded, shown

NAMES = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
COLUMNS = "a INT, b STRING, d DECIMAL(3, 1), r ROW<a INT, b STRING>"
OPERATIONS = {
    "debezium-json": ("op", ["c", "r", "u", "u", "d", "x"]),
    "canal-json": ("type", ["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE", "CREATE", "ALTER"]),
    "maxwell-json": ("type", ["insert", "update", "update", "delete", "bootstrap-insert"]),
    "ogg-json": ("op_type", ["I", "U", "U", "D", "T"]),
}
#: Fields of metadata, and others that may come again.
BESIDE = ["old", "after", "other", "ts", "es", "ts_ms", "source", "schema", "database", "table", "sqlType", "pkNames"]
BESIDE += ["op_ts", "current_ts", "primary_keys", "primary_key_columns"]
SCALARS = st.sampled_from(
    [
        "null",
        "1",
        "-2",
        "12.5",
        "12.50",
        "1e3",
        "123.4",
        '"7"',
        '"x"',
        '"caf\\u00e9"',
        '""',
        "true",
        "[1]",
        '{"a":null}',
        '{"ts_ms":5,"table":"t"}',
        '"2026-01-02 03:04:05"',
    ]
)
MEMBERS = st.tuples(st.sampled_from(["a", "b", "d", "r", "c", "\\u0061"]), SCALARS)


def an_object(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"


IMAGES = st.one_of(st.lists(MEMBERS, max_size=5).map(an_object), st.lists(MEMBERS, max_size=5).map(an_object), SCALARS)
LISTS = st.one_of(st.lists(IMAGES, max_size=3).map(lambda parts: f"[{','.join(parts)}]"), SCALARS)


@st.composite
def messages(draw: Callable[..., Any], name: str) -> bytes | None:
    if draw(st.integers(0, 9)) == 9:
        return draw(st.sampled_from([None, b"", b"{", b"[]", b"[{}]", b"null", b"5"]))
    field, operations = OPERATIONS[name]
    image = LISTS if name == "canal-json" else IMAGES
    members = [(each, draw(image)) for each in ("before", "after", "data", "old") if draw(st.integers(0, 4))]
    members.append((field, f'"{draw(st.sampled_from(operations))}"'))
    members += draw(st.lists(st.tuples(st.sampled_from(BESIDE), SCALARS), max_size=2))
    text = an_object(draw(st.permutations(members)))
    return (f"[{text}]" if draw(st.integers(0, 9)) == 9 else text).encode()


def answer(name: str, given: list[bytes | None], metadata: tuple[str, ...], ignore: bool) -> tuple[Any, ...]:
    found = decoded(name, COLUMNS, *given, metadata=metadata, ignore_parse_errors="true" if ignore else "false")
    return shown(found), found.bad


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), ignore=st.booleans())
def test_the_loop_and_the_exact_path_give_the_same_changes(name: str, data: st.DataObject, ignore: bool) -> None:
    fmt = formats.get(name)
    assert isinstance(fmt, ChangeFormat)
    found = data.draw(st.lists(messages(name), min_size=1, max_size=4))
    metadata = tuple(data.draw(st.lists(st.sampled_from(sorted(fmt.metadata)), max_size=3)))
    by_the_loop = answer(name, found, metadata, ignore)
    with pytest.MonkeyPatch.context() as patch:
        names_of = FieldNames.of
        patch.setattr(FieldNames, "of", staticmethod(lambda shape: replace(names_of(shape), plain=False)))
        assert not FieldNames.of(Shape.from_row_type(parse_columns(COLUMNS))).plain
        assert answer(name, found, metadata, ignore) == by_the_loop


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_as_insertions_and_deletions(name: str) -> None:
    fmt, schema = formats.get(name), parse_columns(COLUMNS)
    assert isinstance(fmt, ChangeFormat)
    options = fmt.options.from_text({})
    encoder = pickle.loads(pickle.dumps(fmt.encoder(schema, options)))
    decoder = pickle.loads(pickle.dumps(fmt.decoder(schema, options)))
    rows = [{"a": each, "b": "x\n", "d": None, "r": {"a": None, "b": "y"}} for each in range(4)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    kinds = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE], np.int8)
    found = decoder.decode(encoder.encode(batch, kinds))
    assert found.bad == ()
    assert found.rows.equals(batch)
    assert found.kinds.tolist() == [RowKind.INSERT, RowKind.DELETE, RowKind.INSERT, RowKind.DELETE]
    assert found.origin.tolist() == [0, 1, 2, 3]
    assert decoder.decode(encoder.encode(batch)).kinds.tolist() == [RowKind.INSERT] * 4


@pytest.mark.parametrize("name", NAMES)
def test_a_map_without_text_for_its_keys_is_refused(name: str) -> None:
    fmt, schema = formats.get(name), parse_columns("m MAP<INT, INT>")
    for build in (fmt.decoder, fmt.encoder):
        with pytest.raises(SchemaError, match=r"'m': keys of JSON objects are strings"):
            build(schema, fmt.options.from_text({}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("debezium-json", '{"before":{},"after":{"a":1},"op":"u","source":{"db":"shop","table":"t"}}'),
        ("canal-json", '{"data":[{"a":1}],"old":[{"a":2}],"type":"UPDATE","database":"shop","table":"t"}'),
        ("maxwell-json", '{"data":{"a":1},"old":{},"type":"update","database":"shop","table":"t"}'),
        ("ogg-json", '{"before":{},"after":{"a":1},"op_type":"U","table":"t"}'),
    ],
)
def test_a_table_may_have_metadata_alone(name: str, message: str) -> None:
    fmt, key = formats.get(name), "source.table" if name == "debezium-json" else "table"
    assert isinstance(fmt, ChangeFormat)
    for metadata in ((), (key,)):
        decoder = fmt.decoder(RowType(()), fmt.options.from_text({}), metadata)
        found = decoder.decode(pa.array([message.encode(), b"", message.encode()]))
        rest = ("t",) if metadata else ()
        assert shown(found) == [(0, "-U", *rest), (0, "+U", *rest), (2, "-U", *rest), (2, "+U", *rest)]


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_that_is_not_known_is_not_shown_at_any_length(name: str) -> None:
    field = OPERATIONS[name][0]
    (bad,) = decoded(name, COLUMNS, f'{{"{field}":"{"x" * 10_000}"}}').bad
    assert bad.field == field
    assert len(bad.reason) < 200
