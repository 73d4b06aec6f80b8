"""Tables of ``json`` messages whose columns are inferred."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from penstock.formats.json import survey_kernel as kernel
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.flat_decoder import FlatDecoder
from penstock.formats.json.inference import InferenceRules
from penstock.formats.json.inference_options import JsonInferenceOptions
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.rewriting import find_spans
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.survey import FieldSurvey, survey_nested, survey_spans
from penstock.formats.json.tables import TableFields
from penstock.spi import Decoder, MessageTables, SeenColumns
from penstock.types import STRING, Field, NullType, RowType


@dataclass(frozen=True)
class JsonTableReader:
    """Reads JSON objects, or arrays of them, one row each."""

    options: JsonOptions
    inference: JsonInferenceOptions

    names_keys: ClassVar[bool] = False

    @property
    def names_tables(self) -> bool:
        """Whether fields of a message name its table."""
        return bool(self.inference.table_fields)

    def open(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """The messages of a batch, as they are."""
        return values

    def find_tables(self, messages: pa.BinaryArray) -> MessageTables:
        """The tables of messages, by the fields that name them."""
        return self._fields.find_tables(messages)

    @cached_property
    def _fields(self) -> TableFields:
        return TableFields(tuple((name,) for name in self.inference.table_fields))

    def survey(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The columns that messages of one table show."""
        spans = find_spans(messages, unfold_arrays)
        rules = InferenceRules(self.inference.as_string, self.inference.fixed)
        given = self._fix(known)
        standard = self.options.timestamp_standard
        if not self.inference.flatten:
            return build_columns(known, survey_spans(spans, given, standard).fields, rules)
        return build_columns(known, _keep_mixed_whole(survey_nested(spans, given, standard).fields), rules)

    def survey_values(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The columns that messages of one table show: they have values alone."""
        return self.survey(messages, known)

    def _fix(self, known: RowType) -> list[Field]:
        """The known columns; what does not fit one whose type is fixed is not noted."""
        fixed = self.inference.fixed
        return [replace(each, type=STRING) if fixed.field(each.name) else each for each in known.fields]

    def decoder(self, row: RowType, metadata: Sequence[str] = ()) -> Decoder:
        """A decoder for messages of a table with these columns. JSON has no metadata."""
        options = replace(self.options, lenient_times=True)
        if self.inference.flatten and any("." in name for name in row.names):
            return FlatDecoder(row, options)
        return JsonDecoder(row, options)


def unfold_arrays(spans: TextSpans) -> TextSpans:
    """Values that are no arrays, and the elements of those that are."""
    arrays, others = spans.split_arrays()
    return others.join(arrays.elements()) if len(arrays) else spans


def build_columns(known: RowType, fields: Iterable[FieldSurvey], rules: InferenceRules) -> SeenColumns:
    """The columns after a survey. A new field with no other value than null is not a column yet."""
    found = {each.name: each for each in fields}
    firsts: dict[str, int] = {}
    columns: list[Field] = []
    for column in known.fields:
        survey = found.pop(column.name, None)
        if survey is not None and survey.kinds:
            inferred = rules.infer_type(survey, column.type).with_nullability(column.type.nullable)
            if inferred != column.type:
                firsts[column.name] = survey.first
                column = replace(column, type=inferred)  # noqa: PLW2901
        columns.append(column)
    for name, survey in found.items():
        inferred = rules.infer_type(survey)
        if not isinstance(inferred, NullType) and survey.kinds - {kernel.NULL}:
            firsts[name] = survey.without(kernel.NULL).first
            columns.append(Field(name, inferred.with_nullability(True)))
    return SeenColumns(replace(known, fields=tuple(columns)), firsts)


def _keep_mixed_whole(fields: Sequence[FieldSurvey]) -> list[FieldSurvey]:
    """The fields, where one that has objects and other values than null is a text, and has no fields of its own."""
    names = {each.name for each in fields}
    parents = {name for name in names if any(other.startswith(f"{name}.") for other in names)}
    mixed = {each.name for each in fields if each.name in parents and each.without(kernel.NULL).kinds}
    kept = []
    for each in fields:
        if each.name in mixed:
            firsts = [-1] * kernel.KINDS
            firsts[kernel.OBJECT] = each.without(kernel.NULL).first
            kept.append(FieldSurvey(each.name, tuple(firsts), 0, 0))
        elif each.name not in parents and not any(each.name.startswith(f"{name}.") for name in mixed):
            kept.append(each)
    return kept
