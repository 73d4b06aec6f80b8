"""The columns that ``--schema`` declares: whether a format has them, and how their rows are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from penstock.connectors.kafka.table.metadata import OF_VALUE
from penstock.errors import Problem, nearest
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.options import JsonOptions
from penstock.spi import ChangeFormat, Column, ColumnKind, Format
from penstock.sql import parse_table_columns
from penstock.types import STRING, ArrayType, DataType, Field, MapType, RowType, StringType

_ORIGIN = "--schema"


@dataclass(frozen=True)
class Columns:
    """Physical and metadata columns in the order of their declaration."""

    declared: tuple[Column, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Columns as CREATE TABLE declares them. Raises DefinitionError with every problem found."""
        return cls(parse_table_columns(text, origin=_ORIGIN))

    @cached_property
    def physical(self) -> RowType:
        """The columns of rows."""
        fields = (Field(each.name, each.type) for each in self.declared if each.kind is ColumnKind.PHYSICAL)
        return RowType(tuple(fields), nullable=False)

    @property
    def metadata(self) -> tuple[str, ...]:
        """The formats' keys of the metadata columns."""
        found = (each for each in self.declared if each.kind is ColumnKind.METADATA)
        return tuple(each.key.removeprefix(OF_VALUE) for each in found)

    def problems(self, fmt: Format) -> Iterator[Problem]:
        """The columns that messages of ``fmt`` do not have."""
        known = _metadata_types(fmt)
        for each in self.declared:
            if each.kind is ColumnKind.COMPUTED:
                yield Problem("a computed column is not in messages", each.name, _ORIGIN, "leave it out")
            elif each.kind is ColumnKind.METADATA and each.key not in known:
                hint = nearest(each.key, known) or (f"known are {', '.join(known)}" if known else "leave it out")
                yield Problem(f"{fmt.identifier} messages have no metadata '{each.key}'", each.name, _ORIGIN, hint)

    def json_writer(self, fmt: Format) -> Callable[[pa.RecordBatch], list[bytes]]:
        """A function that shows rows as JSON, all columns in their order. It takes rows that ``fmt`` decoded, with
        metadata behind the physical columns.

        Metadata is shown with the format's types, not cast to the types of the columns.
        """
        known = _metadata_types(fmt)
        decoded = sorted(self.declared, key=lambda each: each.kind is ColumnKind.METADATA)
        order = [decoded.index(each) for each in self.declared]
        names = [each.name for each in self.declared]
        shown = (Field(each.name, _type_in_json(known.get(each.key, each.type))) for each in self.declared)
        encoder = JsonEncoder(RowType(tuple(shown)), JsonOptions(decimal_as_plain_number=True))

        def show(rows: pa.RecordBatch) -> list[bytes]:
            batch = pa.RecordBatch.from_arrays([rows.column(index) for index in order], names=names)
            texts: list[bytes] = encoder.encode(batch).to_pylist()
            return texts

        return show


def _metadata_types(fmt: Format) -> Mapping[str, DataType]:
    """The types of a format's metadata, by the keys of columns."""
    return {OF_VALUE + key: kind for key, kind in fmt.metadata.items()} if isinstance(fmt, ChangeFormat) else {}


def _type_in_json(type: DataType) -> DataType:
    """The type with text for the keys of maps: JSON has no other keys."""
    match type:
        case MapType(key=key, value=value):
            return replace(type, key=key if isinstance(key, StringType) else STRING, value=_type_in_json(value))
        case ArrayType(element=element):
            return replace(type, element=_type_in_json(element))
        case RowType(fields=fields):
            return replace(type, fields=tuple(replace(each, type=_type_in_json(each.type)) for each in fields))
    return type
