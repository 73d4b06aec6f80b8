"""One Avro record per message, without its schema, by Flink's rules."""

from __future__ import annotations

from penstock.formats.avro.decode import AvroDecoder
from penstock.formats.avro.encode import AvroEncoder
from penstock.formats.avro.options import AvroOptions
from penstock.formats.shared.codec import RowFormat

FORMAT = RowFormat("avro", AvroOptions, AvroDecoder, AvroEncoder, by_name=False, doc=__doc__)
