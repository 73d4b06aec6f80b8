"""Tables of messages with changes, which name their table, and whose columns are inferred."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from penstock.formats.changes.options import ChangeOptions
from penstock.formats.json.inference import InferenceRules
from penstock.formats.json.inference_options import InferenceOptions
from penstock.formats.json.rewriting import find_spans
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.survey import survey_spans
from penstock.formats.json.table_reader import build_columns, unfold_arrays
from penstock.formats.json.tables import TableFields
from penstock.spi import MessageDecoder, Messages, MessageTables, SeenColumns
from penstock.types import RowType

_Options = TypeVar("_Options", bound=ChangeOptions)
_Inference = TypeVar("_Inference", bound=InferenceOptions)
_Messages = TypeVar("_Messages", bound=Messages)


@dataclass(frozen=True)
class ChangeTableReader(ABC, Generic[_Options, _Inference, _Messages]):
    """Reads changes of the rows of tables."""

    options: _Options
    inference: _Inference

    names_tables: ClassVar[bool] = True
    names_keys: ClassVar[bool] = False

    @property
    @abstractmethod
    def table_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that name a message's table."""

    @abstractmethod
    def find_rows(self, envelopes: TextSpans) -> TextSpans:
        """The rows before and after the changes of messages."""

    @abstractmethod
    def open(self, values: pa.BinaryArray) -> _Messages:
        """The messages of a batch."""

    @abstractmethod
    def find_tables(self, messages: _Messages) -> MessageTables:
        """The tables of messages, by the fields that name them."""

    @abstractmethod
    def survey(self, messages: _Messages, known: RowType) -> SeenColumns:
        """The columns that messages of one table show."""

    @abstractmethod
    def decoder(self, row: RowType, metadata: Sequence[str] = ()) -> MessageDecoder[_Messages]:
        """A decoder for messages of a table with these columns, followed by ``metadata``."""

    @cached_property
    def _fields(self) -> TableFields:
        return TableFields(self.table_paths)

    def _find_tables(self, values: pa.BinaryArray) -> MessageTables:
        return self._fields.find_tables(values)

    def _survey_messages(self, values: pa.BinaryArray, known: RowType) -> SeenColumns:
        return self._survey_rows(
            find_spans(values, lambda spans: self.find_rows(unfold_arrays(spans).objects())), known
        )

    def _survey_rows(self, rows: TextSpans, known: RowType) -> SeenColumns:
        found = survey_spans(rows.objects(), known.fields, self.options.timestamp_standard)
        return build_columns(known, found.fields, InferenceRules(self.inference.as_string))
