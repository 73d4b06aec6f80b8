"""Compiles a message's descriptor and the columns of a table into the program of the loop in ``read_kernel``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from penstock.columns.nested import Shape
from penstock.errors import Problem, SchemaError
from penstock.formats.protobuf import read_program as p
from penstock.formats.protobuf.column_checks import (
    Message,
    MessageField,
    field_path,
    is_map,
    map_first_names,
    must_be_utf8,
)
from penstock.loops import type_roots

#: Java's name, and Flink's text, for a number that the enum does not have.
UNRECOGNIZED = "UNRECOGNIZED"

_Init: TypeAlias = tuple[int, int, int, int, int]
_F = FieldDescriptor
_LISTS = (type_roots.ARRAY, type_roots.MAP)
_TEXTS = (type_roots.STRING, type_roots.BYTES)
_LARGEST = {type_roots.TINYINT: 2**7 - 1, type_roots.SMALLINT: 2**15 - 1}
_MOST_BITS = 62
#: The mask of a message that has too many required fields: no message has it, so the exact reader checks them.
_NEVER = -1


def compile_reading(message: Message, shape: Shape, read_defaults: bool) -> p.ProtobufReadProgram:
    """The program that reads ``message`` into the columns of ``shape``, which fit it.

    With ``read_defaults``, absent fields get their default even if they have presence. Raises SchemaError if the column
    cannot hold the default.
    """
    compiler = _ProtobufReadCompiler(shape, read_defaults)
    compiler.tables.set_message(compiler.tables.reserve(""), [], (0, 0), 0, False)
    root = compiler.compile_message(message, 0, "")
    if compiler.problems:
        raise SchemaError(tuple(dict.fromkeys(compiler.problems)))
    blank = compiler.tables.begin_with(compiler.blank(0))
    maps = [
        (index, node.children[0], int(shape.nodes[node.children[0]].root == type_roots.STRING))
        for index, node in enumerate(shape.nodes)
        if node.root == type_roots.MAP
    ]
    return compiler.tables.program(root, blank, maps)


class _ProtobufReadCompiler:
    def __init__(self, shape: Shape, read_defaults: bool):
        self.shape = shape
        self.read_defaults = read_defaults
        self.tables = p.ProtobufReadProgramBuilder()
        self.checked: dict[str, int] = {}
        self.enums: dict[str, int] = {}
        self.problems: list[Problem] = []

    def compile_message(self, message: Message, node: int, path: str) -> int:
        """The number of a message that is read into the row ``node``, or only checked where that is SKIP."""
        if node == p.SKIP:
            if message.full_name in self.checked:
                return self.checked[message.full_name]
            path = path or message.full_name
        number = self.tables.reserve(path)
        if node == p.SKIP:
            self.checked[message.full_name] = number
        children = self._find_children(node)
        columns = {each.number: children.get(each.name, p.SKIP) for each in message.fields}
        begin = self.tables.begin_with(self.initial_values(message, node)) if node != p.SKIP else (0, 0)
        self._finish(number, message, columns, begin, path, entry=False)
        return number

    def _find_children(self, node: int) -> dict[str, int]:
        if node == p.SKIP:
            return {}
        return {self.shape.nodes[child].name: child for child in self.shape.nodes[node].children}

    def _compile_entry(self, field: MessageField, node: int, path: str) -> int:
        """The number of the message for a map's entry; its values are elements of the map's key and value nodes."""
        message = field.message_type
        if node == p.SKIP:
            return self.compile_message(message, p.SKIP, path)
        number = self.tables.reserve(path)
        key, value = self.shape.nodes[node].children
        fields = message.fields_by_name
        values = [self._compile_default(fields["key"], key, valid=True)]
        if fields["value"].message_type:
            values += self.initial_values(fields["value"].message_type, value)
        else:
            values.append(self._compile_default(fields["value"], value, valid=True))
        begin = self.tables.begin_with(values)
        columns = {fields["key"].number: key, fields["value"].number: value}
        self._finish(number, message, columns, begin, path, entry=True)
        return number

    def _finish(
        self,
        number: int,
        message: Message,
        columns: dict[int, int],
        begin: tuple[int, int],
        path: str,
        *,
        entry: bool,
    ) -> None:
        is_entry = message.GetOptions().map_entry
        needed = [each for each in message.fields if self._is_required(each, is_entry)]
        bits = {each.number: 1 << bit for bit, each in enumerate(needed[:_MOST_BITS])}
        mask = sum(bits.values()) if len(needed) <= _MOST_BITS else _NEVER
        rows = []
        for each in sorted(message.fields, key=lambda each: int(each.number)):
            inner = field_path(path, each.name)
            row = self._compile_field(each, columns[each.number], columns, inner)
            row[p.BIT] = bits.get(each.number, 0)
            rows.append((inner, row))
        self.tables.set_message(number, rows, begin, mask, entry)

    @staticmethod
    def _is_required(field: MessageField, is_entry: bool) -> bool:
        """Whether a message is incomplete without a field. A map entry is, if its value has a required field."""
        if is_entry:
            return bool(field.message_type) and any(each.is_required for each in field.message_type.fields)
        return bool(field.is_required)

    def _compile_field(self, field: MessageField, node: int, columns: dict[int, int], path: str) -> list[int]:
        child, inner, a, b = p.SKIP, p.UNKNOWN, 0, 0
        value = node
        if field.is_repeated and node != p.SKIP:
            child = self.shape.nodes[node].children[0]
            value = child
        if is_map(field):
            inner = self._compile_entry(field, node, path)
        elif field.message_type:
            inner = self.compile_message(field.message_type, value, path if value != p.SKIP else "")
        elif field.enum_type:
            a, b = self._place_enum(field.enum_type), self._enum_column(value)
        elif field.type == _F.TYPE_STRING:
            unless_utf8 = p.LEFT_UNLESS_TEXT if value != p.SKIP else p.ANYTHING
            a = p.REFUSED_UNLESS_TEXT if must_be_utf8(field) else unless_utf8
        rivals = self.tables.begin_with(self._init_rivals(field, columns))
        return [field.number, field.type, int(field.is_repeated), node, child, inner, a, b, *rivals, 0]

    def _init_rivals(self, field: MessageField, columns: dict[int, int]) -> Iterator[_Init]:
        if field.containing_oneof is None:
            return
        for each in field.containing_oneof.fields:
            if each.number != field.number and columns[each.number] != p.SKIP:
                yield from self._init_absent(each, columns[each.number])

    def _enum_column(self, node: int) -> int:
        if node == p.SKIP:
            return 2**31 - 1
        root = self.shape.nodes[node].root
        return p.AS_TEXT if root == type_roots.STRING else _LARGEST.get(root, 2**31 - 1)

    def _place_enum(self, enum: Any) -> int:
        if enum.full_name not in self.enums:
            names = sorted(map_first_names(enum).items())
            spans = [(self.tables.keep(name.encode()), len(name)) for _, name in (*names, (0, UNRECOGNIZED))]
            self.enums[enum.full_name] = self.tables.look_up(
                [
                    len(names),
                    int(enum.is_closed),
                    *(number for number, _ in names),
                    *(n for span in spans for n in span),
                ]
            )
        return self.enums[enum.full_name]

    def initial_values(self, message: Message, node: int) -> list[_Init]:
        """The initial values of a row whose message has no fields yet."""
        found = [(node, 1, 0, 0, p.NOTHING)]
        children = self._find_children(node)
        for each in message.fields:
            if each.name in children:
                found += self._init_absent(each, children[each.name])
        return found

    def _init_absent(self, field: MessageField, node: int) -> list[_Init]:
        if field.is_repeated:
            return [(node, int(self.read_defaults), self.shape.nodes[node].children[0], 0, p.LISTED)]
        if field.message_type:
            return self.initial_values(field.message_type, node) if self.read_defaults else self.blank(node)
        return [self._compile_default(field, node, valid=self.read_defaults or not field.has_presence)]

    def blank(self, node: int) -> list[_Init]:
        """Nulls in a node and in all nodes inside it except elements."""
        found = self.shape.nodes[node]
        if found.root == type_roots.ROW:
            return [(node, 0, 0, 0, p.NOTHING), *(each for child in found.children for each in self.blank(child))]
        if found.root in _LISTS:
            return [(node, 0, found.children[0], 0, p.LISTED)]
        return [(node, 0, 0, 0, p.TEXTUAL if found.root in _TEXTS else p.NUMERIC)]

    def _compile_default(self, field: MessageField, node: int, *, valid: bool) -> _Init:
        value = field.default_value
        root = self.shape.nodes[node].root
        if field.enum_type and root == type_roots.STRING:
            value = map_first_names(field.enum_type)[value]
        elif valid and root in _LARGEST and not -_LARGEST[root] - 1 <= value <= _LARGEST[root]:
            reason = f"the default of {field.full_name} is {value}, which does not fit a column of type"
            self.problems.append(Problem(f"{reason} {self.shape.nodes[node].type}", self._path(node)))
        if root in _TEXTS:
            data = value.encode() if isinstance(value, str) else value
            return node, int(valid), self.tables.keep(data), len(data), p.TEXTUAL
        if root in (type_roots.FLOAT, type_roots.DOUBLE):
            (bits,) = struct.unpack("<q", struct.pack("<d", value))
            return node, int(valid), bits, 0, p.NUMERIC
        if root == type_roots.INT:
            return node, int(valid), (int(value) + 2**31) % 2**32 - 2**31, 0, p.NUMERIC
        return node, int(valid), (int(value) + 2**63) % 2**64 - 2**63, 0, p.NUMERIC

    def _path(self, node: int) -> str:
        """The path of a node from its column on."""
        parent = next((at for at, each in enumerate(self.shape.nodes) if node in each.children), 0)
        name = self.shape.nodes[node].name
        return field_path(self._path(parent), name) if parent else name
