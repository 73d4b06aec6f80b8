"""Splits one line of CSV into cells, like Jackson's CSV parser."""

from __future__ import annotations

import codecs

from penstock.exact.errors import Malformed
from penstock.formats.csv.options import CsvOptions

_ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t"}


def parse_cells(message: bytes, options: CsvOptions) -> list[str]:
    """The cells of the first line that is neither skipped nor a comment; other lines are ignored. Raises Malformed."""
    try:
        text = message.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not well-formed UTF-8 at byte {error.start}") from error
    reader = _LineReader(text, options)
    if options.ignore_first_line:
        reader.skip_line()
    found = reader.read_line()
    if found is None:
        raise Malformed("the message has no content")
    return found


class _LineReader:
    """A position in a text."""

    def __init__(self, text: str, options: CsvOptions):
        self.text, self.options, self.at = text, options, 0
        self.stops = {options.field_delimiter, "\n", "\r", ""}

    def skip_line(self) -> None:
        """Move to the next line, even if a quoted value continues there."""
        self._skip_comments()
        self._to_the_end_of_the_line()
        self._end_line()

    def read_line(self) -> list[str] | None:
        """The next line's cells, None at the end of the text."""
        self._skip_comments()
        if self.at >= len(self.text):
            return None
        found = [self._read_cell()]
        while self._peek() == self.options.field_delimiter:
            self.at += 1
            found.append(self._read_cell())
        self._end_line()
        return found

    def _skip_comments(self) -> None:
        """Move to a line that is neither blank nor a comment, and past its leading spaces, if comments are allowed."""
        while self.options.allow_comments and self._peek() in ("#", " ", "\n", "\r"):
            if self._peek() == "#":
                self._to_the_end_of_the_line()
            else:
                self.at += 1

    def _to_the_end_of_the_line(self) -> None:
        while self._peek() not in ("\n", "\r", ""):
            self.at += 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _end_line(self) -> None:
        self.at += 2 if self.text.startswith("\r\n", self.at) else 1

    def _read_cell(self) -> str:
        if self.options.trim_spaces:
            while self._peek() in (" ", "\t") and self._peek() != self.options.field_delimiter:
                self.at += 1
        if self.options.quote is not None and self._peek() == self.options.quote:
            return self._read_quoted()
        parts = []
        while self._peek() not in self.stops:
            parts.append(self._read_character())
        text = "".join(parts)
        return text.rstrip(" \t") if self.options.trim_spaces else text

    def _read_character(self) -> str:
        """The next character, or the one that an escape means."""
        found = self._peek()
        self.at += 1
        if found == self.options.escape_character:
            found = self._peek()
            if not found:
                raise Malformed("the text ends after an escape character")
            self.at += 1
            return _ESCAPED.get(found, found)
        return found

    def _read_quoted(self) -> str:
        quote, parts = self._peek(), []
        self.at += 1
        while True:
            found = self._peek()
            if not found:
                raise Malformed("a quoted value is not closed")
            if found != quote:
                parts.append(self._read_character())
                continue
            self.at += 1
            if self._peek() != quote:
                break
            parts.append(quote)
            self.at += 1
        while self._peek() not in self.stops:
            if self._peek() > " ":
                raise Malformed(
                    f"expected '{self.options.field_delimiter}' or the end of the line after a quoted value, "
                    f"not {self._peek()!r}"
                )
            self.at += 1
        return "".join(parts)
