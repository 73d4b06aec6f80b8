"""Compiles the columns of a table and a schema into the program that the loop in ``write_kernel`` runs over rows.

Fields and columns are paired by name. A field without a column gets its default; a union is written as the first of
its types that fits the column, or as null.
"""

from __future__ import annotations

from penstock.columns.nested import Shape
from penstock.errors import Problem, SchemaError
from penstock.formats.avro import program as p
from penstock.formats.avro.json_values import default_data
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
)
from penstock.loops import type_roots
from penstock.loops.program import Program, ProgramBuilder
from penstock.loops.type_roots import describe_root, nested_root
from penstock.types import DataType

#: From the unit of the columns to the unit of a timestamp, milliseconds where none is given.
_FROM_MICROS = {
    "": (p.SCALE_DOWN, 1000),
    "millis": (p.SCALE_DOWN, 1000),
    "micros": (p.KEEP, 0),
    "nanos": (p.SCALE_UP, 1000),
}
_WIRES = {"boolean": p.WIRE_BOOLEAN, "int": p.WIRE_INT, "long": p.WIRE_LONG, "float": p.WIRE_FLOAT}
_WHOLE = (type_roots.TINYINT, type_roots.SMALLINT, type_roots.INT)


def compile_writing(schema: Record, shape: Shape, prefix: bytes = b"") -> Program:
    """The program that writes ``prefix`` and then the columns of ``shape`` by a schema.

    Raises SchemaError with every field and column that does not fit.
    """
    compiler = _AvroWriteCompiler(shape)
    if prefix:
        compiler.add("", p.AvroStep(p.CONSTANT, 0, a=compiler.keep(prefix), b=len(prefix)))
    compiler.compile_fields(schema, 0, "")
    if compiler.problems:
        raise SchemaError(tuple(compiler.problems))
    compiler.add("", p.AvroStep(p.END))
    return compiler.program()


class _AvroWriteCompiler(ProgramBuilder[p.AvroStep]):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.problems: list[Problem] = []
        self.depth = 0

    def refuse(self, path: str, reason: str) -> None:
        self.problems.append(Problem(reason, path, "the Avro schema"))

    def compile_fields(self, schema: Record, node: int, path: str) -> None:
        """The fields of a record, in the order of the schema."""
        children = {self.shape.nodes[child].name: child for child in self.shape.nodes[node].children}
        for each in schema.fields:
            inner = field_path(path, each.name)
            child = children.pop(each.name, None)
            if child is None:
                self._compile_default(each, node, inner)
            else:
                self.write(each.type, child, inner)
        for name in children:
            self.refuse(field_path(path, name), "there is no field for this column")

    def _compile_default(self, field: RecordField, node: int, path: str) -> None:
        if field.type == Primitive("null"):
            return
        if field.default is None:
            self.refuse(path, "the field has neither a column nor a default")
            return
        try:
            data = default_data(field.type, field.default)
        except ValueError as error:
            self.refuse(path, str(error))
            return
        self.add(path, p.AvroStep(p.CONSTANT, node, a=self.keep(data), b=len(data)))

    def write(self, schema: Schema, node: int, path: str) -> None:
        """A value, by a schema that may be a union."""
        column_type = self.shape.nodes[node].type
        if not isinstance(schema, Union):
            self._write_value(schema, node, path, p.SKIP, p.SKIP)
            return
        null = Primitive("null")
        null_at = schema.branches.index(null) if null in schema.branches else p.SKIP
        found = next((index for index, each in enumerate(schema.branches) if self._takes(each, column_type)), None)
        if found is None or found >= p.WIDEST_UNION or null_at >= p.WIDEST_UNION:
            types = ", ".join(map(describe_type, schema.branches))
            self.refuse(
                path, f"no type in a union of {types} fits a column of type {column_type.with_nullability(True)}"
            )
            return
        self._write_value(schema.branches[found], node, path, null_at, found)

    def _takes(self, schema: Schema, data_type: DataType) -> bool:
        code = nested_root(data_type)
        if code in (type_roots.ROW, type_roots.ARRAY, type_roots.MAP):
            return {type_roots.ROW: Record, type_roots.ARRAY: Array, type_roots.MAP: Map}[code] is type(schema)
        return _find_conversion(schema, data_type) is not None

    def _write_value(self, schema: Schema, node: int, path: str, null_at: int, value_at: int) -> None:
        column_type = self.shape.nodes[node].type
        if not self._takes(schema, column_type):
            self.refuse(
                path, f"{describe_type(schema)} cannot hold a column of type {column_type.with_nullability(True)}"
            )
            return
        branches = {"null_at": null_at, "value_at": value_at}
        match schema:
            case Record():
                begin = self.add(path, p.AvroStep(p.STRUCT, node, **branches))
                self.compile_fields(schema, node, path)
                self.point(begin)
            case Array(items=items):
                self._compile_list(items, node, path, branches, is_map=False)
            case Map(values=values):
                self._compile_list(values, node, path, branches, is_map=True)
            case _:
                self._compile_value(schema, node, path, branches)

    def _compile_list(self, item: Schema, node: int, path: str, branches: dict[str, int], *, is_map: bool) -> None:
        self.depth += 1
        if self.depth > p.DEEPEST:
            self.refuse(path, f"arrays and maps are nested deeper than {p.DEEPEST} levels")
            return
        begin = self.add(path, p.AvroStep(p.LIST, node, **branches))
        if is_map:
            self.add(path, p.AvroStep(p.VALUE, node + 1, wire=p.WIRE_BYTES, convert=p.RAW))
        self.write(item, self.shape.nodes[node].children[-1], path)
        self.point(begin)
        self.add(path, p.AvroStep(p.BLOCK, node, next=begin + 1))
        self.depth -= 1

    def _compile_value(self, schema: Schema, node: int, path: str, branches: dict[str, int]) -> None:
        found = _find_conversion(schema, self.shape.nodes[node].type)
        if found is None:
            raise TypeError(f"not a single value: {schema}")
        wire, convert, a = found
        b = 0
        if isinstance(schema, Fixed):
            b = schema.size
        elif isinstance(schema, Enum):
            encoded = [symbol.encode() for symbol in schema.symbols]
            places = [(self.keep(symbol), len(symbol)) for symbol in encoded]
            a, b = len(encoded), self.look_up(each for pair in places for each in pair)
        self.add(path, p.AvroStep(p.VALUE, node, wire=wire, convert=convert, a=a, b=b, **branches))


def _find_conversion(schema: Schema, data_type: DataType) -> tuple[int, int, int] | None:
    """The encoding of a column's value, the conversion before it and its argument; None if there is no encoding."""
    code, _, scale = describe_root(data_type)
    match schema:
        case Primitive(type="string"):
            return (p.WIRE_BYTES, p.RAW, 0) if code == type_roots.STRING else None
        case Enum():
            return (p.WIRE_ENUM, p.SYMBOL, 0) if code == type_roots.STRING else None
        case Primitive(type="bytes") | Fixed():
            wire = p.WIRE_FIXED if isinstance(schema, Fixed) else p.WIRE_BYTES
            if code == type_roots.DECIMAL:
                return (wire, p.TO_DECIMAL, 0) if schema.logical == "decimal" and schema.scale == scale else None
            return (wire, p.RAW, 0) if code == type_roots.BYTES and not schema.logical else None
        case Primitive(type="boolean"):
            return (p.WIRE_BOOLEAN, p.KEEP, 0) if code == type_roots.BOOLEAN else None
        case Primitive(type="float"):
            return (p.WIRE_FLOAT, p.KEEP, 0) if code == type_roots.FLOAT else None
        case Primitive(type="double"):
            if code == type_roots.FLOAT:
                return p.WIRE_DOUBLE, p.TO_DOUBLE, 0
            return (p.WIRE_DOUBLE, p.KEEP, 0) if code == type_roots.DOUBLE else None
        case Primitive(type="int" | "long"):
            return _find_integer_encoding(schema, code)
    return None


def _find_integer_encoding(schema: Primitive, code: int) -> tuple[int, int, int] | None:
    wire, logical = _WIRES[schema.type], schema.logical
    is_int = schema.type == "int"
    if code in _WHOLE or (code == type_roots.BIGINT and not is_int):
        return (wire, p.KEEP, 0) if not logical else None
    if code == type_roots.DATE and is_int and logical in ("", "date"):
        return wire, p.KEEP, 0
    if code == type_roots.TIME and logical in (("", "time-millis") if is_int else ("time-micros",)):
        return wire, p.SCALE_DOWN, 10**6 if is_int else 10**3
    if (
        code in (type_roots.TIMESTAMP, type_roots.TIMESTAMP_LTZ)
        and not is_int
        and (not logical or "timestamp" in logical)
    ):
        return (wire, *_FROM_MICROS[logical.rpartition("timestamp-")[2]])
    return None
