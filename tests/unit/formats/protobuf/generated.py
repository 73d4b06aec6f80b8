"""Protobuf definitions, tables that fit them, and messages, for tests of properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from penstock.formats.protobuf.column_checks import is_map
from penstock.formats.protobuf.definition import Definition
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    ArrayType,
    DataType,
    Field,
    MapType,
    RowType,
)

F = FieldDescriptorProto
NUMBERS = {
    F.TYPE_DOUBLE: st.floats(),
    F.TYPE_FLOAT: st.floats(width=32),
    F.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    F.TYPE_UINT64: st.integers(0, 2**64 - 1),
    F.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    F.TYPE_FIXED64: st.integers(0, 2**64 - 1),
    F.TYPE_FIXED32: st.integers(0, 2**32 - 1),
    F.TYPE_BOOL: st.booleans(),
    F.TYPE_STRING: st.text(max_size=5),
    F.TYPE_BYTES: st.binary(max_size=5),
    F.TYPE_UINT32: st.integers(0, 2**32 - 1),
    F.TYPE_SFIXED32: st.integers(-(2**31), 2**31 - 1),
    F.TYPE_SFIXED64: st.integers(-(2**63), 2**63 - 1),
    F.TYPE_SINT32: st.integers(-(2**31), 2**31 - 1),
    F.TYPE_SINT64: st.integers(-(2**63), 2**63 - 1),
}
KEYS = [each for each in NUMBERS if each not in (F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_BYTES)]
COLUMNS: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_BOOL: BOOLEAN,
    FieldDescriptor.CPPTYPE_INT32: INT,
    FieldDescriptor.CPPTYPE_UINT32: INT,
    FieldDescriptor.CPPTYPE_INT64: BIGINT,
    FieldDescriptor.CPPTYPE_UINT64: BIGINT,
    FieldDescriptor.CPPTYPE_FLOAT: FLOAT,
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
}
#: An enum of either syntax, with a gap, an alias and negative numbers.
ENUM = [("ZERO", 0), ("ONE", 1), ("UN", 1), ("MINUS", -3), ("FAR", 1000)]
DEFAULTS = {F.TYPE_INT32: "-7", F.TYPE_STRING: "défaut", F.TYPE_DOUBLE: "1.5", F.TYPE_BOOL: "true", F.TYPE_ENUM: "FAR"}

Draw = Callable[..., Any]


@st.composite
def definitions(draw: Draw) -> Definition:
    """Up to three messages, which may hold one another and themselves; the first one is the table's."""
    file = FileDescriptorProto(name="generated.proto", package="g", syntax=draw(st.sampled_from(["proto2", "proto3"])))
    enum = file.enum_type.add(name="E")
    enum.options.allow_alias = True
    for name, number in ENUM:
        enum.value.add(name=name, number=number)
    count = draw(st.integers(1, 3))
    for place in range(count):
        message = file.message_type.add(name=f"M{place}")
        for number in sorted(draw(st.sets(st.sampled_from([1, 2, 3, 4, 15, 16, 300, 2**29 - 1]), max_size=7))):
            _add_field(draw, file, message, number, count)
    files = FileDescriptorSet(file=[file])
    return Definition(files.SerializeToString(), "g.M0")


def _add_field(draw: Draw, file: FileDescriptorProto, message: DescriptorProto, number: int, count: int) -> None:
    two = file.syntax == "proto2"
    field = message.field.add(name=f"f{number}", number=number)
    shape = draw(st.sampled_from(["single", "single", "list", "map", "oneof", "present", "required", "group"]))
    if shape in ("required", "group") and not two:
        shape = "single"
    if shape == "map":
        entry = message.nested_type.add(name=f"F{number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=draw(st.sampled_from(KEYS)), label=F.LABEL_OPTIONAL)
        _set_type(draw, entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL), count)
        field.type, field.type_name = F.TYPE_MESSAGE, f".g.{message.name}.{entry.name}"
        field.label = F.LABEL_REPEATED
        return
    field.label = F.LABEL_OPTIONAL
    if shape == "group":
        group = message.nested_type.add(name=f"F{number}")
        _set_type(draw, group.field.add(name="x", number=1, label=F.LABEL_OPTIONAL), count)
        group.field.add(name="y", number=2, label=F.LABEL_REPEATED, type=F.TYPE_INT32)
        field.type, field.type_name = F.TYPE_GROUP, f".g.{message.name}.{group.name}"
        field.label = draw(st.sampled_from([F.LABEL_OPTIONAL, F.LABEL_REPEATED]))
        return
    _set_type(draw, field, count)
    if shape == "list":
        field.label = F.LABEL_REPEATED
        if field.type not in (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE):
            field.options.packed = draw(st.booleans())
    elif shape == "required" and field.type != F.TYPE_MESSAGE:
        field.label = F.LABEL_REQUIRED
    elif shape == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="choice")
        field.oneof_index = 0
    elif shape == "present" and two and field.type in DEFAULTS:
        field.default_value = DEFAULTS[field.type]


def _set_type(draw: Draw, field: FieldDescriptorProto, count: int) -> None:
    which = draw(st.integers(0, 5))
    if which == 0:
        field.type, field.type_name = F.TYPE_ENUM, ".g.E"
    elif which == 1:
        field.type, field.type_name = F.TYPE_MESSAGE, f".g.M{draw(st.integers(0, count - 1))}"
    else:
        field.type = draw(st.sampled_from(list(NUMBERS)))


@st.composite
def rows(draw: Draw, message: Any, depth: int = 3, *, narrow: bool = True) -> RowType:
    """Columns for some of a message's fields, in any order; those of enums may be ``narrow``."""
    found = []
    for each in draw(st.permutations(list(message.fields))):
        if draw(st.integers(0, 5)):
            kind = _column(draw, each, depth, narrow)
            if kind is not None:
                found.append(Field(each.name, kind))
    return RowType(tuple(found))


def _column(draw: Draw, field: Any, depth: int, narrow: bool) -> DataType | None:
    if is_map(field):
        entry = field.message_type.fields_by_name
        value = _single(draw, entry["value"], depth, narrow)
        return None if value is None else MapType(_single(draw, entry["key"], depth, narrow), value)
    kind = _single(draw, field, depth, narrow)
    return ArrayType(kind) if field.is_repeated and kind is not None else kind


def _single(draw: Draw, field: Any, depth: int, narrow: bool) -> DataType | None:
    if field.message_type:
        inner = draw(rows(field.message_type, depth - 1, narrow=narrow)) if depth else None
        return inner if inner is not None and inner.fields else None
    if field.enum_type:
        narrow = narrow and field.default_value != 1000
        return draw(st.sampled_from([STRING, INT, BIGINT, *([TINYINT, SMALLINT] if narrow else [])]))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return STRING if field.type == F.TYPE_STRING else BYTES
    return COLUMNS[field.cpp_type]


def fill(draw: Draw, message: Any, depth: int = 3) -> Any:
    """Set some of a message's fields."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and draw(st.integers(0, 2)) == 0:
            continue
        if is_map(field):
            _fill_map(draw, message, field, depth)
        elif field.message_type:
            if depth == 0:
                continue
            if field.is_repeated:
                for _ in range(draw(st.integers(1, 3))):
                    fill(draw, getattr(message, field.name).add(), depth - 1)
            else:
                getattr(message, field.name).SetInParent()
                fill(draw, getattr(message, field.name), depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(values(field), max_size=4)))
        else:
            setattr(message, field.name, draw(values(field)))
    return message


def _fill_map(draw: Draw, message: Any, field: Any, depth: int) -> None:
    entry = field.message_type.fields_by_name
    found = getattr(message, field.name)
    for key in draw(st.lists(values(entry["key"]), max_size=6)):
        if entry["value"].message_type:
            fill(draw, found[key], depth - 1) if depth else found[key].SetInParent()
        else:
            found[key] = draw(values(entry["value"]))


def values(field: Any) -> st.SearchStrategy[Any]:
    """Values of a field that is no message; enums of proto3 may have any number."""
    if field.enum_type:
        numbers = [number for _, number in ENUM]
        return st.sampled_from(numbers if field.enum_type.is_closed else [*numbers, 200, -200, 40_000])
    return NUMBERS[field.type]


@st.composite
def messages(draw: Draw, message: Any) -> bytes:
    """A message as the runtime writes it, two of them one after the other, or something unlike either."""
    kind = GetMessageClass(message)
    data = bytearray()
    for _ in range(draw(st.integers(1, 2))):
        data += fill(draw, kind()).SerializePartialToString()
    for _ in range(draw(st.sampled_from([0, 0, 1, 2, 3]))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.integers(0, 5))
        if change == 0:
            data[at:at] = draw(st.binary(min_size=1, max_size=3))
        elif change == 1:
            del data[at : at + 1]
        elif change == 2:
            data[at:at] = draw(st.sampled_from(UNKNOWN))
        elif change == 3:
            del data[at:]
        elif at < len(data):
            data[at] = data[at] ^ 1 << draw(st.integers(0, 7)) if change == 4 else draw(st.integers(0, 255))
    return bytes(data)


#: Fields that no message has, and what makes parsers stumble.
UNKNOWN = [
    b"\x98\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x99\x0612345678",
    b"\x9a\x06\x03abc",
    b"\x9b\x06\x08\x01\x13\x14\x9c\x06",
    b"\x9b\x06\x0a\x02\x08\x01",
    b"\x9d\x061234",
    b"\x80\x00",
    b"\x88\x80\x80\x80\x00\x01",
    b"\x88\x80\x80\x80\x80\x00\x01",
    b"\x0a\x80\x80\x00",
]


COLUMN_VALUES = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.sampled_from([0, 1, -3, 77]),
    "SMALLINT": st.sampled_from([0, 1, -3, 1000, 77]),
    "INT": st.sampled_from([0, 1, -3, 1000]) | st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.sampled_from([0, 1, -3, 1000]) | st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "STRING": st.sampled_from([*(name for name, _ in ENUM), "", "none"]) | st.text(max_size=5),
    "BYTES": st.binary(max_size=5),
}


def column_values(kind: DataType) -> st.SearchStrategy[Any]:
    """Values of a column, NULL among them."""
    match kind:
        case RowType(fields=fields):
            found: st.SearchStrategy[Any] = st.fixed_dictionaries(
                {each.name: column_values(each.type) for each in fields}
            )
        case ArrayType(element=element):
            found = st.lists(column_values(element), max_size=4)
        case MapType(key=key, value=value):
            entries = st.tuples(COLUMN_VALUES[key.text()], column_values(value))
            found = st.lists(entries, max_size=4, unique_by=lambda entry: entry[0])
        case _:
            found = COLUMN_VALUES[kind.text()]
    return st.none() | found


def written(message: Any, row: RowType, values: dict[str, Any], null_text: str) -> Any:
    """Set the fields of a message to the values of a row, by Flink's rules."""
    fields = message.DESCRIPTOR.fields_by_name
    for each in row.fields:
        field, value = fields[each.name], values[each.name]
        if value is None:
            continue
        if isinstance(each.type, MapType):
            entry, found = field.message_type.fields_by_name, getattr(message, each.name)
            for key, inner in value:
                place = _raw(entry["key"], key, null_text)
                if isinstance(each.type.value, RowType):
                    found[place].SetInParent()
                    if inner is not None:
                        written(found[place], each.type.value, inner, null_text)
                else:
                    found[place] = _raw(entry["value"], inner, null_text)
        elif isinstance(each.type, ArrayType):
            for inner in value:
                if isinstance(each.type.element, RowType):
                    made = getattr(message, each.name).add()
                    if inner is not None:
                        written(made, each.type.element, inner, null_text)
                else:
                    getattr(message, each.name).append(_raw(field, inner, null_text))
        elif isinstance(each.type, RowType):
            getattr(message, each.name).SetInParent()
            written(getattr(message, each.name), each.type, value, null_text)
        else:
            setattr(message, each.name, _raw(field, value, null_text))
    return message


def _raw(field: Any, value: Any, null_text: str) -> Any:
    if field.enum_type:
        first = field.enum_type.values[0].number
        if isinstance(value, str):
            return dict(ENUM).get(value, first)
        return value if value in dict(ENUM).values() else first
    if value is None:
        return null_text if field.type == F.TYPE_STRING else {F.TYPE_BYTES: b"", F.TYPE_BOOL: False}.get(field.type, 0)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        return value % (2**32 if field.cpp_type == FieldDescriptor.CPPTYPE_UINT32 else 2**64)
    return value
