"""``debezium-avro-confluent`` messages to rows with row kinds."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import build_batch
from penstock.formats.avro_confluent.decode import AvroConfluentDecoder
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.changes.decode import collect_refusals, flatten_changes, read_image_changes
from penstock.formats.changes.envelopes import Envelopes, Faults
from penstock.formats.debezium_json.decode import OPERATIONS
from penstock.formats.shared.codec import TableCodec
from penstock.spi import Decoded
from penstock.types import STRING, Field, RowType, arrow_schema


def build_envelope_type(schema: RowType) -> RowType:
    """The fields of a message that are read and written. Debezium writes others too: the source and the time."""
    image = schema.with_nullability(True)
    return RowType((Field("before", image), Field("after", image), Field("op", STRING)), nullable=False)


class DebeziumAvroConfluentDecoder(TableCodec[AvroConfluentOptions]):
    """Decodes one change per message: a record with ``before``, ``after`` and ``op``, after the id of its schema. A
    message that is null or empty gives no row.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema.
    """

    def _check(self) -> None:
        _ = self._records

    @cached_property
    def _records(self) -> AvroConfluentDecoder:
        return AvroConfluentDecoder(build_envelope_type(self.schema), self.options)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages, which may have different schemas. ``bad`` lists the refused messages.

        Raises SchemaRegistryError if the registry refuses the request or cannot be reached, because the messages are
        not at fault.
        """
        empty = pc.equal(pc.binary_length(messages), 0).fill_null(False)
        read = self._records.decode(pc.if_else(empty, pa.scalar(None, messages.type), messages))
        columns = dict(zip(read.rows.schema.names, read.rows.columns, strict=True))
        message = np.arange(read.rows.num_rows) if read.origin is None else read.origin
        envelopes, faults = Envelopes(columns, message, read.bad), Faults(len(message))
        changes = read_image_changes(columns, OPERATIONS, "op", str, faults)
        found, kinds, change = flatten_changes(changes, ~faults.is_faulty)
        bad = sorted((*read.bad, *collect_refusals(envelopes, faults, changes)), key=lambda each: each.index)
        return Decoded(build_batch(found, arrow_schema(self.schema), len(change)), message[change], kinds, tuple(bad))
