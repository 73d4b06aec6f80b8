"""Avro schemas as frozen values: from JSON and back, by the specification of Avro 1.12."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.errors import Problem, SchemaError

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        *(f"{zone}timestamp-{unit}" for zone in ("", "local-") for unit in ("millis", "micros", "nanos")),
    ),
    "string": ("uuid",),
}


@dataclass(frozen=True)
class Primitive:
    """A primitive type. ``logical`` is empty if it has no logical type, or one that does not fit it."""

    type: str
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Fixed:
    """A fixed number of bytes, under a full name."""

    name: str
    size: int
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Enum:
    """One of several symbols. ``default`` replaces symbols that a reader does not know."""

    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class Array:
    """Any number of items."""

    items: Schema


@dataclass(frozen=True)
class Map:
    """Any number of values under text keys."""

    values: Schema


@dataclass(frozen=True)
class Union:
    """One of several types."""

    branches: tuple[Schema, ...]


@dataclass(frozen=True)
class RecordField:
    """A field of a record. ``default`` is JSON text, or None."""

    name: str
    type: Schema
    default: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Fields under a full name."""

    name: str
    fields: tuple[RecordField, ...]
    aliases: tuple[str, ...] = ()


Schema: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | Record


def parse(text: str, references: Sequence[str] = ()) -> Schema:
    """The schema in a JSON document. Raises SchemaError with the path of the invalid part.

    ``references`` are the documents of schemas whose named types it may use; each comes after the schemas that it uses
    itself. Recursive schemas are refused: no column has such a type.
    """
    named: dict[str, Schema] = {}
    for each in references:
        _Parser(named, set()).parse(_parse_document(each), "", "")
    return _Parser(named, set()).parse(_parse_document(text), "", "")


def _parse_document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(f"an Avro schema must be a JSON document: {error}") from error


def _error(reason: str, path: str = "") -> SchemaError:
    return SchemaError((Problem(reason, path, "the Avro schema"),))


@dataclass
class _Parser:
    named: dict[str, Schema]
    open: set[str]

    def parse(self, node: Any, space: str, path: str) -> Schema:
        """The schema that a part of the document describes; ``space`` is the namespace around it."""
        if isinstance(node, str):
            return self._find_by_name(node, space, path)
        if isinstance(node, list):
            return self._parse_union(node, space, path)
        if not isinstance(node, dict):
            raise _error(f"expected a name, an object or an array, not {json.dumps(node)}", path)
        given = node.get("type")
        if isinstance(given, dict | list):
            return self.parse(given, space, path)
        match given:
            case "record" | "error":
                return self._parse_record(node, space, path)
            case "enum":
                return self._parse_enum(node, space, path)
            case "fixed":
                return self._parse_fixed(node, space, path)
            case "array":
                return Array(self.parse(self._take_part(node, "items", path), space, path))
            case "map":
                return Map(self.parse(self._take_part(node, "values", path), space, path))
            case str():
                found = self._find_by_name(given, space, path)
                return _add_logical_type(found, node) if isinstance(found, Primitive) else found
        raise _error("a schema needs a 'type'", path)

    def _find_by_name(self, name: str, space: str, path: str) -> Schema:
        if name in _PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.open:
            raise _error(f"'{full}' contains itself; recursive types are not supported", path)
        found = self.named.get(full, self.named.get(name))
        if found is None:
            raise _error(f"the type '{full}' is used, but not defined before", path)
        return found

    def _take_part(self, node: dict[str, Any], key: str, path: str) -> Any:
        if key not in node:
            raise _error(f"{node['type']} needs '{key}'", path)
        return node[key]

    def _parse_union(self, node: list[Any], space: str, path: str) -> Schema:
        branches = tuple(self.parse(each, space, path) for each in node)
        if not branches or any(isinstance(each, Union) for each in branches):
            raise _error("a union must have at least one type and must not contain a union", path)
        types = [getattr(each, "name", None) or type_name(each) for each in branches]
        if len(set(types)) < len(types):
            raise _error(f"a union must not have a type twice: {', '.join(types)}", path)
        return Union(branches)

    def _parse_names(self, node: dict[str, Any], space: str, path: str) -> tuple[str, str, tuple[str, ...]]:
        """Full name, namespace and full aliases of a named type."""
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise _error(f"{node['type']} needs a 'name'", path)
        space = name.rpartition(".")[0] if "." in name else str(node.get("namespace", space) or "")
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.named or full in self.open:
            raise _error(f"'{full}' is defined twice", path)
        aliases = tuple(
            each if "." in each or not space else f"{space}.{each}" for each in _read_texts(node, "aliases")
        )
        return full, space, aliases

    def _parse_record(self, node: dict[str, Any], space: str, path: str) -> Record:
        name, space, aliases = self._parse_names(node, space, path)
        given = self._take_part(node, "fields", path)
        if not isinstance(given, list):
            raise _error("'fields' must be an array", path)
        self.open.add(name)
        fields = tuple(self._parse_field(each, space, path) for each in given)
        self.open.discard(name)
        names = [each.name for each in fields]
        if len(set(names)) < len(names):
            raise _error(f"record '{name}' has a field twice", path)
        found = Record(name, fields, aliases)
        self.named[name] = found
        return found

    def _parse_field(self, node: Any, space: str, path: str) -> RecordField:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "type" not in node:
            raise _error("a field must be an object with 'name' and 'type'", path)
        inner = field_path(path, node["name"])
        default = json.dumps(node["default"]) if "default" in node else None
        return RecordField(node["name"], self.parse(node["type"], space, inner), default, _read_texts(node, "aliases"))

    def _parse_enum(self, node: dict[str, Any], space: str, path: str) -> Enum:
        name, _, aliases = self._parse_names(node, space, path)
        symbols = _read_texts(node, "symbols")
        default = node.get("default")
        if len(set(symbols)) < len(symbols):
            raise _error(f"enum '{name}' has a symbol twice", path)
        if default is not None and default not in symbols:
            raise _error(f"the default of enum '{name}' is not one of its symbols", path)
        self.named[name] = found = Enum(name, symbols, aliases, default)
        return found

    def _parse_fixed(self, node: dict[str, Any], space: str, path: str) -> Fixed:
        name, _, aliases = self._parse_names(node, space, path)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
            raise _error(f"fixed '{name}' needs a 'size'", path)
        precision, scale = _read_decimal(node)
        if precision and int.bit_length(10**precision - 1) < 8 * size:
            found = Fixed(name, size, aliases, "decimal", precision, scale)
        else:
            found = Fixed(name, size, aliases)
        self.named[name] = found
        return found


def _read_texts(node: dict[str, Any], key: str) -> tuple[str, ...]:
    found = node.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _error(f"'{key}' must be an array of names")
    return tuple(found)


def _read_decimal(node: dict[str, Any]) -> tuple[int, int]:
    """Precision and scale of a decimal, or (0, 0) if they are invalid: a logical type that does not fit is ignored."""
    precision, scale = node.get("precision"), node.get("scale", 0)
    if node.get("logicalType") != "decimal" or not isinstance(precision, int) or not isinstance(scale, int):
        return 0, 0
    return (precision, scale) if precision > 0 and 0 <= scale <= precision else (0, 0)


def _add_logical_type(plain: Primitive, node: dict[str, Any]) -> Primitive:
    logical = node.get("logicalType")
    if plain.type == "bytes":
        precision, scale = _read_decimal(node)
        return Primitive("bytes", "decimal", precision, scale) if precision else plain
    return Primitive(plain.type, str(logical)) if logical in _LOGICAL.get(plain.type, ()) else plain


def field_path(path: str, name: str) -> str:
    """The path of a field inside a record."""
    return f"{path}.{name}" if path else name


def type_name(schema: Schema) -> str:
    """The name of the type in the specification: ``int``, ``record``, ``map``."""
    return schema.type if isinstance(schema, Primitive) else type(schema).__name__.lower()


def describe_type(schema: Schema) -> str:
    """A type for an error: ``int (date)``, ``fixed 'id'``."""
    logical, name = getattr(schema, "logical", ""), getattr(schema, "name", "")
    if logical == "decimal":
        logical = f"decimal({getattr(schema, 'precision', 0)}, {getattr(schema, 'scale', 0)})"
    return type_name(schema) + (f" '{name.rpartition('.')[2]}'" if name else "") + (f" ({logical})" if logical else "")


def format_schema(schema: Schema) -> str:
    """The schema as JSON, in the form of Avro for Java: a named type is written in full at its first use."""
    return json.dumps(schema_document(schema), separators=(",", ":"), ensure_ascii=False)


def schema_document(schema: Schema, known: set[str] | None = None, space: str = "") -> Any:
    """The schema as a JSON document of names, objects and arrays. ``space`` is the enclosing namespace."""
    known = set() if known is None else known
    match schema:
        case Primitive(type=name, logical=logical):
            if not logical:
                return name
            sizes = {"precision": schema.precision, "scale": schema.scale} if logical == "decimal" else {}
            return {"type": name, "logicalType": logical, **sizes}
        case Array(items=items):
            return {"type": "array", "items": schema_document(items, known, space)}
        case Map(values=values):
            return {"type": "map", "values": schema_document(values, known, space)}
        case Union(branches=branches):
            return [schema_document(each, known, space) for each in branches]
    if schema.name in known:
        return schema.name
    known.add(schema.name)
    inner, _, short = schema.name.rpartition(".")
    named: dict[str, Any] = {"name": short}
    if inner != space:
        named["namespace"] = inner
    if schema.aliases:
        named["aliases"] = list(schema.aliases)
    match schema:
        case Fixed(size=size, logical=logical):
            sizes = {"precision": schema.precision, "scale": schema.scale} if logical else {}
            return {"type": "fixed", **named, "size": size, **({"logicalType": logical} if logical else {}), **sizes}
        case Enum(symbols=symbols, default=default):
            extra = {} if default is None else {"default": default}
            return {"type": "enum", **named, "symbols": list(symbols), **extra}
    return {"type": "record", **named, "fields": [_field_document(each, known, inner) for each in schema.fields]}


def _field_document(field: RecordField, known: set[str], space: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": field.name, "type": schema_document(field.type, known, space)}
    if field.aliases:
        found["aliases"] = list(field.aliases)
    if field.default is not None:
        found["default"] = json.loads(field.default)
    return found
