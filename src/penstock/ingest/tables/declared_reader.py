"""Messages of a format that shows no columns: they are declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.options import OptionSet
from penstock.spi import ChangeFormat, Decoder, MessageTables, SeenColumns, formats
from penstock.types import RowType


@dataclass(frozen=True)
class DeclaredReader:
    """Reads messages by the decoder of the format ``identifier``, which does not show what tables there are."""

    identifier: str
    options: OptionSet

    names_tables: ClassVar[bool] = False
    names_keys: ClassVar[bool] = False

    def open(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """The messages of a batch, as they are."""
        return values

    def find_tables(self, messages: pa.BinaryArray) -> MessageTables:
        """No tables."""
        return MessageTables((), np.full(len(messages), -1, np.int64))

    def survey(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The known columns."""
        return SeenColumns(known, {})

    def survey_values(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The known columns."""
        return self.survey(messages, known)

    def decoder(self, row: RowType, metadata: Sequence[str] = ()) -> Decoder:
        """A decoder for messages of a table with these columns. Raises SchemaError for a type that the format cannot
        read, and OptionsError for options that do not fit the columns."""
        found = formats.get(self.identifier)
        return (
            found.decoder(row, self.options, metadata)
            if isinstance(found, ChangeFormat)
            else found.decoder(row, self.options)
        )
