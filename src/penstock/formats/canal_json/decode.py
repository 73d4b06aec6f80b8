"""``canal-json`` messages to rows with row kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.canal_json.filters import Include, make_filters
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.changes.decode import DELETE, INSERT, NO_CHANGE, UPDATE, DecodedChanges, Images, read_operations
from penstock.formats.changes.envelopes import Envelopes, Faults, Mask, always, is_null
from penstock.formats.changes.metadata import MILLISECONDS, Metadata, epoch_reader, read_unchanged
from penstock.formats.changes.overlay import OverlayDecoder
from penstock.spi import BadRecord
from penstock.types import BIGINT, INT, STRING, ArrayType, Field, MapType, RowType

_TEXTS = ArrayType(element=STRING)
_CODES = MapType(key=STRING, value=INT)

#: The metadata columns, by key.
METADATA = {
    "database": Metadata(STRING, Field("database", STRING), read_unchanged),
    "table": Metadata(STRING, Field("table", STRING), read_unchanged),
    "sql-type": Metadata(_CODES, Field("sqlType", _CODES), read_unchanged),
    "pk-names": Metadata(_TEXTS, Field("pkNames", _TEXTS), read_unchanged),
    "ingestion-timestamp": Metadata(MILLISECONDS, Field("ts", BIGINT), epoch_reader(1000)),
    "event-timestamp": Metadata(MILLISECONDS, Field("es", BIGINT), epoch_reader(1000)),
}


@dataclass(frozen=True)
class _Lists:
    """An array of rows in each envelope: its size, and the index of its first row in ``rows``."""

    rows: pa.StructArray
    sizes: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    @classmethod
    def from_column(cls, column: pa.ListArray) -> _Lists:
        offsets = column.offsets.to_numpy().astype(np.int64)
        return cls(column.values, np.where(is_null(column), 0, np.diff(offsets)), offsets[:-1])


class CanalJsonDecoder(OverlayDecoder[CanalJsonOptions]):
    """Decodes messages of Canal: the arrays ``data`` and ``old``, and ``type``, which is INSERT, UPDATE or DELETE.

    CREATE, which Canal writes when a table is created, gives no rows.
    """

    known: ClassVar[Mapping[str, Metadata]] = METADATA
    operations: ClassVar[Mapping[str, int]] = {
        "INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE, "CREATE": NO_CHANGE,
    }  # fmt: skip

    def _envelope(self) -> RowType:
        rows = ArrayType(element=self.schema)
        return RowType((Field("data", rows), Field("old", rows), Field("type", STRING), *self._metadata_fields()))

    @cached_property
    def _filters(self) -> tuple[Include, ...]:
        return make_filters(self.options)

    def _select_messages(
        self, messages: pa.BinaryArray
    ) -> tuple[pa.BinaryArray, npt.NDArray[np.int64], list[BadRecord]]:
        messages, indices, refused = super()._select_messages(messages)
        for each in self._filters:
            chosen, bad = each.select(messages)
            refused += [BadRecord(int(indices[one.index]), one.reason, one.field) for one in bad]
            messages, indices = messages.take(pa.array(chosen)), indices[chosen]
        return messages, indices, refused

    def _changes(self, envelopes: Envelopes, faults: Faults, messages: pa.BinaryArray) -> DecodedChanges:
        action = read_operations(self.operations, envelopes.columns["type"], "type", faults)
        data, old = _Lists.from_column(envelopes.columns["data"]), _Lists.from_column(envelopes.columns["old"])
        absent = (action != NO_CHANGE) & is_null(envelopes.columns["data"])
        faults.add(absent, always("data", "the field is missing or null; expected an array of rows"))
        sizes = np.where((action == NO_CHANGE) | faults.is_faulty, 0, data.sizes)
        envelope = np.repeat(np.arange(len(envelopes)), sizes)
        item = np.arange(len(envelope)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        after = Images(data.rows, data.starts[envelope] + item)
        update = action[envelope] == UPDATE
        paired = update & (item < old.sizes[envelope])
        before = Images(old.rows, np.where(paired, old.starts[envelope] + item, -1))
        wrong = Faults(len(envelope))
        _add_faults(wrong, before, after, update, item)
        missing = self._lacking(paired & ~wrong.is_faulty, envelope, item, envelopes, messages)
        return DecodedChanges(action[envelope], envelope, before, after, after, wrong, missing)


def _add_faults(wrong: Faults, before: Images, after: Images, update: Mask, item: npt.NDArray[np.int64]) -> None:
    """Add a fault for each change that lacks a row."""
    gone = is_null(after.rows)[after.at]
    wrong.add(gone, lambda index: (f"data[{item[index]}]", "expected a row, not null"))
    unpaired = update & (before.at < 0)
    wrong.add(unpaired, lambda index: (f"old[{item[index]}]", "missing in an update; expected one per row of data"))
    if len(before.rows):
        empty = update & is_null(before.rows)[before.at]
        wrong.add(empty, lambda index: (f"old[{item[index]}]", "expected former values of changed columns, not null"))
