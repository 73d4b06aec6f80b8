"""Avro data in another form, record by record, by the library fastavro: the exact path beside the compiled loops.

Logical types are taken off the schema first, so that values keep all their bits.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import fastavro

from penstock.formats.avro.schema import Schema, document_of
from penstock.formats.refusals import Malformed

__all__ = ["Transcoder"]

#: What fastavro, and Python's modules below it, raise for data that is no Avro.
_FAULTS = (ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Transcoder:
    """Rewrites data of one schema."""

    schema: Schema

    @cached_property
    def _plain(self) -> Any:
        return fastavro.parse_schema(_without_logical(document_of(self.schema)))

    @cached_property
    def _told_apart(self) -> Any:
        return fastavro.parse_schema(_without_logical(_branches_told_apart(document_of(self.schema))))

    def normal(self, data: bytes) -> bytes:
        """The same data with every key of a map once, the last of its values. Raises Malformed.

        Flink's maps have a key once, and the last value is the one that stays.
        """
        try:
            value = fastavro.schemaless_reader(io.BytesIO(data), self._told_apart, None, return_record_name=True)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._told_apart, value)
        except _FAULTS as error:
            raise Malformed(f"not what the Avro schema says: {error}") from error
        return out.getvalue()

    def json_of(self, data: bytes) -> bytes:
        """Data in the binary encoding as Avro's JSON, on one line without spaces, as Avro's Java library writes it."""
        value = fastavro.schemaless_reader(io.BytesIO(data), self._plain, None)
        out = io.StringIO()
        fastavro.json_writer(out, self._plain, [value])
        return json.dumps(json.loads(out.getvalue()), ensure_ascii=False, separators=(",", ":")).encode()

    def binary_of(self, text: bytes) -> bytes:
        """Avro's JSON as data in the binary encoding. Raises Malformed."""
        try:
            document, _ = json.JSONDecoder().raw_decode(text.decode().lstrip(" \t\r\n"))
            value = next(iter(fastavro.json_reader(io.StringIO(json.dumps(document)), self._plain)))
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._plain, value)
        except StopIteration:
            raise Malformed("the message has no content") from None
        except (*_FAULTS, RecursionError) as error:
            raise Malformed(f"not what the Avro schema says: {error}") from error
        return out.getvalue()


def _without_logical(document: Any) -> Any:
    """A schema without logical types, whose values are those that are encoded."""
    if isinstance(document, list):
        return [_without_logical(each) for each in document]
    if not isinstance(document, dict):
        return document
    dropped = ("logicalType", "precision", "scale")
    return {
        key: _without_logical(value) if key in ("type", "items", "values", "fields") else value
        for key, value in document.items()
        if key not in dropped
    }


def _branches_told_apart(document: Any) -> Any:
    """A schema of the same encoding in which each type of a union is a record of one field, so that it has a name."""
    names = count()

    def part(node: Any) -> Any:
        if isinstance(node, list):
            return [
                each
                if each == "null"
                else {
                    "type": "record",
                    "name": f"branch_{next(names)}",
                    "fields": [{"name": "value", "type": part(each)}],
                }
                for each in node
            ]
        if not isinstance(node, dict):
            return node
        return {
            key: part(value)
            if key in ("items", "values") or (key == "type" and isinstance(value, dict | list))
            else [part(each) for each in value]
            if key == "fields"
            else value
            for key, value in node.items()
            if key != "default"
        }

    return part(document)
