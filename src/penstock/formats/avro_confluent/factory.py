"""One Avro record per message, after the id of its schema in a schema registry."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.avro_confluent.decode import AvroConfluentDecoder
from penstock.formats.avro_confluent.encode import AvroConfluentEncoder
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.shared.codec import RowFormat


@dataclass(frozen=True)
class AvroConfluentFormat(RowFormat):
    """A format that keeps the schemas of its messages in a schema registry."""

    subject_option: str


FORMAT = AvroConfluentFormat(
    "avro-confluent",
    AvroConfluentOptions,
    AvroConfluentDecoder,
    AvroConfluentEncoder,
    by_name=True,
    doc=__doc__,
    subject_option="subject",
)
