"""What the protobuf format reads and writes; the bytes are those of the encoding's specification, or the runtime's."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from penstock.errors import RecordError, SchemaError
from penstock.formats.protobuf.factory import FORMAT
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.spi import BadRecord, Decoded, formats
from penstock.types import arrow_schema, parse_columns

THREE = """
syntax = "proto3";
package t;
import "google/protobuf/timestamp.proto";
enum Color { RED = 0; GREEN = 1; LIME = 1; BLUE = -2; option allow_alias = true; }
message All {
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10;
  float f = 11; double d = 12; bool b = 13; string s = 14; bytes y = 15; Color c = 16;
  All m = 17;
  optional int32 o = 18; optional string os = 19;
  oneof choice { int32 x = 20; string z = 21; All deep = 22; }
  repeated int32 ns = 23; repeated string ss = 24; repeated All ms = 25; repeated Color cs = 26;
  repeated fixed32 fs = 27; repeated sint64 loose = 28 [packed = false];
  map<string, int32> counts = 29; map<int64, All> parts = 30; map<bool, Color> colors = 31;
  google.protobuf.Timestamp at = 32;
}
"""
TWO = """
syntax = "proto2";
package t2;
enum Size { SMALL = 3; LARGE = 5; }
enum Wide { NEAR = 1; FAR = 1000; }
enum Zeroed { NONE = 0; SOME = 1; }
message Old {
  optional int32 i = 1 [default = 7]; optional string s = 2 [default = "né"]; optional bytes y = 3 [default = "\\377"];
  optional double d = 4 [default = -1.5]; optional bool b = 5 [default = true]; optional Size size = 6;
  repeated Size sizes = 7; repeated int32 ns = 8; map<string, Zeroed> zs = 9;
  optional group Part = 10 { optional int32 x = 1; repeated string tags = 2; }
  repeated group Item = 13 { optional int32 x = 1; }
  optional Old inner = 14; optional Wide far = 15 [default = FAR];
}
message Strict { required int32 a = 1; optional int32 b = 2; optional Strict inner = 3; repeated Strict more = 4;
  map<int32, Strict> by = 5; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("definitions")
    (path / "three.proto").write_text(THREE)
    (path / "two.proto").write_text(TWO)
    return path


@pytest.fixture(scope="module")
def definitions(folder: Path) -> dict[str, ProtobufOptions]:
    names = {"t.All": "three.proto", "t2.Old": "two.proto", "t2.Strict": "two.proto"}
    return {
        name: ProtobufOptions(message_class_name=name, proto_file=str(folder / file)) for name, file in names.items()
    }


class Table:
    """Reads and writes messages of one type with columns and options."""

    def __init__(self, options: ProtobufOptions, columns: str, **more: Any):
        self.schema = parse_columns(columns)
        self.options = ProtobufOptions(
            message_class_name=options.message_class_name, definition=options.definition, **more
        )

    def decode(self, *messages: bytes | None) -> Decoded:
        decoded = FORMAT.decoder(self.schema, self.options).decode(pa.array(messages, pa.binary()))
        decoded.rows.validate(full=True)
        assert decoded.rows.schema == arrow_schema(self.schema)
        return decoded

    def rows(self, *messages: bytes | None) -> list[dict[str, Any]]:
        decoded = self.decode(*messages)
        assert decoded.bad == ()
        return decoded.rows.to_pylist()

    def bad(self, message: bytes) -> BadRecord:
        decoded = self.decode(message)
        assert decoded.rows.num_rows == 0
        (found,) = decoded.bad
        return found

    def encode(self, *rows: dict[str, Any]) -> list[bytes]:
        encoder = FORMAT.encoder(self.schema, self.options)
        messages = encoder.encode(pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(self.schema)))
        messages.validate(full=True)
        return messages.to_pylist()


@pytest.fixture
def three(definitions: dict[str, ProtobufOptions]) -> Any:
    return lambda columns, **more: Table(definitions["t.All"], columns, **more)


@pytest.fixture
def two(definitions: dict[str, ProtobufOptions]) -> Any:
    return lambda columns, **more: Table(definitions["t2.Old"], columns, **more)


@pytest.fixture
def strict(definitions: dict[str, ProtobufOptions]) -> Any:
    return lambda columns, **more: Table(definitions["t2.Strict"], columns, **more)


NEGATIVE = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"

#: Column, value, message.
BOTH_WAYS = [
    ("i32 INT", 150, b"\x08\x96\x01"),
    ("i32 INT", -1, b"\x08" + NEGATIVE),
    ("i32 INT", -(2**31), b"\x08\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01"),
    ("i64 BIGINT", -1, b"\x10" + NEGATIVE),
    ("i64 BIGINT", 2**63 - 1, b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ("u32 INT", -1, b"\x18\xff\xff\xff\xff\x0f"),
    ("u64 BIGINT", -1, b"\x20" + NEGATIVE),
    ("s32 INT", -1, b"\x28\x01"),
    ("s32 INT", -(2**31), b"\x28\xff\xff\xff\xff\x0f"),
    ("s64 BIGINT", 2**63 - 1, b"\x30\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ("s64 BIGINT", -(2**63), b"\x30" + NEGATIVE),
    ("f32 INT", -2, b"\x3d\xfe\xff\xff\xff"),
    ("f64 BIGINT", -2, b"\x41\xfe" + b"\xff" * 7),
    ("sf32 INT", -2, b"\x4d\xfe\xff\xff\xff"),
    ("sf64 BIGINT", -2, b"\x51\xfe" + b"\xff" * 7),
    ("f FLOAT", 1.5, b"\x5d" + struct.pack("<f", 1.5)),
    ("f FLOAT", -0.0, b"\x5d\x00\x00\x00\x80"),
    ("d DOUBLE", -0.1, b"\x61" + struct.pack("<d", -0.1)),
    ("b BOOLEAN", True, b"\x68\x01"),
    ("s STRING", "é€😀", b"\x72\x09" + "é€😀".encode()),
    ("y BYTES", b"\x00\xff", b"\x7a\x02\x00\xff"),
    ("c STRING", "BLUE", b"\x80\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ("c STRING", "GREEN", b"\x80\x01\x01"),
    ("c INT", -2, b"\x80\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ("c TINYINT", -2, b"\x80\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ("c SMALLINT", 1, b"\x80\x01\x01"),
    ("c BIGINT", 1, b"\x80\x01\x01"),
    ("m ROW<i32 INT, m ROW<s STRING>>", {"i32": 0, "m": {"s": "a"}}, b"\x8a\x01\x06\x8a\x01\x03\x72\x01a"),
    ("o INT", 0, b"\x90\x01\x00"),
    ("os STRING", "", b"\x9a\x01\x00"),
    ("x INT", 0, b"\xa0\x01\x00"),
    ("ns ARRAY<INT>", [1, 300, -1], b"\xba\x01\x0d\x01\xac\x02" + NEGATIVE),
    ("ss ARRAY<STRING>", ["a", "", "b"], b"\xc2\x01\x01a\xc2\x01\x00\xc2\x01\x01b"),
    ("ms ARRAY<ROW<i32 INT>>", [{"i32": 1}, {"i32": 0}], b"\xca\x01\x02\x08\x01\xca\x01\x00"),
    ("cs ARRAY<STRING>", ["GREEN", "RED"], b"\xd2\x01\x02\x01\x00"),
    ("cs ARRAY<SMALLINT>", [1, 0], b"\xd2\x01\x02\x01\x00"),
    ("fs ARRAY<INT>", [1, -1], b"\xda\x01\x08\x01\x00\x00\x00\xff\xff\xff\xff"),
    ("loose ARRAY<BIGINT>", [1, -1], b"\xe0\x01\x02\xe0\x01\x01"),
    ("counts MAP<STRING, INT>", [("b", 1), ("a", 0)], b"\xea\x01\x05\x0a\x01b\x10\x01\xea\x01\x05\x0a\x01a\x10\x00"),
    ("parts MAP<BIGINT, ROW<s STRING>>", [(1, {"s": "a"})], b"\xf2\x01\x07\x08\x01\x12\x03\x72\x01a"),
    ("colors MAP<BOOLEAN, STRING>", [(True, "GREEN")], b"\xfa\x01\x04\x08\x01\x10\x01"),
    ("at ROW<seconds BIGINT, nanos INT>", {"seconds": 5, "nanos": 7}, b"\x82\x02\x04\x08\x05\x10\x07"),
]


@pytest.mark.parametrize(("column", "value", "message"), BOTH_WAYS)
def test_each_type_both_ways(three: Any, column: str, value: Any, message: bytes) -> None:
    table = three(column)
    name = column.split(maxsplit=1)[0]
    assert repr(table.rows(message, message)) == repr([{name: value}, {name: value}])
    assert table.encode({name: value}, {name: value}) == [message, message]


def test_the_runtime_reads_what_is_written(three: Any) -> None:
    table = three(", ".join(sorted({column for column, _, _ in BOTH_WAYS if not column.startswith(("c ", "cs "))})))
    values = {column.split()[0]: value for column, value, _ in BOTH_WAYS if not column.startswith(("c ", "cs "))}
    (message,) = table.encode(values)
    found = GetMessageClass(table.options.definition.message).FromString(message)
    shown = json_format.MessageToDict(found, preserving_proto_field_name=True)
    assert shown["ns"] == [1, 300, -1]
    assert shown["m"] == {"m": {"s": "a"}}
    assert shown["u64"] == str(2**64 - 1)
    assert shown["counts"] == {"b": 1, "a": 0}
    assert shown["at"] == "1970-01-01T00:00:05.000000007Z"
    assert len(message) == found.ByteSize()


# --- what is absent ------------------------------------------------------------------------------------------


def test_absent_fields_of_proto3_are_their_default_unless_they_know_that_they_are_absent(three: Any) -> None:
    columns = (
        "i32 INT, d DOUBLE, b BOOLEAN, s STRING, y BYTES, c STRING, o INT, os STRING, x INT, "
        "m ROW<i32 INT, o INT>, ns ARRAY<INT>, counts MAP<STRING, INT>"
    )
    absent = {"i32": 0, "d": 0.0, "b": False, "s": "", "y": b"", "c": "RED", "o": None, "os": None, "x": None}
    assert three(columns).rows(b"") == [{**absent, "m": None, "ns": None, "counts": None}]
    assert three(columns, read_default_values=True).rows(b"") == [
        {**absent, "o": 0, "os": "", "x": 0, "m": {"i32": 0, "o": 0}, "ns": [], "counts": []}
    ]


def test_absent_fields_of_proto2_are_null_unless_defaults_are_asked_for(two: Any) -> None:
    columns = (
        "i INT, s STRING, y BYTES, d DOUBLE, b BOOLEAN, size STRING, sizes ARRAY<STRING>, inner ROW<i INT, size INT>"
    )
    names = [each.split()[0] for each in columns.split(", ")[:7]] + ["inner"]
    assert two(columns).rows(b"") == [dict.fromkeys(names)]
    assert two(columns, read_default_values=True).rows(b"") == [
        {
            "i": 7,
            "s": "né",
            "y": b"\xff",
            "d": -1.5,
            "b": True,
            "size": "SMALL",
            "sizes": [],
            "inner": {"i": 7, "size": 3},
        }
    ]


def test_a_message_that_is_there_but_empty_is_no_null(three: Any) -> None:
    assert three("m ROW<i32 INT, o INT, m ROW<i32 INT>>").rows(b"\x8a\x01\x00") == [
        {"m": {"i32": 0, "o": None, "m": None}}
    ]


def test_a_message_without_a_value_gives_no_row_and_an_empty_one_does(three: Any) -> None:
    decoded = three("i32 INT").decode(None, b"", None, b"\x08\x01")
    assert decoded.rows.to_pylist() == [{"i32": 0}, {"i32": 1}]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [1, 3]
    assert decoded.bad == ()


def test_an_entry_of_a_map_lacks_defaults(three: Any) -> None:
    table = three("counts MAP<STRING, INT>, parts MAP<BIGINT, ROW<i32 INT, o INT>>")
    message = b"\xea\x01\x00\xea\x01\x03\x0a\x01a\xf2\x01\x02\x08\x05"
    assert table.rows(message) == [{"counts": [("", 0), ("a", 0)], "parts": [(5, {"i32": 0, "o": None})]}]


# --- in any order, any number of times -----------------------------------------------------------------------


def test_the_last_value_of_a_field_stays(three: Any) -> None:
    assert three("i32 INT, s STRING").rows(b"\x72\x01a\x08\x01\x72\x01b\x08\x02") == [{"i32": 2, "s": "b"}]


def test_a_message_that_comes_in_parts_is_merged(three: Any) -> None:
    table = three("m ROW<i32 INT, i64 BIGINT, ns ARRAY<INT>, m ROW<s STRING, b BOOLEAN>>")
    one = b"\x08\x01\x10\x05\xb8\x01\x01\x8a\x01\x03\x72\x01a"
    other = b"\x08\x02\xb8\x01\x02\x8a\x01\x02\x68\x01"
    message = b"".join(b"\x8a\x01" + bytes([len(each)]) + each for each in (one, other))
    assert table.rows(message, b"") == [
        {"m": {"i32": 2, "i64": 5, "ns": [1, 2], "m": {"s": "a", "b": True}}},
        {"m": None},
    ]


def test_elements_that_lie_apart_follow_one_another(three: Any) -> None:
    table = three("ns ARRAY<INT>, ss ARRAY<STRING>, ms ARRAY<ROW<ns ARRAY<INT>>>")
    message = b"\xb8\x01\x01\xc2\x01\x01a\xca\x01\x06\xb8\x01\x07\xb8\x01\x08\xba\x01\x02\x02\x03\xc2\x01\x01b"
    message += b"\xca\x01\x00\xb8\x01\x04\xca\x01\x04\xba\x01\x01\x09"
    expected = {"ns": [1, 2, 3, 4], "ss": ["a", "b"], "ms": [{"ns": [7, 8]}, {"ns": None}, {"ns": [9]}]}
    assert table.rows(message, message) == [expected, expected]


def test_numbers_may_be_packed_or_not_whatever_is_declared(three: Any, two: Any) -> None:
    table = three("loose ARRAY<BIGINT>, fs ARRAY<INT>")
    message = b"\xe2\x01\x02\x02\x04\xe0\x01\x06\xdd\x01\x05\x00\x00\x00\xda\x01\x00"
    assert table.rows(message) == [{"loose": [1, 2, 3], "fs": [5]}]
    assert two("ns ARRAY<INT>").rows(b"\x42\x02\x01\x02\x40\x03") == [{"ns": [1, 2, 3]}]


def test_of_a_oneof_the_last_on_the_wire_stays(three: Any) -> None:
    table = three("x INT, z STRING, deep ROW<i32 INT, ns ARRAY<INT>>")
    x, z, deep = b"\xa0\x01\x05", b"\xaa\x01\x01a", b"\xb2\x01\x02\x08\x03"
    listed = b"\xb2\x01\x03\xb8\x01\x04"
    assert table.rows(x + z, z + x, deep + x, x + deep, deep + listed, listed + x + deep) == [
        {"x": None, "z": "a", "deep": None},
        {"x": 5, "z": None, "deep": None},
        {"x": 5, "z": None, "deep": None},
        {"x": None, "z": None, "deep": {"i32": 3, "ns": None}},
        {"x": None, "z": None, "deep": {"i32": 3, "ns": [4]}},
        {"x": None, "z": None, "deep": {"i32": 3, "ns": None}},
    ]
    assert table.rows(listed + x + listed, listed + listed) == [
        {"x": None, "z": None, "deep": {"i32": 0, "ns": [4]}},
        {"x": None, "z": None, "deep": {"i32": 0, "ns": [4, 4]}},
    ]
    assert three("z STRING").rows(z + x) == [{"z": None}]
    with_defaults = three("x INT, deep ROW<ns ARRAY<INT>>", read_default_values=True)
    assert with_defaults.rows(listed + x, x + listed) == [{"x": 5, "deep": {"ns": []}}, {"x": 0, "deep": {"ns": [4]}}]
    assert three("x INT, z STRING", read_default_values=True).rows(x + z) == [{"x": 0, "z": "a"}]


def test_of_a_oneof_the_last_column_is_written(three: Any) -> None:
    table = three("z STRING, deep ROW<i32 INT>, x INT")
    assert table.encode(
        {"z": "a", "deep": None, "x": 1},
        {"z": "a", "deep": {"i32": 0}, "x": None},
        {"z": "a", "deep": None, "x": None},
        {"z": None, "deep": None, "x": None},
    ) == [b"\xa0\x01\x01", b"\xb2\x01\x00", b"\xaa\x01\x01a", b""]


def test_of_a_key_of_a_map_the_last_value_stays(three: Any) -> None:
    table = three("counts MAP<STRING, INT>, parts MAP<BIGINT, ROW<i32 INT, i64 BIGINT>>")
    counts = b"\xea\x01\x05\x0a\x01b\x10\x01\xea\x01\x05\x0a\x01a\x10\x02\xea\x01\x05\x0a\x01b\x10\x03"
    parts = b"\xf2\x01\x04\x12\x02\x08\x01\xf2\x01\x04\x12\x02\x10\x02"
    assert table.rows(counts + parts) == [{"counts": [("a", 2), ("b", 3)], "parts": [(0, {"i32": 0, "i64": 2})]}]


@pytest.mark.parametrize("count", [5, 1000, 40_000])
def test_maps_of_any_size_have_a_key_once(three: Any, count: int) -> None:
    table = three("counts MAP<STRING, INT>, parts MAP<BIGINT, ROW<i32 INT>>")
    entries = {f"{number:08}": number for number in range(count)}
    (message,) = table.encode(
        {"counts": list(entries.items()), "parts": [(number, {"i32": number}) for number in range(count)]}
    )
    again = table.rows(message, message + b"\xea\x01\x0c\x0a\x0800000002\x10\x07")
    assert again[0]["counts"] == list(entries.items())
    assert [key for key, _ in again[0]["parts"]] == list(range(count))
    assert dict(again[1]["counts"]) == {**entries, "00000002": 7}
    assert len(again[1]["counts"]) == count


def test_long_arrays_are_read_whole(three: Any) -> None:
    table = three("ns ARRAY<INT>, ss ARRAY<STRING>, ms ARRAY<ROW<i32 INT, ss ARRAY<STRING>>>")
    row = {
        "ns": list(range(5000)),
        "ss": [str(number) for number in range(5000)],
        "ms": [{"i32": number, "ss": [str(number), ""]} for number in range(3000)],
    }
    empty = {"ns": None, "ss": None, "ms": None}
    assert table.rows(*table.encode(row, empty, row)) == [row, empty, row]


# --- enums ---------------------------------------------------------------------------------------------------


def test_a_number_that_an_enum_does_not_have(three: Any, two: Any) -> None:
    message = b"\x80\x01\x09\xd2\x01\x03\x01\x09\x00"
    assert three("c STRING, cs ARRAY<STRING>").rows(message) == [
        {"c": "UNRECOGNIZED", "cs": ["GREEN", "UNRECOGNIZED", "RED"]}
    ]
    assert three("c INT, cs ARRAY<INT>").rows(message) == [{"c": 9, "cs": [1, 9, 0]}]
    closed = b"\x30\x05\x30\x09\x3a\x03\x03\x09\x05\x38\x09\x4a\x05\x0a\x01a\x10\x09\x4a\x05\x0a\x01b\x10\x01"
    assert two("size STRING, sizes ARRAY<INT>, zs MAP<STRING, STRING>").rows(closed) == [
        {"size": "LARGE", "sizes": [3, 5], "zs": [("b", "SOME")]}
    ]


def test_a_number_of_an_enum_that_the_column_does_not_take_is_refused(three: Any) -> None:
    table = three("c TINYINT, cs ARRAY<TINYINT>")
    assert table.bad(b"\x80\x01\x80\x01") == BadRecord(0, "out of the range of the column's type", "c")
    assert table.bad(b"\xd0\x01\x80\x01").field == "cs"
    assert table.rows(b"\x80\x01\x80\x01\x80\x01\x01") == [{"c": 1, "cs": None}]


def test_a_default_that_does_not_fit_its_column_is_refused_if_it_is_read(two: Any) -> None:
    columns = "inner ROW<far TINYINT>, far SMALLINT"
    assert two(columns).rows(b"\x72\x00") == [{"inner": {"far": None}, "far": None}]
    with pytest.raises(SchemaError) as raised:
        two(columns, read_default_values=True).decode(b"")
    (problem,) = raised.value.problems
    assert (problem.key, problem.reason) == (
        "inner.far",
        "the default of t2.Old.far is 1000, which does not fit a column of type TINYINT",
    )


def test_unknown_values_of_an_enum_are_written_as_its_first(three: Any, two: Any) -> None:
    assert three("c STRING").encode({"c": "LIME"}, {"c": "PINK"}) == [b"\x80\x01\x01", b""]
    assert two("size STRING").encode({"size": "LARGE"}, {"size": "PINK"}) == [b"\x30\x05", b"\x30\x03"]
    assert two("size INT").encode({"size": 5}, {"size": 4}) == [b"\x30\x05", b"\x30\x03"]


# --- what is not known ---------------------------------------------------------------------------------------

SKIPPED = [
    b"\xa0\x06\x96\x01",
    b"\xa0\x06" + b"\xff" * 9 + b"\x7f",
    b"\xa1\x0612345678",
    b"\xa2\x06\x03abc",
    b"\xa5\x061234",
    b"\xa3\x06\x08\x01\xab\x06\x12\x01x\xac\x06\xa4\x06",
    b"\xf8\xff\xff\xff\x0f\x01",
    b"\x0a\x02\x01\x02",
    b"\x70\x01",
    b"\x8b\x01\x08\x01\x8c\x01",
]


@pytest.mark.parametrize("unknown", SKIPPED)
def test_unknown_fields_and_those_of_another_wire_type_are_skipped(three: Any, unknown: bytes) -> None:
    table = three("i32 INT, s STRING, m ROW<i32 INT>")
    assert table.rows(unknown + b"\x08\x05" + unknown) == [{"i32": 5, "s": "", "m": None}]


def test_an_entry_of_a_map_keeps_its_fields_next_to_unknown_ones(three: Any) -> None:
    assert three("counts MAP<STRING, INT>").rows(b"\xea\x01\x07\x18\x09\x0a\x01a\x10\x01") == [{"counts": [("a", 1)]}]


def test_groups_both_ways(two: Any) -> None:
    table = two("part ROW<x INT, tags ARRAY<STRING>>, item ARRAY<ROW<x INT>>")
    row = {"part": {"x": 5, "tags": ["a", "b"]}, "item": [{"x": 1}, {"x": None}]}
    message = b"\x53\x08\x05\x12\x01a\x12\x01b\x54\x6b\x08\x01\x6c\x6b\x6c"
    assert table.rows(message) == [row]
    assert table.encode(row) == [message]
    assert two("i INT").rows(message + b"\x08\x01") == [{"i": 1}]


def test_numbers_are_cut_to_their_type(three: Any) -> None:
    table = three("i32 INT, u32 INT, s32 INT, b BOOLEAN, c INT, i64 BIGINT")
    big = b"\x81\x80\x80\x80\x80\x40"
    message = b"\x08" + big + b"\x18" + big + b"\x28" + big + b"\x68\x80\x80\x80\x80\x80\x40\x80\x01" + big
    message += b"\x10" + b"\xff" * 9 + b"\x7f"
    assert three("s32 INT").rows(b"\x28\x80\x80\x80\x80\x10") == [{"s32": 0}]
    assert table.rows(message) == [{"i32": 1, "u32": 1, "s32": -1, "b": True, "c": 1, "i64": -1}]


# --- what is refused -----------------------------------------------------------------------------------------

BROKEN = [
    (b"\x08", "i32", "the message ends inside this value"),
    (b"\x08\x80", "i32", "the message ends inside this value"),
    (b"\x08" + b"\x80" * 10 + b"\x01", "i32", "a number has more bytes than protobuf allows"),
    (b"\x61\x00", "d", "the message ends inside this value"),
    (b"\x72\x05abc", "s", "a length is larger than the rest of the message, or does not fit the values in it"),
    (b"\x72\x80\x80\x80\x80\x80\x00", "s", "a number has more bytes than protobuf allows"),
    (b"\x72\xff\xff\xff\xff\x0f", "s", "a length is larger than the rest of the message, or does not fit the values"),
    (b"\x72\x02\xc3\x28", "s", "not well-formed UTF-8"),
    (b"\x9a\x01\x01\xff", "os", "not well-formed UTF-8"),
    (b"\xc2\x01\x01\xff", "ss", "not well-formed UTF-8"),
    (b"\xea\x01\x03\x0a\x01\xff", "counts.key", "not well-formed UTF-8"),
    (b"\x8a\x01\x03\x72\x01\xff", "m.s", "not well-formed UTF-8"),
    (b"\x8a\x01\x05\x08\x01", "m", "a length is larger than the rest of the message"),
    (b"\x8a\x01\x02\x08\x80\x00", "m.i32", "the message ends inside this value"),
    (b"\xba\x01\x02\x01\x80", "ns", "the message ends inside this value"),
    (
        b"\xda\x01\x03\x01\x02\x03",
        "fs",
        "a length is larger than the rest of the message, or does not fit the values",
    ),
    (b"\xb2\x01\x02\x08\x80", "t.All.i32", "the message ends inside this value"),
    (b"\x00\x01", "", "expected the number and the wire type of a field"),
    (b"\x0e\x01", "", "expected the number and the wire type of a field"),
    (b"\x88\x80\x80\x80\x10\x01", "", "expected the number and the wire type of a field"),
    (b"\x88\x80\x80\x80\x80\x00\x01", "", "a number has more bytes than protobuf allows"),
    (b"\x0c", "", "a group ends that was not started, or has no end"),
    (b"\xa3\x06\x08\x01", "", "the message ends inside this value"),
    (b"\xa3\x06\xac\x06", "", "a group ends that was not started"),
    (b"\xa3\x06\x00\x00\xa4\x06", "", "expected the number and the wire type of a field"),
    (b"\xa2\x06\x05a", "", "a length is larger than the rest of the message"),
    (b"\xa5\x06123", "", "the message ends inside this value"),
]


@pytest.mark.parametrize(("message", "field", "reason"), BROKEN)
def test_broken_messages_are_refused_and_the_others_read(three: Any, message: bytes, field: str, reason: str) -> None:
    table = three(
        "i32 INT, d DOUBLE, s STRING, os STRING, ss ARRAY<STRING>, ns ARRAY<INT>, fs ARRAY<INT>, "
        "counts MAP<STRING, INT>, m ROW<i32 INT, s STRING>"
    )
    decoded = table.decode(b"\x08\x01\xb8\x01\x01", b"\xb8\x01\x05\x08\x07" + message, b"\x08\x02")
    assert decoded.rows.column("i32").to_pylist() == [1, 2]
    assert decoded.rows.column("ns").to_pylist() == [[1], None]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 2]
    (bad,) = decoded.bad
    assert (bad.index, bad.field) == (1, field)
    assert bad.reason.startswith(reason)


def test_text_of_proto3_is_checked_where_it_is_no_column_and_text_of_proto2_is_not(three: Any, two: Any) -> None:
    assert three("i32 INT").bad(b"\x72\x01\xff") == BadRecord(0, "not well-formed UTF-8", "s")
    assert two("i INT").rows(b"\x12\x01\xff\x08\x01") == [{"i": 1}]
    assert two("s STRING").bad(b"\x12\x01\xff") == BadRecord(0, "not well-formed UTF-8", "s")
    assert two("s STRING").rows(b"\x12\x01\xff\x12\x01a") == [{"s": "a"}]


def test_messages_may_be_a_hundred_deep(three: Any) -> None:
    def nested(depth: int) -> bytes:
        data = b""
        for _ in range(depth):
            size = len(data)
            length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
            data = b"\x8a\x01" + length + data
        return data

    table = three("m ROW<m ROW<i32 INT>>, i32 INT")
    deep = {"m": {"m": {"i32": 0}}, "i32": 5}
    assert table.rows(*(nested(depth) + b"\x08\x05" for depth in (3, 63, 64, 65, 100))) == [deep] * 5
    groups = b"\xa3\x06" * 70 + b"\xa4\x06" * 70
    assert table.rows(groups + b"\x08\x05") == [{"m": None, "i32": 5}]
    assert table.bad(nested(101)).reason.startswith("the protobuf parser refuses the message")


def test_fields_that_a_message_requires_are_missed(strict: Any) -> None:
    table = strict("b INT, more ARRAY<ROW<b INT>>")
    assert table.bad(b"\x10\x01") == BadRecord(0, "the message lacks this required field", "a")
    assert table.bad(b"\x08\x01\x1a\x00").field == "inner.a"
    assert table.bad(b"\x08\x01\x22\x02\x10\x05").field == "more[0].a"
    assert table.bad(b"\x08\x01\x2a\x02\x08\x05").field.startswith("by[")
    assert table.rows(b"\x08\x01\x1a\x00\x10\x02\x1a\x02\x08\x00") == [{"b": 2, "more": None}]


def test_decoders_say_whether_errors_are_ignored(three: Any) -> None:
    table = three("i32 INT", ignore_parse_errors=True)
    decoder = FORMAT.decoder(table.schema, table.options)
    assert decoder.ignores_errors
    assert [bad.index for bad in table.decode(b"\x08").bad] == [0]


# --- writing -------------------------------------------------------------------------------------------------


def test_fields_are_written_in_the_order_of_their_numbers(three: Any) -> None:
    assert three("s STRING, m ROW<i64 BIGINT, i32 INT>, i32 INT").encode(
        {"s": "a", "m": {"i64": 1, "i32": 2}, "i32": 3}
    ) == [b"\x08\x03\x72\x01a\x8a\x01\x04\x08\x02\x10\x01"]


def test_null_and_defaults_of_proto3_are_not_written(three: Any) -> None:
    columns = "i32 INT, f FLOAT, b BOOLEAN, s STRING, y BYTES, c STRING, o INT, m ROW<i32 INT>, ns ARRAY<INT>"
    zero = {"i32": 0, "f": 0.0, "b": False, "s": "", "y": b"", "c": "RED", "o": None, "m": None, "ns": []}
    assert three(columns).encode(zero, dict.fromkeys(zero), {**zero, "o": 0}) == [b"", b"", b"\x90\x01\x00"]


def test_null_elements_are_written_as_defaults(three: Any, two: Any) -> None:
    columns = "ns ARRAY<INT>, ss ARRAY<STRING>, ms ARRAY<ROW<i32 INT>>, cs ARRAY<STRING>, counts MAP<STRING, INT>"
    row = {"ns": [None, 1], "ss": [None], "ms": [None], "cs": [None], "counts": [("a", None)]}
    expected = b"\xba\x01\x02\x00\x01\xc2\x01%b\xca\x01\x00\xd2\x01\x01\x00\xea\x01\x05\x0a\x01a\x10\x00"
    assert three(columns).encode(row) == [expected % b"\x00"]
    assert three(columns, write_null_string_literal="né").encode(row) == [expected % b"\x03n\xc3\xa9"]
    assert two("sizes ARRAY<STRING>").encode({"sizes": [None]}) == [b"\x38\x03"]


def test_a_row_without_a_required_field_is_refused(strict: Any) -> None:
    table = strict("a INT, more ARRAY<ROW<a INT>>")
    good = {"a": 1, "more": [{"a": 2}]}
    assert table.encode(good) == [b"\x08\x01\x22\x02\x08\x02"]
    for row, field in [({"a": None, "more": None}, "a"), ({"a": 1, "more": [{"a": None}]}, "more.a")]:
        with pytest.raises(RecordError, match="the field is required") as raised:
            table.encode(good, good, row, good, row)
        assert (raised.value.offset, raised.value.field, raised.value.format) == (2, field, "protobuf")
    with pytest.raises(
        RecordError, match="NULL is written as an empty message, but that message has required fields"
    ) as raised:
        table.encode({"a": 1, "more": [None]})
    assert raised.value.field == "more"


def test_a_slice_of_rows_is_written(three: Any) -> None:
    table = three("i32 INT, ss ARRAY<STRING>, counts MAP<STRING, INT>")
    rows = [{"i32": number, "ss": [str(number)] * number, "counts": [("a", number)]} for number in range(5)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(table.schema))
    encoder = FORMAT.encoder(table.schema, table.options)
    assert encoder.encode(batch.slice(2, 2)).to_pylist() == encoder.encode(batch).to_pylist()[2:4]
    assert encoder.encode(batch.slice(0, 0)).to_pylist() == []


# --- columns -------------------------------------------------------------------------------------------------

UNFIT = [
    ("i33 INT", "i33", "the message t.All has no such field", "did you mean 'i32'?"),
    ("m ROW<i33 INT>", "m.i33", "the message t.All has no such field", "did you mean 'i32'?"),
    ("i32 BIGINT", "i32", "the message has int32, which does not fit a column of type BIGINT", "expected INT"),
    ("i64 INT", "i64", "the message has int64, which does not fit a column of type INT", "expected BIGINT"),
    ("s BYTES", "s", "the message has string, which does not fit a column of type BYTES", "expected STRING"),
    ("y STRING", "y", "the message has bytes, which does not fit a column of type STRING", "expected BYTES"),
    ("c DOUBLE", "c", "the message has enum t.Color, which does not", "expected STRING or a whole number"),
    ("m STRING", "m", "the message has message t.All, which does not", "expected ROW"),
    ("ns INT", "ns", "the message has a repeated field, which does not", "expected ARRAY"),
    ("ns ARRAY<STRING>", "ns", "the message has int32, which does not", "expected INT"),
    ("counts ARRAY<INT>", "counts", "the message has a map, which does not", "expected MAP"),
    ("counts MAP<INT, INT>", "counts.key", "the message has string, which does not", "expected STRING"),
    ("counts MAP<STRING, STRING>", "counts.value", "the message has int32, which does not", "expected INT"),
    ("at TIMESTAMP_LTZ(3)", "at", "the message has message google.protobuf.Timestamp", "expected ROW"),
]


@pytest.mark.parametrize(("column", "path", "reason", "hint"), UNFIT)
def test_columns_that_do_not_fit_are_named(three: Any, column: str, path: str, reason: str, hint: str) -> None:
    table = three(f"{column}, d INT")
    for make in (FORMAT.decoder, FORMAT.encoder):
        with pytest.raises(SchemaError) as raised:
            make(table.schema, table.options)
        first, second = raised.value.problems
        assert (first.key, first.hint) == (path, hint)
        assert first.reason.startswith(reason)
        assert second.key == "d"


def test_fields_that_a_message_requires_need_a_column_to_be_written(strict: Any) -> None:
    table = strict("b INT, inner ROW<b INT>")
    FORMAT.decoder(table.schema, table.options)
    with pytest.raises(SchemaError) as raised:
        FORMAT.encoder(table.schema, table.options)
    assert {problem.key for problem in raised.value.problems} == {"inner.a", "a"}


def test_the_registry_has_it() -> None:
    assert formats.get("protobuf") is FORMAT
