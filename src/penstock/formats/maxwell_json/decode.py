"""``maxwell-json`` messages to rows with row kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.formats.changes.decode import DELETE, INSERT, NO_CHANGE, UPDATE, DecodedChanges, Images, read_operations
from penstock.formats.changes.envelopes import Envelopes, Faults, always, is_null
from penstock.formats.changes.metadata import MILLISECONDS, Metadata, epoch_reader, read_unchanged
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.changes.overlay import OverlayDecoder
from penstock.types import BIGINT, STRING, ArrayType, Field, RowType

_OPERATIONS = {"insert": INSERT, "update": UPDATE, "delete": DELETE}
_TEXTS = ArrayType(element=STRING)

#: The metadata columns, by key.
METADATA = {
    "database": Metadata(STRING, Field("database", STRING), read_unchanged),
    "table": Metadata(STRING, Field("table", STRING), read_unchanged),
    "primary-key-columns": Metadata(_TEXTS, Field("primary_key_columns", _TEXTS), read_unchanged),
    "ingestion-timestamp": Metadata(MILLISECONDS, Field("ts", BIGINT), epoch_reader(1_000_000)),
}


class MaxwellJsonDecoder(OverlayDecoder[ChangeOptions]):
    """Decodes messages of Maxwell's daemon: ``data``, ``old`` and ``type``, which is insert, update or delete."""

    known: ClassVar[Mapping[str, Metadata]] = METADATA

    def _envelope(self) -> RowType:
        images = (Field("data", self.schema), Field("old", self.schema), Field("type", STRING))
        return RowType((*images, *self._metadata_fields()))

    def _changes(self, envelopes: Envelopes, faults: Faults, messages: pa.BinaryArray) -> DecodedChanges:
        data, old = envelopes.columns["data"], envelopes.columns["old"]
        action = read_operations(_OPERATIONS, envelopes.columns["type"], "type", faults)
        faults.add(
            (action != NO_CHANGE) & is_null(data), always("data", "the field is missing or null; expected a row")
        )
        faults.add(
            (action == UPDATE) & is_null(old),
            always("old", "the field is missing or null in an update; expected former values of changed columns"),
        )
        every = np.arange(len(envelopes))
        after = Images(data, every)
        updates = (action == UPDATE) & ~faults.is_faulty
        missing = self._lacking(updates, every, np.zeros_like(every), envelopes, messages)
        return DecodedChanges(action, every, Images(old, every), after, after, faults, missing)
