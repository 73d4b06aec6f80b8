"""A message is the value of the only column, by Flink's rules."""

from __future__ import annotations

from penstock.formats.raw.decode import RawDecoder
from penstock.formats.raw.encode import RawEncoder
from penstock.formats.raw.options import RawOptions
from penstock.formats.shared.codec import RowFormat

FORMAT = RowFormat("raw", RawOptions, RawDecoder, RawEncoder, by_name=False, doc=__doc__)
