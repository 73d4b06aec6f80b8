"""The options of the ``csv`` format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import BOOLEAN, CHARACTER, TEXT, OptionSet, Rule, opt


def _check_quote(options: CsvOptions) -> Iterator[Problem]:
    if options.disable_quote_character and options.quote_character is not None:
        yield Problem(
            "quote-character cannot be set when disable-quote-character is true",
            "quote-character",
            hint="remove one of the two",
        )


def _check_distinct(options: CsvOptions) -> Iterator[Problem]:
    quote = None if options.disable_quote_character else options.quote_character or '"'
    if options.field_delimiter in (quote, options.escape_character):
        yield Problem("field-delimiter must differ from the quote and escape characters", "field-delimiter")


@dataclass(frozen=True, kw_only=True)
class CsvOptions(OptionSet):
    """Options of ``csv``, with Flink's names and defaults."""

    field_delimiter: str = opt(
        "field-delimiter",
        CHARACTER,
        default=",",
        doc="The character between values. Java escapes are allowed.",
    )
    disable_quote_character: bool = opt("disable-quote-character", BOOLEAN, default=False, doc="Never quote values.")
    quote_character: str | None = opt(
        "quote-character",
        CHARACTER,
        default=None,
        default_text='"',
        doc="The character around values that need quotes.",
    )
    allow_comments: bool = opt(
        "allow-comments",
        BOOLEAN,
        default=False,
        doc="Skip lines that start with '#', blank lines, and leading spaces of lines. A message without any "
        "other line is refused; see ignore-parse-errors.",
    )
    ignore_parse_errors: bool = opt(
        "ignore-parse-errors",
        BOOLEAN,
        default=False,
        doc="Read a value that does not fit its column as NULL, and skip messages that are not CSV, instead of "
        "failing.",
    )
    array_element_delimiter: str = opt(
        "array-element-delimiter", CHARACTER, default=";", doc="The character between the elements of an ARRAY or ROW."
    )
    escape_character: str | None = opt(
        "escape-character", CHARACTER, default=None, doc="The character that escapes the next one."
    )
    line_delimiter: str = opt(
        "line-delimiter",
        TEXT,
        default="",
        doc="What ends each message. Flink's SQL has no such option; its CsvRowSerializationSchema writes a line feed.",
    )
    null_literal: str | None = opt("null-literal", TEXT, default=None, doc="The text for NULL.")
    scientific_decimals: bool = opt(
        "write-bigdecimal-in-scientific-notation",
        BOOLEAN,
        default=True,
        doc="Accepted, but without effect, as in Flink 2.2: decimals are written with all digits of their scale "
        "and without an exponent.",
    )
    trim_spaces: bool = opt(
        "trim-spaces", BOOLEAN, default=False, doc="When reading, remove white space around unquoted values."
    )
    ignore_trailing_unmappable: bool = opt(
        "ignore-trailing-unmappable", BOOLEAN, default=False, doc="When reading, ignore values beyond the last column."
    )
    allow_trailing_comma: bool = opt(
        "allow-trailing-comma", BOOLEAN, default=True, doc="When reading, allow a delimiter after the last value."
    )
    fail_on_missing_columns: bool = opt(
        "fail-on-missing-columns",
        BOOLEAN,
        default=False,
        doc="When reading, refuse a message with fewer values than columns even with ignore-parse-errors.",
    )
    empty_string_as_null: bool = opt(
        "empty-string-as-null", BOOLEAN, default=False, doc="When reading, treat an empty value as NULL."
    )
    ignore_first_line: bool = opt(
        "ignore-first-line", BOOLEAN, default=False, doc="When reading, skip the first line of each message."
    )

    rules: ClassVar[tuple[Rule, ...]] = (_check_quote, _check_distinct)

    @property
    def quote(self) -> str | None:
        """The active quote character, or None."""
        return None if self.disable_quote_character else self.quote_character or '"'

    @property
    def marks(self) -> tuple[int, int, int]:
        """The codes of delimiter, quote and escape character; -1 if there is none."""
        delimiter, quote, escape = (
            -1 if each is None else ord(each) for each in (self.field_delimiter, self.quote, self.escape_character)
        )
        return delimiter, quote, escape

    @property
    def ascii_marks(self) -> bool:
        """Whether delimiter, quote and escape character take one byte each, as the compiled loops require."""
        return max(self.marks) < 128
