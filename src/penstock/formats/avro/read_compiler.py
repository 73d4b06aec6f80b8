"""Schema resolution by the Avro specification: compiles the writer's schema and the table's columns into a program.

:mod:`penstock.formats.avro.read_kernel` runs the program over messages. Columns also read the types that Flink's type
mapping pairs with them: STRING reads enums, BYTES reads fixed, and times and timestamps are converted from the unit in
which they were written.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.columns.nested import Shape
from penstock.errors import Problem, SchemaError
from penstock.formats.avro import program as p
from penstock.formats.avro.json_values import default_data
from penstock.formats.avro.read_reasons import UNFIT
from penstock.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordField,
    Schema,
    Union,
    describe_type,
    field_path,
    type_name,
)
from penstock.loops import type_roots
from penstock.loops.program import Program, ProgramBuilder
from penstock.loops.type_roots import describe_root
from penstock.types import DataType

_WIRES = {
    "boolean": p.WIRE_BOOLEAN,
    "int": p.WIRE_INT,
    "long": p.WIRE_LONG,
    "float": p.WIRE_FLOAT,
    "double": p.WIRE_DOUBLE,
    "bytes": p.WIRE_BYTES,
    "string": p.WIRE_BYTES,
}
_LEAST_SIZES = {"null": 0, "float": 4, "double": 8}
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
    "enum": ("string",),
    "fixed": ("bytes",),
}
_WHOLE = {
    "int": (type_roots.TINYINT, type_roots.SMALLINT, type_roots.INT, type_roots.BIGINT),
    "long": (type_roots.BIGINT,),
}
#: From the unit of a timestamp, milliseconds where none is given, to the unit of the columns.
_TO_MICROS = {
    "": (p.SCALE_UP, 1000),
    "millis": (p.SCALE_UP, 1000),
    "micros": (p.KEEP, 0),
    "nanos": (p.SCALE_DOWN, 1000),
}


class _Unfit(Exception):
    """The two schemas, or the schema and the column, do not fit."""

    def __init__(self, path: str, reason: str):
        super().__init__(path, reason)
        self.path, self.reason = path, reason


def compile_reading(writer: Schema, reader: Record, shape: Shape) -> Program:
    """The program that reads data of ``writer`` into the columns of ``shape``, with ``reader`` as the reader's schema.

    Fields of ``reader`` are paired with columns by name. Its defaults replace fields that ``writer`` lacks. Raises
    SchemaError if the schemas do not fit each other or the columns.
    """
    compiler = _AvroReadCompiler(shape)
    try:
        compiler.read(writer, reader, 0, "")
    except _Unfit as error:
        raise SchemaError((Problem(error.reason, error.path, "the Avro schema"),)) from error
    compiler.add("", p.AvroStep(p.END))
    return compiler.program()


def find_least_size(schema: Schema) -> int:
    """The fewest bytes that a value takes."""
    match schema:
        case Primitive(type=name):
            return _LEAST_SIZES.get(name, 1)
        case Fixed(size=size):
            return size
        case Union(branches=branches):
            return 1 + min(map(find_least_size, branches))
        case Record(fields=fields):
            return sum(find_least_size(field.type) for field in fields)
    return 1


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _promotes(writer: Schema, reader: Schema) -> bool:
    """Whether a value of one type can be read as the other; times of day are converted between units."""
    times = [getattr(each, "logical", "").startswith("time-") for each in (writer, reader)]
    return type_name(reader) in _PROMOTIONS.get(type_name(writer), ()) or all(times)


def _same_name(writer: Enum | Fixed, reader: Enum | Fixed) -> bool:
    names = {_simple(name) for name in (reader.name, *reader.aliases)}
    return _simple(writer.name) in names


class _TooLong(_Unfit):
    """The program has too many steps. Unlike other errors, this one is not about a single branch of a union."""


class _AvroReadCompiler(ProgramBuilder[p.AvroStep]):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.depth = 0

    def read(self, writer: Schema, reader: Schema | None, node: int, path: str) -> None:
        """Read a value into a node; without a reader's schema and a node, skip it."""
        if len(self.steps) > p.MOST_STEPS:
            raise _TooLong(path, f"the schema is longer than {p.MOST_STEPS} values")
        if isinstance(writer, Union):
            self._compile_union(writer, reader, node, path)
        else:
            self._read_value(writer, self._find_branch(writer, reader, path), node, path, p.SKIP)

    def _find_branch(self, writer: Schema, reader: Schema | None, path: str) -> Schema | None:
        """The branch of the reader's union that fits the value; the reader's schema itself if it is not a union."""
        if not isinstance(reader, Union):
            return reader
        name = type_name(writer)
        same = [each for each in reader.branches if type_name(each) == name]
        named = [each for each in same if getattr(each, "name", "") == getattr(writer, "name", "")]
        promoted = [each for each in reader.branches if _promotes(writer, each)]
        found = next(iter(named + same + promoted), None)
        if found is None:
            wanted = " or ".join(map(describe_type, reader.branches))
            raise _Unfit(path, f"the data has {describe_type(writer)}, which cannot be read as {wanted}")
        return found

    def _compile_union(self, writer: Union, reader: Schema | None, node: int, path: str) -> None:
        others = [each for each in writer.branches if each != Primitive("null")]
        if len(writer.branches) == 2 and len(others) == 1 and _takes_null(reader):
            self._read_value(
                others[0],
                self._find_branch(others[0], reader, path),
                node,
                path,
                writer.branches.index(Primitive("null")),
            )
            return
        start = self.look_up([0] * len(writer.branches))
        self.add(path, p.AvroStep(p.UNION, node, a=len(writer.branches), b=start))
        leaving, refusals = [], []
        for index, each in enumerate(writer.branches):
            self.table[start + index] = first = len(self.steps)
            depth = self.depth
            try:
                self.read(each, reader, node, path)
            except _TooLong:
                raise
            except _Unfit as error:
                self.forget(first)
                self.depth = depth
                self.add(path, p.AvroStep(p.REFUSE, node, a=UNFIT))
                if each != Primitive("null"):
                    refusals.append(error)
            leaving.append(self.add(path, p.AvroStep(p.JUMP)))
        if refusals and len(refusals) == len(others):
            raise refusals[0]
        for step in leaving:
            self.point(step)

    def _read_value(self, writer: Schema, reader: Schema | None, node: int, path: str, null_at: int) -> None:
        match writer:
            case Primitive(type="null"):
                if node >= 0:
                    if not _takes_null(reader):
                        raise _Unfit(path, "the data has null, and the column is NOT NULL")
                    self.add(path, p.AvroStep(p.PAD, node))
            case Record():
                self._compile_record(writer, reader, node, path, null_at)
            case Array(items=item) | Map(values=item):
                root = type_roots.MAP if isinstance(writer, Map) else type_roots.ARRAY
                if node >= 0 and (type(reader) is not type(writer) or self._kind(node) != root):
                    raise self._unfit(writer, reader, node, path)
                inner = (
                    reader.items if isinstance(reader, Array) else reader.values if isinstance(reader, Map) else None
                )
                self._compile_list(item, inner, node, path, null_at, is_map=isinstance(writer, Map))
            case _:
                self._compile_value(writer, reader, node, path, null_at)

    def _kind(self, node: int) -> int:
        return self.shape.nodes[node].root

    def _unfit(self, writer: Schema, reader: Schema | None, node: int, path: str) -> _Unfit:
        written, column = describe_type(writer), self.shape.nodes[node].type.with_nullability(True)
        read = (
            f", read as {describe_type(reader)},"
            if reader is not None and type_name(reader) != type_name(writer)
            else ""
        )
        return _Unfit(path, f"the data has {written}{read} which does not fit a column of type {column}")

    def _compile_list(
        self, item: Schema, reader: Schema | None, node: int, path: str, null_at: int, *, is_map: bool
    ) -> None:
        self.depth += 1
        if self.depth > p.DEEPEST:
            raise _Unfit(path, f"arrays and maps are nested deeper than {p.DEEPEST} levels")
        begin = self.add(path, p.AvroStep(p.LIST, node, null_at=null_at))
        value = node
        if is_map:
            key = node + 1 if node >= 0 else p.SKIP
            self.add(path, p.AvroStep(p.VALUE, key, wire=p.WIRE_BYTES, convert=p.TEXT))
        if node >= 0:
            value = self.shape.nodes[node].children[-1]
        self.read(item, reader, value, path)
        self.point(begin)
        self.add(path, p.AvroStep(p.BLOCK, node, a=find_least_size(item) + is_map, b=int(is_map), next=begin + 1))
        self.depth -= 1

    def _compile_record(self, writer: Record, reader: Schema | None, node: int, path: str, null_at: int) -> None:
        begin = self.add(path, p.AvroStep(p.STRUCT, node, null_at=null_at)) if node >= 0 or null_at >= 0 else None
        if node < 0:
            for each in writer.fields:
                self.read(each.type, None, p.SKIP, field_path(path, each.name))
        else:
            if not isinstance(reader, Record) or self._kind(node) != type_roots.ROW:
                raise self._unfit(writer, reader, node, path)
            self._compile_fields(writer, reader, node, path)
        if begin is not None:
            self.point(begin)

    def _compile_fields(self, writer: Record, reader: Record, node: int, path: str) -> None:
        children = {self.shape.nodes[child].name: child for child in self.shape.nodes[node].children}
        sources = dict(_pair_fields(writer, reader))
        targets = {source: field for field, source in sources.items()}
        for each in writer.fields:
            target = targets.get(each.name)
            child = p.SKIP if target is None else children.get(target, p.SKIP)
            inner = next((field.type for field in reader.fields if field.name == target), None) if child >= 0 else None
            self.read(each.type, inner, child, field_path(path, target or each.name))
        known = {field.name for field in reader.fields}
        for each in reader.fields:
            if each.name in children and each.name not in sources:
                self._compile_default(each, children[each.name], field_path(path, each.name))
        for name, child in children.items():
            if name not in known:
                if not self.shape.nodes[child].type.nullable:
                    raise _Unfit(
                        field_path(path, name), "the Avro schema has no such field, and the column is NOT NULL"
                    )
                self.add(field_path(path, name), p.AvroStep(p.PAD, child))

    def _compile_default(self, field: RecordField, node: int, path: str) -> None:
        if field.default is None:
            raise _Unfit(path, "the data has no such field, and the field has no default")
        if field.default == "null" and _takes_null(field.type):
            self.add(path, p.AvroStep(p.PAD, node))
            return
        try:
            data = default_data(field.type, field.default)
        except ValueError as error:
            raise _Unfit(path, str(error)) from error
        self.add(path, p.AvroStep(p.DEFAULT, a=self.keep(data), b=len(data)))
        self.read(field.type, field.type, node, path)
        self.add(path, p.AvroStep(p.RESTORE))

    def _compile_value(self, writer: Schema, reader: Schema | None, node: int, path: str, null_at: int) -> None:
        a = b = 0
        match writer:
            case Fixed(size=b):
                wire = p.WIRE_FIXED
            case Enum(symbols=symbols):
                wire, a = p.WIRE_ENUM, len(symbols)
                b = self.look_up(self._place_symbols(writer, reader)) if node >= 0 else 0
            case Primitive(type=name):
                wire = _WIRES[name]
            case _:
                raise TypeError(f"not a single value: {writer}")
        convert = p.KEEP
        if node >= 0:
            found = None if reader is None else self._find_conversion(writer, reader, self.shape.nodes[node].type)
            if found is None:
                raise self._unfit(writer, reader, node, path)
            convert, argument = found
            a = a or argument
        self.add(path, p.AvroStep(p.VALUE, node, wire=wire, convert=convert, a=a, b=b, null_at=null_at))

    def _place_symbols(self, writer: Enum, reader: Schema | None) -> Iterator[int]:
        """The position of each of the writer's symbols in the constants, and its size; -1 if messages with the symbol
        are refused."""
        known = reader.symbols if isinstance(reader, Enum) else writer.symbols
        default = reader.default if isinstance(reader, Enum) else None
        for symbol in writer.symbols:
            found = symbol if symbol in known else default
            if found is None:
                yield from (0, -1)
            else:
                yield from (self.keep(found.encode()), len(found.encode()))

    def _find_conversion(self, writer: Schema, reader: Schema, data_type: DataType) -> tuple[int, int] | None:
        """The conversion from the value to the column's, with its argument; None if there is none."""
        code, precision, scale = describe_root(data_type)
        written, read = type_name(writer), type_name(reader)
        if read != written and not _promotes(writer, reader):
            return None
        if isinstance(reader, Enum) and not (isinstance(writer, Enum) and _same_name(writer, reader)):
            return None
        if isinstance(reader, Fixed) and not (
            isinstance(writer, Fixed) and writer.size == reader.size and _same_name(writer, reader)
        ):
            return None
        logical = getattr(writer, "logical", "") or getattr(reader, "logical", "")
        if code == type_roots.BOOLEAN:
            return (p.KEEP, 0) if written == "boolean" else None
        if code == type_roots.STRING:
            return (p.TEXT, 0) if written in ("string", "bytes", "enum") else None
        if code == type_roots.BYTES:
            return (p.RAW, 0) if written in ("string", "bytes", "fixed") else None
        if code == type_roots.DECIMAL:
            fits = logical != "decimal" or _find_scale(writer, reader) == scale
            return (p.TO_DECIMAL, precision) if written in ("bytes", "fixed") and fits else None
        if code in (type_roots.FLOAT, type_roots.DOUBLE):
            return _find_floating(written, read, code)
        if written not in ("int", "long"):
            return None
        if code == type_roots.DATE:
            return (p.KEEP, 0) if written == "int" and logical in ("", "date") else None
        if code == type_roots.TIME:
            ratio = {"": 10**6 if written == "int" else None, "time-millis": 10**6, "time-micros": 10**3}.get(logical)
            return None if ratio is None else (p.TO_TIME, ratio)
        if code in (type_roots.TIMESTAMP, type_roots.TIMESTAMP_LTZ):
            return _TO_MICROS.get(logical.rpartition("timestamp-")[2])
        return (p.KEEP, 0) if code in _WHOLE[written] and _fits(read, code) else None


def _find_floating(written: str, read: str, code: int) -> tuple[int, int] | None:
    if written not in ("int", "long", "float", "double") or (code == type_roots.FLOAT and written == "double"):
        return None
    if written in ("float", "double"):
        return p.KEEP, 0
    return (p.TO_FLOAT if code == type_roots.FLOAT or read == "float" else p.TO_DOUBLE), 0


def _fits(read: str, code: int) -> bool:
    return read == "int" or (read == "long" and code == type_roots.BIGINT)


def _find_scale(writer: Schema, reader: Schema) -> int:
    """The scale of a decimal; the writer's schema wins if it has one."""
    for each in (writer, reader):
        if isinstance(each, Primitive | Fixed) and each.logical == "decimal":
            return each.scale
    return 0


def _pair_fields(writer: Record, reader: Record) -> Iterator[tuple[str, str]]:
    """The names of the reader's fields, each with the name or alias under which the writer has it."""
    names = [field.name for field in writer.fields]
    taken = {field.name for field in reader.fields}
    for each in reader.fields:
        aliases = [alias for alias in each.aliases if alias in names and alias not in taken]
        if each.name in names:
            yield each.name, each.name
        elif aliases:
            taken.add(aliases[0])
            yield each.name, aliases[0]


def _takes_null(schema: Schema | None) -> bool:
    if isinstance(schema, Union):
        return Primitive("null") in schema.branches
    return schema is None or schema == Primitive("null")
