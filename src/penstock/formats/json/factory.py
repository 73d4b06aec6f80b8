"""One JSON object per message, by Flink's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.inference_options import JsonInferenceOptions
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.table_reader import JsonTableReader
from penstock.formats.shared.codec import RowFormat
from penstock.options import OptionSet


@dataclass(frozen=True)
class JsonFormat(RowFormat):
    """The format ``json``."""

    inference: ClassVar[type[OptionSet]] = JsonInferenceOptions

    def table_reader(self, options: OptionSet, inference: OptionSet) -> JsonTableReader:
        """The reader for messages of tables whose columns are inferred."""
        return JsonTableReader(JsonOptions.expect(options), JsonInferenceOptions.expect(inference))


FORMAT = JsonFormat("json", JsonOptions, JsonDecoder, JsonEncoder, by_name=True, doc=__doc__)
