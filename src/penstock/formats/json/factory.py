"""One JSON object per message, by Flink's rules."""

from __future__ import annotations

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.options import JsonOptions
from penstock.formats.shared.codec import RowFormat

FORMAT = RowFormat("json", JsonOptions, JsonDecoder, JsonEncoder, by_name=True, doc=__doc__)
