"""What some plug-ins need beside what they declare: servers, and files that describe messages.

A plug-in that is not named here is tried with the examples of its required options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet

from penstock.connectors import values
from penstock.errors import OptionsError
from penstock.options import OptionSet
from penstock.spi import Format, ScanSpec, SinkSpec, TableDefinition
from penstock.types import ArrayType, BinaryType, DataType, MapType, RowType

__all__ = ["WITHOUT_NULL", "accepted", "format_options", "prepare"]

#: Deleted when the process ends.
_FOLDER = TemporaryDirectory(prefix="penstock-conformance-")
#: Formats whose messages do not tell NULL of these types from a value. Protobuf has empty lists and maps only. In CSV a
#: cell that is NULL is an array or a row of one NULL, as in Flink.
WITHOUT_NULL = {"csv": ("ARRAY", "ROW"), "protobuf": ("ARRAY", "MAP")}

_F = FieldDescriptorProto
_SCALARS = {
    "BOOLEAN": _F.TYPE_BOOL,
    "INT": _F.TYPE_INT32,
    "BIGINT": _F.TYPE_INT64,
    "FLOAT": _F.TYPE_FLOAT,
    "DOUBLE": _F.TYPE_DOUBLE,
    "BYTES": _F.TYPE_BYTES,
}


def prepare(connector: str) -> None:
    """Bring about what the examples of the connector's options name."""
    if connector == "values":
        values.register([], "orders")


def accepted(make: Callable[[TableDefinition], ScanSpec | SinkSpec], table: TableDefinition, declared: type[OptionSet]):
    """The spec of a table with ``table``'s options and, where others are required, their examples; and the options."""
    prepare(table.options["connector"])
    options, columns, key = dict(table.options), table.columns, ()
    examples = {each.key: each.example for each in declared.declared_options().values() if each.example}
    while True:
        definition = TableDefinition(table.name, columns, options, primary_key=key)
        try:
            return make(definition), definition
        except OptionsError as error:
            if not key and any(each.key == "PRIMARY KEY" for each in error.problems):
                first, *others = columns
                columns = (replace(first, type=first.type.with_nullability(False)), *others)
                key = (first.name,)
                continue
            missing = {each.key for each in error.problems if "required" in each.reason or "is missing" in each.reason}
            added = {key: examples[key] for key in missing & examples.keys() - options.keys()}
            if not added:
                raise
            options |= added


def format_options(fmt: Format, schema: RowType, registry: str = "") -> OptionSet:
    """The options with which a format is tried on a table. A schema registry is at the address ``registry``."""
    given = {each.key: each.example for each in fmt.options.declared_options().values() if each.required}
    match fmt.identifier:
        case "avro":
            given["timestamp_mapping.legacy"] = "false"
        case "avro-confluent" | "debezium-avro-confluent":
            given |= {"url": registry, "subject": f"conformance-{fmt.identifier}", "timestamp_mapping.legacy": "false"}
        case "csv":
            given["null-literal"] = "n/a"
        case "protobuf":
            given |= {"message-class-name": "Table", "descriptor-file": str(_descriptors(schema))}
    return fmt.options.from_text(given)


def _descriptors(schema: RowType) -> Path:
    """A file that describes the message ``Table`` with the columns of ``schema``."""
    files = FileDescriptorSet()
    file = files.file.add(name="table.proto", syntax="proto2")
    _fill(file.message_type.add(name="Table"), schema, ".Table")
    content = files.SerializeToString()
    path = Path(_FOLDER.name) / hashlib.sha256(content).hexdigest()
    path.write_bytes(content)
    return path


def _fill(message: DescriptorProto, row: RowType, path: str) -> None:
    for number, column in enumerate(row.fields, 1):
        kind, label = column.type, _F.LABEL_OPTIONAL
        if isinstance(kind, ArrayType):
            kind, label = kind.element, _F.LABEL_REPEATED
        field = message.field.add(name=column.name, number=number, label=label)
        nested = column.name.capitalize() + "Entry"
        match kind:
            case RowType():
                _fill(message.nested_type.add(name=nested), kind, f"{path}.{nested}")
                field.type, field.type_name = _F.TYPE_MESSAGE, f"{path}.{nested}"
            case MapType(key=key, value=value):
                entry = message.nested_type.add(name=nested)
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL, type=_scalar(key))
                entry.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL, type=_scalar(value))
                field.type, field.type_name, field.label = _F.TYPE_MESSAGE, f"{path}.{nested}", _F.LABEL_REPEATED
            case _:
                field.type = _scalar(kind)


def _scalar(kind: DataType) -> _F.Type.ValueType:
    binary = isinstance(kind, BinaryType)
    return _F.TYPE_BYTES if binary else _SCALARS.get(kind.with_nullability(True).text(), _F.TYPE_STRING)
