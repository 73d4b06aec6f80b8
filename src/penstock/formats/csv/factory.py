"""One line of CSV per message, by Flink's rules."""

from __future__ import annotations

from penstock.formats.csv.decode import CsvDecoder
from penstock.formats.csv.encode import CsvEncoder
from penstock.formats.csv.options import CsvOptions
from penstock.formats.shared.codec import RowFormat

FORMAT = RowFormat("csv", CsvOptions, CsvDecoder, CsvEncoder, by_name=False, doc=__doc__)
