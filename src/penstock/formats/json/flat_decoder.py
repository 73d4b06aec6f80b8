"""Columns with dotted names, which are fields of nested objects."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.options import JsonOptions
from penstock.formats.shared.codec import TableCodec
from penstock.spi import Decoded
from penstock.types import DataType, Field, RowType, arrow_schema


class FlatDecoder(TableCodec[JsonOptions]):
    """Decodes JSON objects into columns: ``a.b`` is the field ``b`` of the object ``a``, or the field with that whole
    name. Where ``a`` is a column too, it has the text of the whole object, and ``a.b`` is NULL."""

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_parse_errors

    @cached_property
    def _nested(self) -> JsonDecoder:
        return JsonDecoder(_nest(self.schema), self.options)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """As :meth:`JsonDecoder.decode`."""
        found = self._nested.decode(messages)
        schema = arrow_schema(self.schema)
        columns = [_take(found.rows, each) for each in schema]
        return replace(found, rows=pa.RecordBatch.from_arrays(columns, schema=schema))


def _nest(row: RowType) -> RowType:
    """The row of the objects that have these columns."""
    tree: dict[str, object] = {}
    whole = set(row.names)
    for each in row.fields:
        *path, name = each.name.split(".")
        if any(".".join(path[: size + 1]) in whole for size in range(len(path))):
            continue  # part of a text
        at = tree
        for step in path:
            at = at.setdefault(step, {})  # type: ignore[assignment]
        at[name] = each.type
        if path:
            tree[each.name] = each.type
    return _to_row(tree)


def _to_row(tree: dict[str, object]) -> RowType:
    fields = []
    for name, below in tree.items():
        fields.append(Field(name, below if isinstance(below, DataType) else _to_row(below)))  # type: ignore[arg-type]
    return RowType(tuple(fields))


def _take(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """The values of a column: of the field with its whole name, or of the one at its path."""
    at = rows.schema.get_field_index(field.name)
    if "." not in field.name:
        return rows.column(at)
    if at < 0:
        return pa.nulls(rows.num_rows, field.type)
    first, *path = field.name.split(".")
    found = rows.column(first)
    for name in path:
        found = pc.struct_field(found, name)
    return pc.coalesce(rows.column(at), found)
