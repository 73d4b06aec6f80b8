"""A protobuf definition of a table's columns."""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from penstock.formats.protobuf.definition import Definition
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.types import ArrayType, DataType, MapType, RowType

__all__ = ["options_of"]

_TYPES = {
    "BOOLEAN": FieldDescriptorProto.TYPE_BOOL,
    "INT": FieldDescriptorProto.TYPE_INT32,
    "BIGINT": FieldDescriptorProto.TYPE_INT64,
    "FLOAT": FieldDescriptorProto.TYPE_FLOAT,
    "DOUBLE": FieldDescriptorProto.TYPE_DOUBLE,
    "STRING": FieldDescriptorProto.TYPE_STRING,
    "BYTES": FieldDescriptorProto.TYPE_BYTES,
}


def options_of(row: RowType) -> ProtobufOptions:
    """Options of a message of proto3 that has a field for each column, with defaults for what is absent."""
    file = FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    _add_fields(file.message_type.add(name="Record"), row, ".bench.Record")
    definition = Definition(FileDescriptorSet(file=[file]).SerializeToString(), "bench.Record")
    return ProtobufOptions(message_class_name="bench.Record", read_default_values=True, definition=definition)


def _add_fields(message: DescriptorProto, row: RowType, path: str) -> None:
    for number, column in enumerate(row.fields, 1):
        field = message.field.add(name=column.name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        kind = column.type
        if isinstance(kind, MapType):
            field.label = FieldDescriptorProto.LABEL_REPEATED
            name = f"{column.name.capitalize()}Entry"
            entry = message.nested_type.add(name=name)
            entry.options.map_entry = True
            for place, (inner, of) in enumerate((("key", kind.key), ("value", kind.value)), 1):
                _set_type(entry, entry.field.add(name=inner, number=place, label=1), of, f"{path}.{name}")
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{name}"
        elif isinstance(kind, ArrayType):
            field.label = FieldDescriptorProto.LABEL_REPEATED
            _set_type(message, field, kind.element, path)
        else:
            _set_type(message, field, kind, path)


def _set_type(message: DescriptorProto, field: FieldDescriptorProto, kind: DataType, path: str) -> None:
    if isinstance(kind, RowType):
        name = f"Row{field.number}"
        _add_fields(message.nested_type.add(name=name), kind, f"{path}.{name}")
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{name}"
    else:
        field.type = _TYPES[kind.with_nullability(True).text()]
