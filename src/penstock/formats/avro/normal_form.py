"""Normalizes Avro records one by one with the fastavro library, for records that the compiled loop leaves."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import fastavro

from penstock.formats.avro.schema import Schema, document_of
from penstock.formats.exact.errors import Malformed


@dataclass(frozen=True)
class Normaliser:
    """Normalizes data of one schema. Slow; for single records."""

    schema: Schema

    @cached_property
    def _told_apart(self) -> Any:
        return fastavro.parse_schema(_without_logical(_branches_told_apart(document_of(self.schema))))

    def normal(self, data: bytes) -> bytes:
        """The same data with each key of a map once and with its last value, as in Flink. Raises Malformed."""
        try:
            value = fastavro.schemaless_reader(io.BytesIO(data), self._told_apart, None, return_record_name=True)
            out = io.BytesIO()
            fastavro.schemaless_writer(out, self._told_apart, value)
        except Exception as error:  # fastavro raises any Python error on unexpected data
            raise Malformed(f"does not match the Avro schema: {error}") from error
        return out.getvalue()


def _without_logical(document: Any) -> Any:
    """A schema without logical types, so that values keep all their bits."""
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
    """A schema with the same encoding in which each type of a union is a record with one field, and so has a name."""
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
