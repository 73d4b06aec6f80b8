"""The columns of a table that come from its messages: from values and, if they are read, from keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schemas import widen_type
from penstock.spi import Decoded, Decoder, SeenColumns, TableReader
from penstock.types import Field, RowType, arrow_schema

#: The columns of the scan that gives messages as they are.
KEY, VALUE = "__raw_key__", "value"


@dataclass(frozen=True)
class MessageColumns:
    """Reads values by ``reader``, and keys by ``keys``, if they are read. The names of columns begin with a prefix for
    each, which may be empty. Where both have a column, the value's counts."""

    reader: TableReader
    value_prefix: str = ""
    keys: TableReader | None = None
    key_prefix: str = ""

    def survey(self, rows: pa.RecordBatch, known: RowType) -> SeenColumns:
        """The columns that messages of one table show."""
        seen = self._survey_part(self.reader, rows.column(VALUE), self.value_prefix, known, self._of_values(known))
        if self.keys is None:
            return seen
        of_keys = self._survey_part(self.keys, rows.column(KEY), self.key_prefix, known, self._of_keys(known))
        found = {each.name: each for each in of_keys.row.fields}
        for each in seen.row.fields:
            both = found.get(each.name)
            found[each.name] = each if both is None else replace(each, type=widen_type(both.type, each.type))
        order = [*known.names, *(name for name in found if known.field(name) is None)]
        firsts = dict(of_keys.firsts)
        for name, at in seen.firsts.items():
            firsts[name] = min(at, firsts.get(name, at))
        return replace(seen, row=RowType(tuple(found[name] for name in order), nullable=False), firsts=firsts)

    @staticmethod
    def _survey_part(
        reader: TableReader, messages: pa.Array, prefix: str, known: RowType, own: Iterable[Field]
    ) -> SeenColumns:
        """The known columns of a table, and those that the keys or the values of messages show."""
        given = tuple(replace(each, name=each.name.removeprefix(prefix)) for each in own)
        seen = reader.survey(messages, RowType(given, nullable=False))
        named = {prefix + each.name: replace(each, name=prefix + each.name) for each in seen.row.fields}
        kept = [named.pop(each.name, each) for each in known.fields]
        firsts = {prefix + name: at for name, at in seen.firsts.items()}
        key = tuple(prefix + name for name in seen.primary_key)
        return SeenColumns(RowType((*kept, *named.values()), nullable=False), firsts, key)

    def open(self, row: RowType) -> MessageDecoder:
        """A decoder for messages of a table with these columns."""
        values, keys = tuple(self._of_values(row)), tuple(self._of_keys(row)) if self.keys is not None else ()
        return MessageDecoder(
            row,
            _strip(values, self.value_prefix),
            self.reader.decoder(RowType(tuple(_strip(values, self.value_prefix).values()), nullable=False)),
            _strip(keys, self.key_prefix),
            None
            if self.keys is None
            else self.keys.decoder(RowType(tuple(_strip(keys, self.key_prefix).values()), nullable=False)),
        )

    def _of_values(self, row: RowType) -> Iterable[Field]:
        """The columns that values may have."""
        alone = self.keys is None or not self.key_prefix
        return (
            each
            for each in row.fields
            if each.name.startswith(self.value_prefix) and (alone or not each.name.startswith(self.key_prefix))
        )

    def _of_keys(self, row: RowType) -> Iterable[Field]:
        """The columns that keys may have."""
        return (
            each
            for each in row.fields
            if each.name.startswith(self.key_prefix)
            and not (self.value_prefix and each.name.startswith(self.value_prefix))
        )


def _strip(fields: Iterable[Field], prefix: str) -> dict[str, Field]:
    """Fields without a prefix, by their names with it."""
    return {each.name: replace(each, name=each.name.removeprefix(prefix)) for each in fields}


@dataclass(frozen=True)
class MessageDecoder:
    """Decodes the messages of one table into the columns of ``row``. ``values`` and ``keys`` are the fields of messages
    by the names of their columns."""

    row: RowType
    values: Mapping[str, Field]
    value: Decoder
    keys: Mapping[str, Field]
    key: Decoder | None

    def decode(self, rows: pa.RecordBatch) -> Decoded:
        """The rows of messages, one or several each. ``bad`` are those whose value or key cannot be read."""
        decoded = self.value.decode(rows.column(VALUE))
        columns = {name: decoded.rows.column(field.name) for name, field in self.values.items()}
        bad = decoded.bad
        if self.key is not None:
            found = self.key.decode(rows.column(KEY))
            at = np.full(rows.num_rows, -1, np.int64)
            at[np.arange(found.rows.num_rows) if found.origin is None else found.origin] = np.arange(
                found.rows.num_rows
            )
            origin = np.arange(rows.num_rows) if decoded.origin is None else decoded.origin
            index = pa.array(at[origin], mask=at[origin] < 0)
            for name, field in self.keys.items():
                taken = found.rows.column(field.name).take(index)
                columns[name] = pc.coalesce(columns[name], taken) if name in columns else taken
            bad = tuple(sorted((*bad, *found.bad), key=lambda each: each.index))
        count = decoded.rows.num_rows
        schema = arrow_schema(self.row)
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in schema]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else decoded.rows
        if len(bad) == len(decoded.bad):
            return replace(decoded, rows=made)
        origin = np.arange(rows.num_rows) if decoded.origin is None else decoded.origin
        kept = ~np.isin(origin, [each.index for each in bad])
        kinds = None if decoded.kinds is None else decoded.kinds[kept]
        return Decoded(made.filter(pa.array(kept)), origin[kept], kinds, bad)
