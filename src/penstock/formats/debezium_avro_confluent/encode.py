"""Rows with row kinds to ``debezium-avro-confluent`` messages."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.avro_confluent.encode import AvroConfluentEncoder
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.debezium_avro_confluent.decode import build_envelope_type
from penstock.formats.shared.codec import TableCodec
from penstock.types import RowKind, arrow_schema


class DebeziumAvroConfluentEncoder(TableCodec[AvroConfluentOptions]):
    """Encodes rows of kind +I and +U as ``after`` with the ``op`` c, and -U and -D as ``before`` with d. As in Flink,
    no message is an update.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema, and OptionsError without a
    subject.
    """

    def _check(self) -> None:
        _ = self._records

    @cached_property
    def _records(self) -> AvroConfluentEncoder:
        return AvroConfluentEncoder(build_envelope_type(self.schema), self.options)

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """One message per row.

        Raises RecordError for a row that the schema cannot hold, with its index, and SchemaRegistryError if the
        registry refuses the schema or cannot be reached.
        """
        came = np.ones(rows.num_rows, bool)
        if kinds is not None:
            came = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
        schema = arrow_schema(self._records.schema)
        fields = list(schema.field("after").type)
        before, after = (
            pa.StructArray.from_arrays(rows.columns, fields=fields, mask=pa.array(null)) for null in (came, ~came)
        )
        operation = pc.if_else(pa.array(came), "c", "d")
        return self._records.encode(pa.RecordBatch.from_arrays([before, after, operation], schema=schema))
