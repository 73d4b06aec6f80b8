"""Compiles the columns of a table and a message's descriptor into the program of the loop in ``write_kernel``.

Messages are written from their end to their beginning, because the length of a message precedes its content. The steps
go from the last field to the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from penstock.columns.nested import Shape
from penstock.errors import Problem, SchemaError
from penstock.formats.protobuf.column_checks import Message, MessageField, field_path, is_map
from penstock.formats.protobuf.wire import EGROUP, LEN, SGROUP, WIRES
from penstock.loops import type_roots
from penstock.loops.program import Program, ProgramBuilder, ProgramStep

#: The columns of a step. ``TAG`` precedes the value; ``END_TAG`` follows it if it is a group and is 0 otherwise. ``A``
#: and ``B`` are explained below. RIVALS to RIVALS_END are the places in the table of nodes that are written instead.
STEP, NODE, NEXT, TYPE, WHEN, TAG, END_TAG, A, B, RIVALS, RIVALS_END = range(11)
#: VALUE is a single value. OPEN and CLOSE start and end a message, or a map's entry, which has no node. LIST starts a
#: list; BLOCK ends it or returns to its first step for the next element. PACKED is a list of packed numbers.
VALUE, OPEN, CLOSE, LIST, BLOCK, PACKED, END = range(7)
#: When a value is written: if it is not the default; if it is not NULL; the same, but NULL is refused; always, with the
#: default for NULL.
NOT_DEFAULT, NOT_NULL, REQUIRED, ALWAYS = range(4)
#: For strings, ``A`` and ``B`` are the position and size of the constant that is written for NULL. For enums, the table
#: has from ``A`` on: the count of names, the number of the first one, and for each its number and the position and size
#: of its constant; ``B`` says whether the column has names. For messages, ``B`` says that an empty one lacks required
#: fields.
#:
#: The greatest depth of messages in messages, lists and maps.
DEEPEST = 128

_F = FieldDescriptor
_PACKABLE = (_F.TYPE_STRING, _F.TYPE_BYTES, _F.TYPE_MESSAGE, _F.TYPE_GROUP)


@dataclass
class _Step(ProgramStep):
    type: int = 0
    when: int = 0
    tag: int = 0
    end_tag: int = 0
    a: int = 0
    b: int = 0
    rivals: int = 0
    rivals_end: int = 0


def compile_writing(message: Message, shape: Shape, null_text: str) -> Program:
    """The steps that write the columns of ``shape``, which fit it, as ``message``.

    Raises SchemaError for required fields without a column.
    """
    compiler = _ProtobufWriteCompiler(shape, null_text.encode())
    compiler.compile_fields(message, 0, "")
    if compiler.problems:
        raise SchemaError(tuple(compiler.problems))
    compiler.add("", _Step(END))
    return compiler.program()


def _tag(number: int, wire: int) -> int:
    return number << 3 | wire


class _ProtobufWriteCompiler(ProgramBuilder[_Step]):
    def __init__(self, shape: Shape, null_text: bytes):
        super().__init__()
        self.shape = shape
        self.null_text = null_text
        self.problems: list[Problem] = []
        self.enums: dict[str, int] = {}
        self.depth = 0
        self.keep(null_text)

    def compile_fields(self, message: Message, node: int, path: str) -> None:
        """The fields of a message with a column in the row ``node``, by descending number."""
        children = {self.shape.nodes[child].name: child for child in self.shape.nodes[node].children}
        for each in sorted(message.fields, key=lambda each: int(each.number), reverse=True):
            inner = field_path(path, each.name)
            if each.name in children:
                first = len(self.steps)
                self._compile_field(each, children[each.name], inner)
                if each.containing_oneof is not None:
                    self.steps[first].rivals = self.look_up(_find_later(each, children))
                    self.steps[first].rivals_end = len(self.table)
            elif each.is_required:
                reason = f"the message {message.full_name} requires this field, and there is no column for it"
                self.problems.append(Problem(reason, inner, "the protobuf message"))

    def _compile_field(self, each: MessageField, node: int, path: str) -> None:
        if is_map(each):
            self._compile_map(each, node, path)
        elif not each.is_repeated:
            when = REQUIRED if each.is_required else NOT_NULL if each.has_presence else NOT_DEFAULT
            self._compile_value(each, node, path, when)
        elif each.is_packed and each.type not in _PACKABLE:
            a, b = self._find_arguments(each, self.shape.nodes[node].children[0])
            self.add(path, _Step(PACKED, node, type=each.type, tag=_tag(each.number, LEN), a=a, b=b))
        else:
            begin = self.add(path, _Step(LIST, node))
            self._descend(path)
            self._compile_value(each, self.shape.nodes[node].children[0], path, ALWAYS)
            self._end_block(begin, path, node)

    def _compile_map(self, each: MessageField, node: int, path: str) -> None:
        entry = each.message_type.fields_by_name
        key, value = self.shape.nodes[node].children
        begin = self.add(path, _Step(LIST, node))
        self._descend(path, 2)
        self.add(path, _Step(OPEN, 0, when=ALWAYS))
        self._compile_value(entry["value"], value, path, ALWAYS)
        self._compile_value(entry["key"], key, path, ALWAYS)
        self.add(path, _Step(CLOSE, 0, tag=_tag(each.number, LEN)))
        self._end_block(begin, path, node, 2)

    def _descend(self, path: str, levels: int = 1) -> None:
        self.depth += levels
        if self.depth > DEEPEST:
            raise SchemaError((Problem(f"nested deeper than {DEEPEST} levels", path, "the protobuf message"),))

    def _end_block(self, begin: int, path: str, node: int, levels: int = 1) -> None:
        self.depth -= levels
        self.point(self.add(path, _Step(BLOCK, node)), begin + 1)
        self.point(begin)

    def _compile_value(self, each: MessageField, node: int, path: str, when: int) -> None:
        if not each.message_type:
            a, b = self._find_arguments(each, node)
            wire = int(WIRES[each.type])
            self.add(path, _Step(VALUE, node, type=each.type, when=when, tag=_tag(each.number, wire), a=a, b=b))
            return
        is_group = each.type == _F.TYPE_GROUP
        tag = _tag(each.number, SGROUP if is_group else LEN)
        end_tag = _tag(each.number, EGROUP) if is_group else 0
        demanding = any(inner.is_required for inner in each.message_type.fields)
        begin = self.add(path, _Step(OPEN, node, when=when, tag=tag, end_tag=end_tag, b=int(demanding)))
        self._descend(path)
        self.compile_fields(each.message_type, node, path)
        self.depth -= 1
        self.add(path, _Step(CLOSE, node, tag=tag, end_tag=end_tag))
        self.point(begin)

    def _find_arguments(self, each: MessageField, node: int) -> tuple[int, int]:
        if each.enum_type:
            return self._place_enum(each.enum_type), int(self.shape.nodes[node].root == type_roots.STRING)
        return (0, len(self.null_text)) if each.type == _F.TYPE_STRING else (0, 0)

    def _place_enum(self, enum: Any) -> int:
        if enum.full_name not in self.enums:
            self.enums[enum.full_name] = self.look_up([len(enum.values), enum.values[0].number])
            for value in enum.values:
                name = value.name.encode()
                self.look_up([value.number, self.keep(name), len(name)])
        return self.enums[enum.full_name]


def _find_later(each: MessageField, children: dict[str, int]) -> list[int]:
    """The columns after a field's that are in the same oneof: if one of them has a value, it is written
    instead."""
    members = (children.get(other.name, -1) for other in each.containing_oneof.fields)
    return [node for node in members if node > children[each.name]]
