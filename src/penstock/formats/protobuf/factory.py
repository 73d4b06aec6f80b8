"""One protobuf message per row, of a type that a file describes, by Flink's rules."""

from __future__ import annotations

from penstock.formats.protobuf.decode import ProtobufDecoder
from penstock.formats.protobuf.encode import ProtobufEncoder
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.formats.shared.codec import RowFormat

FORMAT = RowFormat("protobuf", ProtobufOptions, ProtobufDecoder, ProtobufEncoder, by_name=True, doc=__doc__)
