"""Reads messages one at a time with protobuf's own runtime, for messages that the compiled loop leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from penstock.exact.errors import FieldError, Malformed
from penstock.formats.protobuf.column_checks import Message, MessageField, field_path, is_map, map_first_names
from penstock.formats.protobuf.read_compiler import UNRECOGNIZED
from penstock.formats.protobuf.read_reasons import NOT_TEXT, READ_REASONS
from penstock.loops import type_roots
from penstock.loops.type_roots import nested_root
from penstock.types import ArrayType, DataType, MapType, RowType

_BITS = {FieldDescriptor.TYPE_UINT32: 32, FieldDescriptor.TYPE_FIXED32: 32}
_BITS |= {FieldDescriptor.TYPE_UINT64: 64, FieldDescriptor.TYPE_FIXED64: 64}
_LIMITS = {type_roots.TINYINT: 2**7, type_roots.SMALLINT: 2**15}
_PREFIX = re.compile(r"Error parsing message(?: with type '[^']*')?:? ?")


@dataclass(frozen=True)
class ExactProtobufReader:
    """Reads messages of one type into rows of columns that fit it. Map entries are sorted by key."""

    message: Message
    row: RowType
    read_defaults: bool

    @cached_property
    def _class(self) -> Any:
        return GetMessageClass(self.message)

    def read(self, data: bytes) -> dict[str, Any]:
        """The row of a message, as Python values that Arrow accepts. Raises Malformed or FieldError."""
        try:
            found = self._class.FromString(data)
        except DecodeError as error:
            text = _PREFIX.sub("", str(error))
            raise Malformed(f"the protobuf parser refuses the message{': ' if text else ''}{text}") from error
        if not found.IsInitialized():
            raise FieldError(_find_missing(found, ""), "the message lacks this required field")
        return self._row(found, self.row, "")

    def _row(self, message: Any, row: RowType, path: str) -> dict[str, Any]:
        fields: Mapping[str, MessageField] = message.DESCRIPTOR.fields_by_name
        return {
            each.name: self._read_column(message, fields[each.name], each.type, field_path(path, each.name))
            for each in row.fields
        }

    def _read_column(self, message: Any, field: MessageField, data_type: DataType, path: str) -> Any:
        if not self.read_defaults and field.has_presence and not message.HasField(field.name):
            return None
        value = getattr(message, field.name)
        if not field.is_repeated:
            return self._value(value, field, data_type, path)
        if not value and not self.read_defaults:
            return None
        if isinstance(data_type, MapType) and is_map(field):
            entry = field.message_type.fields_by_name
            return [
                (
                    self._value(key, entry["key"], data_type.key, f"{path}.key"),
                    self._value(value[key], entry["value"], data_type.value, f"{path}.value"),
                )
                for key in sorted(value)
            ]
        if isinstance(data_type, ArrayType):
            return [self._value(each, field, data_type.element, path) for each in value]
        raise TypeError(f"{data_type} does not take {field.full_name}")

    def _value(self, value: Any, field: MessageField, data_type: DataType, path: str) -> Any:
        if isinstance(data_type, RowType):
            return self._row(value, data_type, path)
        if field.enum_type:
            return _enum(value, field, nested_root(data_type), path)
        if field.type == FieldDescriptor.TYPE_STRING and isinstance(value, bytes):
            raise FieldError(path, READ_REASONS[NOT_TEXT])
        bits = _BITS.get(field.type)
        return value if bits is None or value < 1 << (bits - 1) else value - (1 << bits)


def _find_missing(message: Any, path: str) -> str:
    """The path of the first required field that is missing. The runtime's own search crashes on some messages."""
    for field in message.DESCRIPTOR.fields:
        if field.is_required and not message.HasField(field.name):
            return field_path(path, field.name)
    for field, value in message.ListFields():
        if field.message_type:
            inner = field_path(path, field.name)
            if is_map(field):
                of_messages = field.message_type.fields_by_name["value"].message_type
                parts = [(f"{inner}[{key}]", value[key]) for key in sorted(value)] if of_messages else []
            else:
                parts = (
                    [(f"{inner}[{at}]", each) for at, each in enumerate(value)]
                    if field.is_repeated
                    else [(inner, value)]
                )
            for inner_path, each in parts:
                if not each.IsInitialized():
                    return _find_missing(each, inner_path)
    return path


def _enum(number: int, field: MessageField, root: int, path: str) -> str | int:
    if root == type_roots.STRING:
        return map_first_names(field.enum_type).get(number, UNRECOGNIZED)
    limit = _LIMITS.get(root, 2**31)
    if not -limit <= number < limit:
        raise FieldError(path, "out of the range of the column's type")
    return number
