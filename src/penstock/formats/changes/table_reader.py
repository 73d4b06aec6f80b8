"""Tables of messages with changes, which name their table, and whose columns are inferred."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from penstock.formats.changes.decode import ChangeDecoder
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.json.inference import InferenceRules
from penstock.formats.json.inference_options import InferenceOptions
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.survey import survey_spans
from penstock.formats.json.table_reader import build_columns, unfold_arrays
from penstock.formats.json.tables import TableFields
from penstock.spi import Decoder, MessageTables, SeenColumns
from penstock.types import RowType

_Options = TypeVar("_Options", bound=ChangeOptions)
_Inference = TypeVar("_Inference", bound=InferenceOptions)


@dataclass(frozen=True)
class ChangeTableReader(ABC, Generic[_Options, _Inference]):
    """Reads changes of the rows of tables."""

    options: _Options
    inference: _Inference

    #: What decodes the messages.
    reads: ClassVar[type[ChangeDecoder[Any]]]

    names_tables: ClassVar[bool] = True

    @property
    @abstractmethod
    def table_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that name a message's table."""

    @abstractmethod
    def find_rows(self, envelopes: TextSpans) -> TextSpans:
        """The rows before and after the changes of messages."""

    @cached_property
    def _fields(self) -> TableFields:
        return TableFields(self.table_paths)

    def find_tables(self, messages: pa.BinaryArray) -> MessageTables:
        """The tables of messages, by the fields that name them."""
        return self._fields.find_tables(messages)

    def survey(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The columns that messages of one table show."""
        rows = self.find_rows(unfold_arrays(TextSpans.from_messages(messages)).objects()).objects()
        found = survey_spans(rows, known.fields, self.options.timestamp_standard)
        return build_columns(known, found.fields, InferenceRules(self.inference.as_string))

    def decoder(self, row: RowType) -> Decoder:
        """A decoder for messages of a table with these columns."""
        return self.reads(row, replace(self.options, lenient_times=True), ())
