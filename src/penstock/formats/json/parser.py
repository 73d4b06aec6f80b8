"""Parses JSON like Jackson: strictly, but control characters in strings and text after the value are allowed.

Objects keep all pairs in order and numbers keep their text; their columns interpret them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from penstock.exact.errors import Malformed

#: Limits of Jackson's StreamReadConstraints.
DEEPEST, LONGEST_NUMBER = 1000, 1000


@dataclass(frozen=True)
class Number:
    """A number as it was written."""

    text: str

    @property
    def is_whole(self) -> bool:
        """Whether it has neither point nor exponent."""
        return self.text.lstrip("-").isdigit()


@dataclass(frozen=True)
class Object:
    """An object's pairs in order, keys given twice included."""

    pairs: tuple[tuple[str, Document], ...]


Document: TypeAlias = "bool | str | Number | Object | list[Document] | None"

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"(true|false|null)(?![A-Za-z0-9_$])")
_WORDS = {"true": True, "false": False, "null": None}
_DECODER = json.JSONDecoder(strict=False)
_LONE = re.compile("[\ud800-\udfff]")


def parse(message: bytes) -> Document:
    """The first JSON value in ``message``; text after it is ignored. Raises Malformed."""
    return _open_reader(message).read_document()


def parse_documents(message: bytes) -> Iterator[Document]:
    """The elements of the array at the start of ``message``, one by one, or the first value if it is not an array.

    Raises Malformed where the text stops being JSON."""
    return _open_reader(message).read_documents()


def _open_reader(message: bytes) -> _DocumentReader:
    encoding = json.detect_encoding(message)
    complaint = "the text ends before the JSON value does"
    try:
        text = message.decode(encoding)
    except UnicodeDecodeError as error:
        text = message[: error.start].decode(encoding, "ignore")
        complaint = f"not well-formed {encoding.upper()} at byte {error.start}"
    return _DocumentReader(text, complaint)


class _DocumentReader:
    """Reads a text once, without recursion, so that only the limit bounds the depth."""

    def __init__(self, text: str, complaint: str):
        self.text, self.complaint, self.at = text, complaint, 0

    def read_documents(self) -> Iterator[Document]:
        """The elements of the next array, or the next value."""
        if not self._take("["):
            yield self.read_document()
        elif not self._take("]"):
            yield self.read_document()
            while not self._take("]"):
                if not self._take(","):
                    raise self._unexpected_character("',' or ']'")
                yield self.read_document()

    def read_document(self) -> Document:
        """The next value."""
        open_containers: list[tuple[list[Document], list[str] | None]] = []
        while True:
            value, container = self._read_value()
            if container is not None:
                if len(open_containers) >= DEEPEST:
                    raise Malformed(f"nested deeper than {DEEPEST} levels")
                if not self._take("}" if container[1] is not None else "]"):
                    open_containers.append(container)
                    self._read_key(container[1])
                    continue
                value = self._close_container(container)
            while True:
                if not open_containers:
                    return value
                values, keys = open_containers[-1]
                values.append(value)
                if self._take(","):
                    self._read_key(keys)
                    break
                if not self._take("}" if keys is not None else "]"):
                    raise self._unexpected_character(
                        "',' or the end of the object" if keys is not None else "',' or ']'"
                    )
                value = self._close_container(open_containers.pop())

    @staticmethod
    def _close_container(container: tuple[list[Document], list[str] | None]) -> Document:
        values, keys = container
        return values if keys is None else Object(tuple(zip(keys, values, strict=True)))

    def _read_value(self) -> tuple[Document, tuple[list[Document], list[str] | None] | None]:
        """The next scalar, or the container that opens here."""
        self._skip_blank()
        first = self.text[self.at : self.at + 1]
        if first in ("{", "["):
            self.at += 1
            return None, ([], [] if first == "{" else None)
        if first == '"':
            return self._read_string(), None
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            return self._read_number(number), None
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise self._unexpected_character("a value")
        self.at = word.end()
        return _WORDS[word.group()], None

    def _read_number(self, match: re.Match[str]) -> Number:
        if match.end() - match.start() > LONGEST_NUMBER:
            raise Malformed(f"a number has more than {LONGEST_NUMBER} characters")
        self.at = match.end()
        if self.text[self.at : self.at + 1] not in ("", " ", "\t", "\r", "\n", ",", "]", "}"):
            raise self._unexpected_character("the end of a number")
        return Number(match.group())

    def _read_key(self, keys: list[str] | None) -> None:
        if keys is None:
            return
        self._skip_blank()
        if self.text[self.at : self.at + 1] != '"':
            raise self._unexpected_character("a field name in quotes")
        keys.append(self._read_string())
        if not self._take(":"):
            raise self._unexpected_character("':'")

    def _read_string(self) -> str:
        try:
            text, self.at = _DECODER.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                raise Malformed(self.complaint) from error
            at = self.text.rindex("\\", 0, error.pos + 1)
            raise Malformed(
                f"expected an escape such as '\\n' or '\\u00e9', not {self.text[at : at + 6]!r}, at character {at + 1}"
            ) from error
        return _LONE.sub("?", text)  # half of a surrogate pair becomes '?', as in Java's encoder

    def _take(self, mark: str) -> bool:
        self._skip_blank()
        if self.text.startswith(mark, self.at):
            self.at += 1
            return True
        return False

    def _skip_blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _unexpected_character(self, wanted: str) -> Malformed:
        if self.at >= len(self.text):
            return Malformed(self.complaint)
        return Malformed(f"expected {wanted}, not {self.text[self.at]!r}, at character {self.at + 1}")
