"""The columns that ``--schema`` declares: what a format reads and writes of them, and how rows of them are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from penstock.connectors.kafka.table.metadata import OF_VALUE
from penstock.errors import Problem
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.options import JsonOptions
from penstock.options import nearest
from penstock.spi import ChangeFormat, Column, ColumnKind, Format
from penstock.sql import columns
from penstock.types import STRING, ArrayType, DataType, Field, MapType, RowType, StringType

_ORIGIN = "--schema"


@dataclass(frozen=True)
class Columns:
    """Columns in the order of their declaration: of rows, and metadata that is read beside them."""

    declared: tuple[Column, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Columns:
        """Columns as they stand in CREATE TABLE. Raises DefinitionError with every problem found."""
        return cls(columns(text, origin=_ORIGIN))

    @cached_property
    def physical(self) -> RowType:
        """What rows consist of."""
        fields = (Field(each.name, each.type) for each in self.declared if each.kind is ColumnKind.PHYSICAL)
        return RowType(tuple(fields), nullable=False)

    @property
    def metadata(self) -> tuple[str, ...]:
        """The keys of the metadata columns by which formats know them."""
        found = (each.key for each in self.declared if each.kind is ColumnKind.METADATA)
        return tuple(key.removeprefix(OF_VALUE) for key in found)

    def problems(self, fmt: Format) -> Iterator[Problem]:
        """The columns that ``fmt`` has nothing for."""
        known = _known(fmt)
        for each in self.declared:
            if each.kind is ColumnKind.COMPUTED:
                yield Problem("a computed column is not in messages", each.name, _ORIGIN, "leave it out")
            elif each.kind is ColumnKind.METADATA and each.key not in known:
                hint = nearest(each.key, known) or (f"known are {', '.join(known)}" if known else "leave it out")
                yield Problem(f"{fmt.identifier} messages have no metadata '{each.key}'", each.name, _ORIGIN, hint)

    def shower(self, fmt: Format) -> Callable[[pa.RecordBatch], list[bytes]]:
        """Shows rows that ``fmt`` decoded, metadata behind the columns of the row, as JSON with all columns in their
        order.

        Metadata is shown as the format gives it, before it is cast to the type of the column.
        """
        known = _known(fmt)
        decoded = sorted(self.declared, key=lambda each: each.kind is ColumnKind.METADATA)
        order = [decoded.index(each) for each in self.declared]
        kinds = [known.get(each.key, each.type) for each in self.declared]
        names = [each.name for each in self.declared]
        shown = RowType(tuple(Field(name, _shown(kind)) for name, kind in zip(names, kinds, strict=True)))
        encoder = JsonEncoder(shown, JsonOptions(decimal_as_plain_number=True))

        def show(rows: pa.RecordBatch) -> list[bytes]:
            batch = pa.RecordBatch.from_arrays([rows.column(place) for place in order], names=names)
            texts: list[bytes] = encoder.encode(batch).to_pylist()
            return texts

        return show


def _known(fmt: Format) -> Mapping[str, DataType]:
    """The types of a format's metadata, by the keys of columns."""
    return {OF_VALUE + key: kind for key, kind in fmt.metadata.items()} if isinstance(fmt, ChangeFormat) else {}


def _shown(kind: DataType) -> DataType:
    """The type with text for the keys of maps, which JSON has alone."""
    match kind:
        case MapType(key=key, value=value):
            return replace(kind, key=key if isinstance(key, StringType) else STRING, value=_shown(value))
        case ArrayType(element=element):
            return replace(kind, element=_shown(element))
        case RowType(fields=fields):
            return replace(kind, fields=tuple(replace(each, type=_shown(each.type)) for each in fields))
    return kind
