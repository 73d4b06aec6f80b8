"""Reading a statement token by token."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from penstock.errors import SqlError, UnsupportedError
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Name
from penstock.sql.parse.tokens import Token, TokenType
from penstock.types import DataType, TypeReader, TypeToken

_T = TypeVar("_T")

#: The types of tokens that :class:`TypeReader` calls by another name.
_TYPE_TOKENS = {TokenType.STRING: "text", TokenType.BYTES: "", TokenType.HINT: "", TokenType.END: ""}


#: Words that only begin statements, so that a semicolon is missing before them.
_BEGINNINGS = {"ALTER", "BEGIN", "CREATE", "DESCRIBE", "DROP", "EXECUTE", "EXPLAIN", "INSERT", "RESET", "SHOW", "USE"}


class Cursor:
    """A position in the tokens of one statement, the last of which is END.

    Words match in any case; names do not: they are as case-sensitive as in Flink.
    """

    def __init__(self, source: SourceText, tokens: tuple[Token, ...]):
        self.source = source
        self._tokens = tokens
        self._position = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._position]

    @property
    def at(self) -> int:
        """The offset of the next token."""
        return self.token.at

    def peek(self, count: int = 1) -> Token:
        """The token ``count`` after the next one; END beyond the end."""
        return self._tokens[min(self._position + count, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """The next token, consumed. END is never consumed."""
        token = self.token
        if token.type is not TokenType.END:
            self._position += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether the next tokens are these words or marks."""
        if self.token.keyword != words[0]:  # as in most cases
            return False
        return all(self.peek(count).keyword == word for count, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Consume the next tokens if they are these."""
        if not self.sees(*words):
            return False
        self._position += len(words)
        return True

    def take_any(self, *words: str) -> str:
        """Consume the next token if it is one of these, and return it; else an empty text."""
        return self.advance().keyword if self.token.keyword in words else ""

    def expect(self, *words: str) -> None:
        """Consume these tokens. Raises SqlError for others."""
        for word in words:
            if not self.take(word):
                raise self.unexpected_token(word if word.isalpha() else f"'{word}'")

    def expect_end(self) -> None:
        """Raises SqlError unless everything is consumed."""
        if self.token.type is TokenType.END:
            return
        if self.token.keyword in _BEGINNINGS:
            raise self.unexpected_token("the end of the statement", "a ';' is missing before it")
        raise self.unexpected_token("the end of the statement")

    def name(self, expected: str) -> Name:
        """An identifier. Raises SqlError for any other token."""
        if self.token.type not in (TokenType.WORD, TokenType.QUOTED):
            hint = "quote names with backquotes" if self.token.keyword == '"' else ""
            raise self.unexpected_token(expected, hint)
        token = self.advance()
        return Name(token.text, token.at)

    def string(self, expected: str) -> Token:
        """A string literal. Raises SqlError for any other token."""
        if self.token.type is not TokenType.STRING:
            raise self.unexpected_token(expected)
        return self.advance()

    def parse_list(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        """One or more items with commas between them."""
        found = [item()]
        while self.take(","):
            found.append(item())
        return tuple(found)

    def parse_enclosed(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        """One or more items in parentheses, with commas between them."""
        self.expect("(")
        found = self.parse_list(item)
        self.expect(")")
        return found

    def data_type(self, *, nullability: bool = True) -> DataType:
        """A type. ``nullability``: whether NOT NULL and NULL belong to it. Raises SqlError with its place."""
        reader = TypeReader(self._type_tokens, self._type_error, self._tokens[-1].at, self._position)
        found = reader.type(nullability=nullability)
        self._position = reader.position
        return found

    @cached_property
    def _type_tokens(self) -> tuple[TypeToken, ...]:
        return tuple(
            TypeToken(_TYPE_TOKENS.get(each.type, each.type.value), each.text, each.at) for each in self._tokens
        )

    def _type_error(self, at: int, reason: str, hint: str) -> SqlError:
        return self.source.error(at, reason, hint or "write a Flink SQL type")

    def unexpected_token(self, expected: str, hint: str = "") -> SqlError:
        """The error for a next token other than the ``expected`` one."""
        found = self.token.shown if self.token.type is TokenType.END else f"'{self.token.shown}'"
        if self.token.type is TokenType.STRING:
            found = "a string"
        return self.source.error(self.at, f"expected {expected}, found {found}", hint)

    def unsupported_feature(self, feature: str, hint: str, at: int | None = None) -> UnsupportedError:
        """The error for a feature that only Flink has."""
        return self.source.unsupported_feature(self.at if at is None else at, f"{feature} is not supported", hint)
