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
from fastavro.io.json_decoder import AvroJSONDecoder

from penstock.formats.avro.schema import Schema, document_of
from penstock.formats.refusals import Malformed

__all__ = ["Transcoder"]

_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


class _JsonDecoder(AvroJSONDecoder):
    """Takes the numbers that JSON does not have as the text that Avro's Java library writes for them."""

    def read_double(self) -> Any:
        return _number(super().read_double())  # type: ignore[no-untyped-call]

    def read_float(self) -> Any:
        return _number(super().read_float())  # type: ignore[no-untyped-call]


def _number(value: Any) -> Any:
    return float(value) if value in _NO_NUMBERS else value


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
        except Exception as error:  # fastavro raises what Python does on what it did not expect
            raise Malformed(f"not what the Avro schema says: {error}") from error
        return out.getvalue()

    def json_of(self, data: bytes) -> bytes:
        """Data in the binary encoding as Avro's JSON, on one line without spaces, as Avro's Java library writes it."""
        value = fastavro.schemaless_reader(io.BytesIO(data), self._plain, None)
        out = io.StringIO()
        fastavro.json_writer(out, self._plain, [value])
        document = json.loads(out.getvalue(), parse_constant=str)
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    def binary_of(self, text: bytes) -> bytes:
        """Avro's JSON as data in the binary encoding. Raises Malformed."""
        try:
            document, _ = json.JSONDecoder().raw_decode(text.decode().lstrip(" \t\r\n"))
            text_of_one = io.StringIO(json.dumps(document))
            value = next(iter(fastavro.json_reader(text_of_one, self._plain, decoder=_JsonDecoder)))
            fastavro.validate(value, self._plain)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._plain, value)
        except StopIteration:
            raise Malformed("the message has no content") from None
        except fastavro.validation.ValidationError as error:
            raise Malformed("; ".join(map(str, error.errors))) from error
        except Exception as error:  # as above
            raise Malformed(f"not what the Avro schema says: {error}") from error
        return out.getvalue()


def _without_logical(document: Any) -> Any:
    """A schema without logical types, whose values are those that are encoded, and without defaults: Avro's JSON has
    every field."""
    if isinstance(document, list):
        return [_without_logical(each) for each in document]
    if not isinstance(document, dict):
        return document
    dropped = ("logicalType", "precision", "scale", "default")
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
