"""The columns of a table that come from its messages: from values and, if they are read, from keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.ingest.tables.declared_reader import DeclaredReader
from penstock.ingest.transforms import METADATA
from penstock.schemas import widen_type
from penstock.spi import (
    BadRecord,
    Decoded,
    MessageDecoder,
    Messages,
    NotNull,
    SeenColumns,
    TableReader,
    missing_text,
    origin_of,
)
from penstock.types import Field, RowType, arrow_schema

#: The columns of the scan that gives messages as they are.
KEY, VALUE = "__raw_key__", "value"
#: What precedes the keys of metadata that the format of values reads, in the names of columns.
OF_VALUE = f"{METADATA}value."
_BEYOND = "the number is larger than any DOUBLE"


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Rows of the scan: those with the numbers ``index`` in ``every``, the rows of a batch, or all of them in their
    order (``whole``). ``values`` and ``keys`` are their messages as readers have opened them; ``keys`` is None if keys
    are not read."""

    every: pa.RecordBatch
    index: npt.NDArray[np.int64]
    values: Messages
    keys: Messages | None
    whole: bool = False

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: npt.NDArray[np.int64]) -> SourceRows:
        """Those with these numbers."""
        keys = None if self.keys is None else self.keys.take(index)
        return SourceRows(self.every, self.index[index], self.values.take(index), keys)

    def slice(self, start: int, end: int) -> SourceRows:
        """Those from one number to another."""
        return self.take(np.arange(start, end))

    def column(self, name: str) -> pa.Array:
        """A column of the rows."""
        column = self.every.column(name)
        return column if self.whole else column.take(pa.array(self.index))

    def value(self, row: int) -> bytes | None:
        """The message of a row."""
        value: bytes | None = self.every.column(VALUE)[int(self.index[row])].as_py()
        return value

    def origin(self, row: int) -> tuple[int, int]:
        """The number of the partition, and the offset, that a row came from."""
        return origin_of(self.every, int(self.index[row]))


@dataclass(frozen=True)
class BadKey(BadRecord):
    """A message whose key could not be decoded."""


@dataclass(frozen=True)
class MessageColumns:
    """Reads values by ``reader``, and keys by ``keys``, if they are read. The names of columns begin with a prefix for
    each, which may be empty. Where both have a column, the value's counts. ``key_fields`` are the columns of keys if
    they are named, in their order; ``values_have_keys`` says whether values have them too."""

    reader: TableReader[Any]
    value_prefix: str = ""
    keys: TableReader[Any] | None = None
    key_prefix: str = ""
    key_fields: tuple[str, ...] = ()
    values_have_keys: bool = True

    def open(self, rows: pa.RecordBatch) -> SourceRows:
        """The rows of a batch of the scan."""
        keys = None if self.keys is None else self.keys.open(rows.column(KEY))
        return SourceRows(rows, np.arange(rows.num_rows), self.reader.open(rows.column(VALUE)), keys, whole=True)

    def survey(self, rows: SourceRows, known: RowType, *, by_values: bool = False) -> SeenColumns:
        """The columns that messages of one table show; ``by_values``: whatever messages say of the types of columns."""
        survey = self.reader.survey_values if by_values else self.reader.survey
        seen = self._survey_part(survey, rows.values, self.value_prefix, known, self._of_values(known), self._has_value)
        if self.keys is None:
            return seen
        of_keys = self._survey_part(
            self.keys.survey, rows.keys, self.key_prefix, known, self._of_keys(known), self._has_key
        )
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
        survey: Callable[[Any, RowType], SeenColumns],
        messages: Any,
        prefix: str,
        known: RowType,
        own: Iterable[Field],
        has: Callable[[str], bool],
    ) -> SeenColumns:
        """The known columns of a table, and those that keys or values of messages show, if they can have them."""
        given = tuple(replace(each, name=each.name.removeprefix(prefix)) for each in own)
        seen = survey(messages, RowType(given, nullable=False))
        found = (replace(each, name=prefix + each.name) for each in seen.row.fields)
        named = {each.name: each for each in found if has(each.name)}
        kept = [named.pop(each.name, each) for each in known.fields]
        firsts = {prefix + name: at for name, at in seen.firsts.items() if has(prefix + name)}
        key = tuple(prefix + name for name in seen.primary_key)
        return SeenColumns(RowType((*kept, *named.values()), nullable=False), firsts, key)

    def _has_value(self, name: str) -> bool:
        """Whether a column may come from values."""
        return self.values_have_keys or name not in self.key_fields

    def _has_key(self, name: str) -> bool:
        """Whether a column may come from keys."""
        return not self.key_fields or name in self.key_fields

    def make_decoder(
        self, row: RowType, primary_key: tuple[str, ...] = (), metadata: tuple[Field, ...] = ()
    ) -> RowDecoder:
        """A decoder for messages of a table with these columns, followed by those of ``metadata`` that the format of
        values reads. Raises SchemaError for a type that a format cannot read."""
        keys_of_format = tuple(each.name.removeprefix(OF_VALUE) for each in metadata if each.name.startswith(OF_VALUE))
        values, keys = tuple(self._of_values(row)), tuple(self._of_keys(row)) if self.keys is not None else ()
        return RowDecoder(
            row,
            _strip(values, self.value_prefix),
            self.reader.decoder(
                RowType(tuple(_strip(values, self.value_prefix).values()), nullable=False), keys_of_format
            ),
            _strip(keys, self.key_prefix),
            None
            if self.keys is None
            else self.keys.decoder(RowType(tuple(_strip(keys, self.key_prefix).values()), nullable=False)),
            NotNull(row, primary_key),
            keys_of_format,
            keys_complete_values=not self.key_fields,
            has_infinity=isinstance(self.reader, DeclaredReader),
        )

    def _of_values(self, row: RowType) -> Iterable[Field]:
        """The columns that values may have."""
        if self.key_fields:
            return (each for each in row.fields if self._has_value(each.name))
        alone = self.keys is None or not self.key_prefix
        return (
            each
            for each in row.fields
            if each.name.startswith(self.value_prefix) and (alone or not each.name.startswith(self.key_prefix))
        )

    def _of_keys(self, row: RowType) -> Iterable[Field]:
        """The columns that keys may have."""
        if self.key_fields:
            return (each for name in self.key_fields if (each := row.field(name)) is not None)
        return (
            each
            for each in row.fields
            if each.name.startswith(self.key_prefix)
            and not (self.value_prefix and each.name.startswith(self.value_prefix))
        )


def _strip(fields: Iterable[Field], prefix: str) -> dict[str, Field]:
    """Fields without a prefix, by their names with it."""
    return {each.name: replace(each, name=each.name.removeprefix(prefix)) for each in fields}


def _find_infinite(rows: pa.RecordBatch) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """The columns with infinite numbers, and the rows with one."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_floating(column.type) and pc.any(found := pc.is_inf(column)).as_py():
            yield name, np.flatnonzero(found.fill_null(False).to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class RowDecoder:
    """Decodes the messages of one table into the columns of ``row``, followed by ``metadata``: keys of the format of
    values, which :data:`OF_VALUE` precedes in the names of columns. ``values`` and ``keys`` are the fields of messages
    by the names of their columns; with ``keys_complete_values`` a column that both have is that of the key where the
    value has none. ``bad`` are also messages without a value that ``not_null`` wants, and those with a number beyond
    the largest one, unless the format ``has_infinity``."""

    row: RowType
    values: Mapping[str, Field]
    value: MessageDecoder[Any]
    keys: Mapping[str, Field]
    key: MessageDecoder[Any] | None
    not_null: NotNull
    metadata: tuple[str, ...] = ()
    keys_complete_values: bool = True
    has_infinity: bool = False

    def decode(self, rows: SourceRows) -> Decoded:
        """The rows of messages, one or several each. ``bad`` are those whose value or key cannot be read."""
        decoded = self.value.decode(rows.values)
        columns = dict(zip(self.values, decoded.rows.columns, strict=False))
        bad = decoded.bad
        if self.key is not None:
            found = self.key.decode(rows.keys)
            at = np.full(len(rows), -1, np.int64)
            at[np.arange(found.rows.num_rows) if found.origin is None else found.origin] = np.arange(
                found.rows.num_rows
            )
            origin = np.arange(len(rows)) if decoded.origin is None else decoded.origin
            index = pa.array(at[origin], mask=at[origin] < 0)
            for name, field in self.keys.items():
                if name not in columns:
                    columns[name] = found.rows.column(field.name).take(index)
                elif self.keys_complete_values:
                    columns[name] = pc.coalesce(columns[name], found.rows.column(field.name).take(index))
            of_values = {each.index for each in bad}
            of_keys = (BadKey(**vars(each)) for each in found.bad if each.index not in of_values)
            bad = (*bad, *of_keys)
        count = decoded.rows.num_rows
        schema = arrow_schema(self.row)
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in schema]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else decoded.rows
        for key, column in zip(self.metadata, decoded.rows.columns[len(self.values) :], strict=True):
            made = made.append_column(OF_VALUE + key, column)
        missing = self.not_null.missing(dict(zip(made.schema.names, made.columns, strict=True)), decoded.kinds)
        infinite = [] if self.has_infinity else [*_find_infinite(made)]
        if len(bad) == len(decoded.bad) and not missing and not infinite:
            return replace(decoded, rows=made)
        origin = np.arange(len(rows)) if decoded.origin is None else decoded.origin
        refused = {each.index: each for each in bad}
        for name, rows_without in missing:
            for at in np.unique(origin[rows_without]).tolist():
                refused.setdefault(at, BadRecord(at, missing_text(self.row, name), name))
        for name, rows_beyond in infinite:
            for at in np.unique(origin[rows_beyond]).tolist():
                refused.setdefault(at, BadRecord(at, _BEYOND, name))
        kept = ~np.isin(origin, [*refused])
        kinds = None if decoded.kinds is None else decoded.kinds[kept]
        return Decoded(made.filter(pa.array(kept)), origin[kept], kinds, tuple(refused[at] for at in sorted(refused)))
