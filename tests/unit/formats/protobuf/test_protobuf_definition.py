"""How the protobuf format finds the message: files, names, and what is wrong with them."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_tools import protoc

from penstock.errors import OptionsError, Problem
from penstock.formats.protobuf.definition import Definition
from penstock.formats.protobuf.factory import FORMAT
from penstock.formats.protobuf.java_names import list_java_names
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.options import Origin
from penstock.spi import FormatSpec
from penstock.types import parse_columns

ORDERS = """
syntax = "proto3";
package shop.orders;
import "shop/money.proto";
option java_package = "org.example.shop";
message Order { int64 id = 1; shop.Money total = 2; Line first = 3; message Line { string sku = 1; } }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; } message Unused { int32 x = 1; }'
OTHER = 'syntax = "proto3"; package shop; message Elsewhere { int32 x = 1; }'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"orders.proto": ORDERS, "shop/money.proto": MONEY, "shop/other.proto": OTHER}.items():
        path = tmp_path / "protos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def descriptors(folder: Path) -> Path:
    return described(folder, "orders.proto", "shop/other.proto")


def described(folder: Path, *files: str, imports: bool = True) -> Path:
    out = folder / "all.desc"
    arguments = ["--include_imports"] * imports
    assert protoc.main(["protoc", f"-I{folder / 'protos'}", *arguments, f"--descriptor_set_out={out}", *files]) == 0
    return out


def bound(**given: str) -> ProtobufOptions:
    text = {f"protobuf.{key.replace('_', '-')}": value for key, value in given.items()}
    return ProtobufOptions.from_text(text, Origin("table 't'"), "protobuf.")


def problems(**given: str) -> list[Problem]:
    with pytest.raises(OptionsError) as raised:
        bound(**given)
    assert all(problem.where == "table 't'" for problem in raised.value.problems)
    return list(raised.value.problems)


def test_a_descriptor_file_and_a_proto_file_give_the_same_definition(folder: Path, descriptors: Path) -> None:
    one = bound(message_class_name="shop.orders.Order", descriptor_file=str(descriptors))
    other = bound(message_class_name="shop.orders.Order", proto_file=str(folder / "protos" / "orders.proto"))
    assert one.definition == other.definition
    names = [each.name for each in FileDescriptorSet.FromString(one.loaded_definition.files).file]
    assert names == ["shop/money.proto", "orders.proto"]


def test_tasks_need_no_file(descriptors: Path) -> None:
    given = {"message-class-name": "shop.orders.Order", "descriptor-file": str(descriptors)}
    spec = FormatSpec.bind(FORMAT, given, Origin(), "")
    decoder = FORMAT.decoder(parse_columns("id BIGINT, total ROW<cents BIGINT>"), spec.options)
    encoder = FORMAT.encoder(parse_columns("id BIGINT, total ROW<cents BIGINT>"), spec.options)
    messages = pa.array([b"\x08\x05\x12\x02\x08\x07"])
    _ = encoder.encode(decoder.decode(messages).rows)
    pickled = pickle.dumps((spec, decoder, encoder))
    descriptors.unlink()
    again, decoder, encoder = pickle.loads(pickled)
    assert again == spec
    rows = decoder.decode(messages).rows
    assert rows.to_pylist() == [{"id": 5, "total": {"cents": 7}}]
    assert encoder.encode(rows) == messages


NAMES = [
    ("shop.orders.Order", "shop.orders.Order"),
    (".shop.orders.Order", "shop.orders.Order"),
    ("shop.orders.Order.Line", "shop.orders.Order.Line"),
    ("org.example.shop.Orders$Order", "shop.orders.Order"),
    ("org.example.shop.Orders.Order", "shop.orders.Order"),
    ("org.example.shop.Orders$Order$Line", "shop.orders.Order.Line"),
    ("shop.MoneyOuterClass$Money", "shop.Money"),
]


@pytest.mark.parametrize(("given", "name"), NAMES)
def test_a_message_is_found_by_its_name_or_that_of_its_java_class(descriptors: Path, given: str, name: str) -> None:
    options = bound(message_class_name=given, descriptor_file=str(descriptors))
    assert options.loaded_definition.message.full_name == name
    assert options.to_text() == {"message-class-name": given, "descriptor-file": str(descriptors)}


JAVA = [
    ("a.proto", "p", {}, "p.A$M"),
    ("dir/foo_bar2baz.proto", "", {}, "FooBar2Baz$M"),
    ("foo-Bar.proto", "p", {"java_package": "q"}, "q.FooBar$M"),
    ("m.proto", "p", {}, "p.MOuterClass$M"),
    ("inner.proto", "p", {}, "p.InnerOuterClass$M"),
    ("a.proto", "p", {"java_outer_classname": "Out"}, "p.Out$M"),
    ("a.proto", "p", {"java_multiple_files": True, "java_package": "q.r"}, "q.r.M"),
    ("a.proto", "p", {"java_package": "", "java_multiple_files": True}, "M"),
]


@pytest.mark.parametrize(("file", "package", "options", "name"), JAVA)
def test_names_of_java_classes_are_those_that_protoc_makes(
    file: str, package: str, options: dict[str, object], name: str
) -> None:
    described = FileDescriptorProto(name=file, package=package)
    for key, value in options.items():
        setattr(described.options, key, value)
    described.message_type.add(name="M").nested_type.add(name="Inner")
    full = f"{package}.M" if package else "M"
    assert list(list_java_names(described)) == [(full, name), (f"{full}.Inner", f"{name}$Inner")]


def test_imports_are_looked_for_in_the_proto_path(folder: Path) -> None:
    apart = folder / "apart"
    apart.mkdir()
    moved = (folder / "protos" / "orders.proto").rename(apart / "orders.proto")
    for path in (f"{folder / 'protos'}", f"{folder / 'protos'};{apart}"):
        options = bound(message_class_name="shop.orders.Order", proto_file=str(moved), proto_path=path)
        assert options.loaded_definition.name == "shop.orders.Order"
    (problem, *_) = problems(message_class_name="shop.orders.Order", proto_file=str(moved))
    assert problem.key == "protobuf.proto-file"
    assert "money.proto" in problem.reason


def test_errors_of_a_proto_file_name_line_and_column(folder: Path) -> None:
    path = folder / "protos" / "broken.proto"
    path.write_text('syntax = "proto3";\nmessage A {\n  int33 x = 1;\n  string x = 2;\n}\n')
    found = problems(message_class_name="A", proto_file=str(path))
    assert {problem.key for problem in found} == {"protobuf.proto-file"}
    assert any("broken.proto:3:3: " in problem.reason for problem in found)
    # without a syntax protoc has something to log as well
    path.write_text("message A {\n  string x = \n}\n")
    found = problems(message_class_name="A", proto_file=str(path))
    assert any("broken.proto:3:1: " in problem.reason for problem in found)
    assert all("broken.proto" in problem.reason.partition(" ")[0] for problem in found)


def test_a_proto_file_with_warnings_alone_compiles(folder: Path) -> None:
    path = folder / "protos" / "unused.proto"
    path.write_text('import "shop/money.proto";\nmessage A { optional int32 x = 1; }\n')
    assert bound(message_class_name="A", proto_file=str(path)).loaded_definition.name == "A"


def test_without_the_compiler_the_error_names_the_command_that_installs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    (problem,) = problems(message_class_name="shop.Money", proto_file=str(folder / "protos/shop/money.proto"))
    assert problem.reason == "compiling a .proto file needs the package grpcio-tools"
    assert "pip install '.[protobuf]'" in problem.hint


def test_one_file_is_to_be_given(folder: Path, descriptors: Path) -> None:
    for given in ({}, {"descriptor_file": str(descriptors), "proto_file": str(folder / "protos" / "orders.proto")}):
        (problem,) = problems(message_class_name="shop.orders.Order", **given)
        assert (problem.key, problem.reason) == (
            "protobuf.descriptor-file",
            "set either this option or 'proto-file'",
        )
    with pytest.raises(OptionsError, match=r"'protobuf\.message-class-name': is required"):
        bound(descriptor_file=str(descriptors))
    (problem,) = problems(message_class_name="x", descriptor_file=str(descriptors), proto_path=str(folder))
    assert (problem.key, problem.reason) == ("protobuf.proto-path", "is only for 'proto-file'")


def test_unusable_files_are_refused(folder: Path) -> None:
    garbage = folder / "garbage"
    garbage.write_bytes(b"\xff\xff")
    empty = folder / "empty"
    empty.write_bytes(b"")
    cases = [
        (
            {"descriptor_file": str(folder / "none")},
            "descriptor-file",
            f"cannot read '{folder / 'none'}': No such file",
        ),
        ({"descriptor_file": str(garbage)}, "descriptor-file", "not a set of protobuf descriptors"),
        ({"descriptor_file": str(empty)}, "descriptor-file", "it describes no message"),
        ({"proto_file": str(folder / "none")}, "proto-file", f"there is no file '{folder / 'none'}'"),
        (
            {"proto_file": str(folder / "protos/shop/money.proto"), "proto_path": "/no/such/folder"},
            "proto-path",
            "there is no folder '/no/such/folder'",
        ),
        (
            {"descriptor_file": str(described(folder, "orders.proto", imports=False))},
            "descriptor-file",
            "it imports 'shop/money.proto', which is not in it",
        ),
    ]
    for given, key, reason in cases:
        (problem,) = problems(message_class_name="shop.orders.Order", **given)
        assert problem.key == f"protobuf.{key}"
        assert problem.reason.startswith(reason)


def test_inconsistent_descriptors_are_refused(folder: Path) -> None:
    file = FileDescriptorProto(name="a.proto", package="p", syntax="proto3")
    file.message_type.add(name="A").field.add(name="x", number=1, type=11, type_name=".p.B", label=1)
    path = folder / "contradiction"
    path.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    (problem,) = problems(message_class_name="p.A", descriptor_file=str(path))
    assert problem.reason.startswith("'a.proto' is not consistent: ")


def test_an_unknown_message_is_refused_with_the_nearest_or_all(descriptors: Path) -> None:
    (problem,) = problems(message_class_name="shop.orders.Ordr", descriptor_file=str(descriptors))
    assert (problem.key, problem.reason) == ("protobuf.message-class-name", "no message 'shop.orders.Ordr'")
    assert problem.hint == "did you mean 'shop.orders.Order'?"
    (problem,) = problems(message_class_name="x", descriptor_file=str(descriptors))
    assert problem.hint == (
        "known messages: shop.Elsewhere, shop.Money, shop.Unused, shop.orders.Order, shop.orders.Order.Line"
    )


def test_files_may_come_in_any_order_and_extend_one_another(tmp_path: Path) -> None:
    base = FileDescriptorProto(name="base.proto", package="p", syntax="proto2")
    message = base.message_type.add(name="A")
    message.field.add(name="x", number=1, type=5, label=1)
    message.extension_range.add(start=100, end=200)
    user = FileDescriptorProto(name="user.proto", package="p", syntax="proto2", dependency=["base.proto"])
    user.message_type.add(name="B").field.add(name="a", number=1, type=11, type_name=".p.A", label=1)
    user.extension.add(name="y", number=100, type=9, label=1, extendee=".p.A")
    path = tmp_path / "reversed"
    path.write_bytes(FileDescriptorSet(file=[user, base]).SerializeToString())
    options = bound(message_class_name="p.B", descriptor_file=str(path))
    decoder = FORMAT.decoder(parse_columns("a ROW<x INT>"), options)
    assert decoder.decode(pa.array([b"\x0a\x06\xa2\x06\x01\xff\x08\x05"])).rows.to_pylist() == [{"a": {"x": 5}}]


def test_options_may_be_made_in_python(descriptors: Path) -> None:
    options = ProtobufOptions(message_class_name="shop.Money", descriptor_file=str(descriptors))
    assert options.loaded_definition.name == "shop.Money"
    wrong = ProtobufOptions(message_class_name="shop.Mony", descriptor_file=str(descriptors))
    with pytest.raises(OptionsError, match="did you mean"):
        FORMAT.decoder(parse_columns("cents BIGINT"), wrong)


def test_well_known_types_are_messages(tmp_path: Path) -> None:
    path = tmp_path / "event.proto"
    path.write_text(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";\n'
        "message Event { google.protobuf.Timestamp at = 1; }\n"
    )
    options = bound(message_class_name="Event", proto_file=str(path))
    decoder = FORMAT.decoder(parse_columns("at ROW<seconds BIGINT, nanos INT>"), options)
    data = Timestamp(seconds=1_700_000_000, nanos=5).SerializeToString()
    message = b"\x0a" + bytes([len(data)]) + data
    assert decoder.decode(pa.array([message])).rows.to_pylist() == [{"at": {"seconds": 1_700_000_000, "nanos": 5}}]


def test_definitions_are_equal_by_content(descriptors: Path, folder: Path) -> None:
    copy = folder / "copy.desc"
    copy.write_bytes(descriptors.read_bytes())
    one, other = (Definition.load("shop.Money", str(path), None, ()) for path in (descriptors, copy))
    assert one == other
    assert one != Definition.load("shop.Unused", str(descriptors), None, ())
    assert one.message.full_name == "shop.Money"


EDITION = """
edition = "2023";
package e;
enum Closed { option features.enum_type = CLOSED; A = 4; B = 5; }
message M {
  int32 known = 1;
  int32 plain = 2 [features.field_presence = IMPLICIT];
  int32 needed = 3 [features.field_presence = LEGACY_REQUIRED];
  M inner = 4 [features.message_encoding = DELIMITED];
  Closed closed = 5;
  repeated int32 apart = 6 [features.repeated_field_encoding = EXPANDED];
  string raw = 7 [features.utf8_validation = NONE];
  string text = 8;
}
"""


def test_features_of_editions_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "edition.proto"
    path.write_text(EDITION)
    options = bound(message_class_name="e.M", proto_file=str(path))
    columns = "known INT, plain INT, needed INT, inner ROW<needed INT>, closed STRING, apart ARRAY<INT>, text STRING"
    schema = parse_columns(columns)
    message = b"\x08\x00\x18\x01\x23\x18\x02\x24\x28\x05\x28\x09\x30\x01\x30\x02\x3a\x01\xff\x42\x01a"
    decoder = FORMAT.decoder(schema, options)
    decoded = decoder.decode(pa.array([message, b"\x18\x01", b"\x08\x01", b"\x18\x01\x42\x01\xff"]))
    row = {"known": 0, "plain": 0, "needed": 1, "inner": {"needed": 2}, "closed": "B", "apart": [1, 2], "text": "a"}
    absent = dict.fromkeys(row) | {"plain": 0, "needed": 1}
    assert decoded.rows.to_pylist() == [row, absent]
    assert [(bad.index, bad.field) for bad in decoded.bad] == [(2, "needed"), (3, "text")]
    written = FORMAT.encoder(schema, options).encode(decoded.rows).to_pylist()
    assert written == [message.replace(b"\x28\x09", b"").replace(b"\x3a\x01\xff", b""), b"\x18\x01"]
