"""From a schema to the program by which the loops in ``rewrite_kernel`` rewrite Avro's binary encoding as its JSON, and
back: constants are what is in the JSON alone, values what is in both.
"""

from __future__ import annotations

from penstock.formats.avro import program as p
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union, kind_name
from penstock.formats.quoting import quote_in_bytes

__all__ = ["label", "rewriting"]

_WIRES = {
    "null": (p.WIRE_NULL, p.KEEP),
    "boolean": (p.WIRE_BOOLEAN, p.KEEP),
    "int": (p.WIRE_INT, p.KEEP),
    "long": (p.WIRE_LONG, p.KEEP),
    "float": (p.WIRE_FLOAT, p.KEEP),
    "double": (p.WIRE_DOUBLE, p.KEEP),
    "string": (p.WIRE_BYTES, p.TEXT),
    "bytes": (p.WIRE_BYTES, p.RAW),
}


def rewriting(schema: Schema) -> p.Program:
    """The program of a schema."""
    compiler = _Compiler()
    compiler.value(schema)
    compiler.settle()
    compiler.steps.add(p.END, "")
    return compiler.steps.program()


def label(schema: Schema) -> str:
    """What the JSON of a union calls one of its types."""
    return schema.name if isinstance(schema, Record | Enum | Fixed) else kind_name(schema)


class _Compiler:
    def __init__(self) -> None:
        self.steps = p.Steps()
        self.text = ""

    def settle(self) -> None:
        """Make a step of the text that is due, so that one can be pointed at behind it."""
        if self.text:
            data = self.text.encode()
            self.steps.add(p.CONSTANT, "", a=self.steps.keep(data), b=len(data))
            self.text = ""

    def add(self, step: int, *, wire: int = 0, convert: int = 0, a: int = 0, b: int = 0, next: int = 0) -> int:
        self.settle()
        return self.steps.add(step, "", wire=wire, convert=convert, a=a, b=b, next=next)

    def value(self, schema: Schema) -> None:
        match schema:
            case Primitive(type=kind):
                wire, convert = _WIRES[kind]
                self.add(p.VALUE, wire=wire, convert=convert)
            case Record(fields=fields):
                mark = "{"
                for field in fields:
                    self.text += f"{mark}{quote_in_bytes(field.name)}:"
                    self.value(field.type)
                    mark = ","
                self.text += "}" if fields else "{}"
            case Union(branches=branches):
                self._union(branches)
            case Array(items=items):
                self._list("[", items, is_map=False)
            case Map(values=values):
                self._list("{", values, is_map=True)
            case Enum(symbols=symbols):
                encoded = [quote_in_bytes(symbol).encode() for symbol in symbols]
                places = [(self.steps.keep(symbol), len(symbol)) for symbol in encoded]
                table = self.steps.look_up(each for place in places for each in place)
                self.add(p.VALUE, wire=p.WIRE_ENUM, convert=p.SYMBOL, a=len(encoded), b=table)
            case Fixed(size=size):
                self.add(p.VALUE, wire=p.WIRE_FIXED, convert=p.RAW, b=size)

    def _union(self, branches: tuple[Schema, ...]) -> None:
        table = self.steps.look_up([0] * len(branches))
        self.add(p.UNION, a=len(branches), b=table)
        ends = []
        for index, branch in enumerate(branches):
            self.steps.table[table + index] = len(self.steps.steps)
            if branch == Primitive("null"):
                self.value(branch)
            else:
                self.text += f"{{{quote_in_bytes(label(branch))}:"
                self.settle()  # by which a loop tells the branches apart
                self.value(branch)
                self.text += "}"
            ends.append(self.add(p.JUMP))
        for end in ends:
            self.steps.point(end)

    def _list(self, bracket: str, items: Schema, *, is_map: bool) -> None:
        begin = self.add(p.LIST, a=ord(bracket))
        if is_map:
            self.value(Primitive("string"))
            self.text += ":"
        self.value(items)
        self.settle()
        self.steps.point(begin)
        self.add(p.BLOCK, a=ord(bracket) + 2, next=begin + 1)
