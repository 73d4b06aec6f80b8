"""Changes as Debezium writes them in Avro, after the id of their schema in a schema registry, by Flink's rules. The
options are the same as with ``avro-confluent``; the schema is the whole message's, with ``before``, ``after`` and
``op``. There are no columns of metadata, as in Flink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.changes.metadata import Metadata, check_keys
from penstock.formats.debezium_avro_confluent.decode import DebeziumAvroConfluentDecoder
from penstock.formats.debezium_avro_confluent.encode import DebeziumAvroConfluentEncoder
from penstock.options import OptionSet
from penstock.types import DataType, RowType

_NO_METADATA: Mapping[str, Metadata] = {}


@dataclass(frozen=True)
class DebeziumAvroConfluentFormat:
    """A format of changes that keeps the schemas of its messages in a schema registry."""

    identifier: str
    doc: str | None

    options: ClassVar[type[AvroConfluentOptions]] = AvroConfluentOptions
    by_name: ClassVar[bool] = True
    subject_option: ClassVar[str] = "subject"
    metadata: ClassVar[Mapping[str, DataType]] = {}

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)

    def decoder(
        self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()
    ) -> DebeziumAvroConfluentDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for columns that Avro cannot hold, and for metadata."""
        check_keys(metadata, _NO_METADATA, self.identifier)
        return DebeziumAvroConfluentDecoder(schema, self.options.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> DebeziumAvroConfluentEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for columns that Avro cannot hold, and
        OptionsError without a subject."""
        return DebeziumAvroConfluentEncoder(schema, self.options.expect(options))


FORMAT = DebeziumAvroConfluentFormat("debezium-avro-confluent", __doc__)
