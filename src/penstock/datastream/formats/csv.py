"""Rows as lines of comma separated values: the format ``csv``, under PyFlink's names."""

from __future__ import annotations

from typing import Self

from penstock.common import TypeInformation
from penstock.common.serialization import FormatDeserializationSchema, FormatSerializationSchema
from penstock.datastream.formats.json import row_type
from penstock.datastream.refusals import lookup
from penstock.errors import OptionsError, Problem

__getattr__ = lookup("formats.csv")


class _Builder:
    """The options of both builders."""

    def __init__(self, type_info: TypeInformation):
        self._type = row_type(type_info, "type_info")
        self._options: dict[str, str] = {}

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """The separator of the elements of an array."""
        return self._set("array-element-delimiter", delimiter)

    def set_quote_character(self, c: str) -> Self:
        """The character around text that holds delimiters."""
        return self._set("quote-character", c)

    def set_escape_character(self, c: str) -> Self:
        """The character that escapes the next one."""
        return self._set("escape-character", c)

    def _set(self, key: str, value: str) -> Self:
        self._options[key] = value
        return self


class CsvRowDeserializationSchema(FormatDeserializationSchema):
    """Reads lines of comma separated values into rows."""

    class Builder(_Builder):
        """Builds the schema."""

        def set_field_delimiter(self, delimiter: str) -> Self:
            """The separator of columns, by default a comma."""
            return self._set("field-delimiter", delimiter)

        def set_null_literal(self, null_literal: str) -> Self:
            """The text for null."""
            return self._set("null-literal", null_literal)

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Whether lines that begin with # are skipped."""
            return self._set("allow-comments", str(allow_comments).lower())

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Whether a message that cannot be read is skipped."""
            return self._set("ignore-parse-errors", str(ignore_parse_errors).lower())

        def build(self) -> CsvRowDeserializationSchema:
            """The schema."""
            options = tuple(sorted(self._options.items()))
            return CsvRowDeserializationSchema(format="csv", type_info=self._type, options=options)


class CsvRowSerializationSchema(FormatSerializationSchema):
    """Writes rows as lines of comma separated values."""

    class Builder(_Builder):
        """Builds the schema."""

        def __init__(self, type_info: TypeInformation):
            super().__init__(type_info)
            self._options["line-delimiter"] = "\n"

        def set_field_delimiter(self, c: str) -> Self:
            """The separator of columns, by default a comma."""
            return self._set("field-delimiter", c)

        def set_line_delimiter(self, delimiter: str) -> Self:
            """The end of a line, by default a line feed: a line feed, a carriage return, both, or nothing. Raises
            OptionsError for anything else."""
            if delimiter not in {"", "\n", "\r", "\r\n"}:
                reason, hint = f"{delimiter!r} ends no line", "give '\\n', '\\r', '\\r\\n' or ''"
                raise OptionsError((Problem(reason, "set_line_delimiter", hint=hint),))
            return self._set("line-delimiter", delimiter)

        def set_null_literal(self, s: str) -> Self:
            """The text for null."""
            return self._set("null-literal", s)

        def disable_quote_character(self) -> Self:
            """Write text without quotes."""
            return self._set("disable-quote-character", "true")

        def build(self) -> CsvRowSerializationSchema:
            """The schema."""
            options = tuple(sorted(self._options.items()))
            return CsvRowSerializationSchema(format="csv", type_info=self._type, options=options)
