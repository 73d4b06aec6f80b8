"""Normalizes Avro records one by one with the fastavro library, for records that the compiled loop leaves."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import fastavro

from penstock.exact.errors import Malformed
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union


@dataclass(frozen=True)
class Normalizer:
    """Normalizes data of one schema. Slow; for single records."""

    schema: Schema

    @cached_property
    def _fastavro_schema(self) -> Any:
        return fastavro.parse_schema(_build_document(self.schema, count()))

    def normal(self, data: bytes) -> bytes:
        """The same data with each key of a map once and with its last value, as in Flink. Raises Malformed."""
        try:
            value = fastavro.schemaless_reader(io.BytesIO(data), self._fastavro_schema, None, return_record_name=True)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._fastavro_schema, value)
        except Exception as error:  # fastavro raises any Python error on unexpected data
            raise Malformed(f"does not match the Avro schema: {error}") from error
        return out.getvalue()


def _build_document(schema: Schema, names: Iterator[int]) -> Any:
    """A schema with the same encoding, without logical types, so that values keep all their bits. Each type of a union
    is a record with one field, so that it has a name. ``names`` number the named types."""
    match schema:
        case Primitive(type=name):
            return name
        case Array(items=items):
            return {"type": "array", "items": _build_document(items, names)}
        case Map(values=values):
            return {"type": "map", "values": _build_document(values, names)}
        case Union(branches=branches):
            null = Primitive("null")
            return ["null" if each == null else _record([("value", each)], names) for each in branches]
        case Enum(symbols=symbols):
            return {"type": "enum", "name": f"n{next(names)}", "symbols": list(symbols)}
        case Fixed(size=size):
            return {"type": "fixed", "name": f"n{next(names)}", "size": size}
        case Record(fields=fields):
            return _record([(each.name, each.type) for each in fields], names)


def _record(fields: Iterable[tuple[str, Schema]], names: Iterator[int]) -> Any:
    parts = [{"name": name, "type": _build_document(inner, names)} for name, inner in fields]
    return {"type": "record", "name": f"n{next(names)}", "fields": parts}
