"""Flink SQL text to tokens. Every token has its offset. Variables are replaced here and nowhere else.

A variable inside a string or a quoted name becomes part of that one token whatever its value holds, so a value
can neither end a string nor appear in an error: tokens are shown as they were written, ``${NAME}``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from penstock.errors import Problem, SqlError
from penstock.options import nearest
from penstock.sql.parse.source import Source


class Kind(enum.Enum):
    """The types of tokens."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    BYTES = "binary string"
    NUMBER = "number"
    MARK = "mark"
    HINT = "hint"
    END = "end"


@dataclass(frozen=True)
class Token:
    """``text`` is the value: quotes removed, variables replaced. ``shown`` is the text as it was written, for errors.

    ``at`` and ``end`` are offsets into the source; ``joined``: whether no space precedes the token.
    """

    kind: Kind
    text: str
    at: int
    end: int
    shown: str
    joined: bool = False

    @property
    def keyword(self) -> str:
        """The text in upper case when it may be a keyword or a mark, else nothing."""
        return self.text.upper() if self.kind in (Kind.WORD, Kind.MARK) else ""


_TOKEN = re.compile(
    r"""
      (?P<space>[\s\ufeff]+)
    | (?P<comment>--[^\r\n]* | /\*(?!\+).*?\*/)
    | (?P<hint>/\*\+.*?\*/)
    | (?P<bytes>[xX]'[^']*')
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<spliced>\w*(?:\$\{[^{}]*\}\w*)+)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<mark><>|!=|<=|>=|\|\||=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNCLOSED = {"'": "string", "`": "quoted name", "/*": "comment", "${": "variable"}
_VARIABLE = re.compile(r"\$\{([^{}]*)\}?")
#: No type holds a longer number.
_LONGEST_NUMBER = 400


def scan(source: Source, variables: Mapping[str, str]) -> tuple[Token, ...]:
    """The tokens of a text, an END token last. Raises SqlError for all undefined variables at once, for a string,
    name or comment that is not closed, and for a number of absurd length."""
    problems = [
        problem
        for match in _matches(source)
        if match.lastgroup in ("string", "bytes", "quoted", "spliced")
        for problem in _undefined(source, match, variables)
    ]
    if problems:
        raise SqlError(tuple(problems))

    def put_in(text: str) -> str:
        return _VARIABLE.sub(lambda found: variables[found.group(1)], text)

    tokens: list[Token] = []
    end = -1
    for match in _matches(source):
        if match.lastgroup not in ("space", "comment"):
            for token in _tokens(source, match, put_in):
                tokens.append(replace(token, joined=token.joined or match.start() == end))
            end = match.end()
    size = len(source.text)
    return (*tokens, Token(Kind.END, "", size, size, "the end of the text"))


def _matches(source: Source) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(source.text):
        match = _TOKEN.match(source.text, position)
        if match is None:  # unreachable: the last alternative takes any character
            raise source.error(position, "unreadable text")
        if match.lastgroup == "mark":
            for opening, what in _UNCLOSED.items():
                if source.text.startswith(opening, position):
                    raise source.error(position, f"{what} is not closed")
        yield match
        position = match.end()


def _undefined(source: Source, match: re.Match[str], variables: Mapping[str, str]) -> Iterator[Problem]:
    for found in _VARIABLE.finditer(match.group()):
        if found.group(1) not in variables or not found.group().endswith("}"):
            hint = nearest(found.group(1), variables) or f"define it with --var {found.group(1) or 'NAME'}=VALUE"
            yield source.problem(match.start() + found.start(), f"variable '{found.group(1)}' is not defined", hint)


def _tokens(source: Source, found: re.Match[str], put_in: Callable[[str], str]) -> Iterator[Token]:
    written, at, end = found.group(), found.start(), found.end()
    match found.lastgroup:
        case "string":
            yield Token(Kind.STRING, put_in(written[1:-1].replace("''", "'")), at, end, written)
        case "bytes":
            yield Token(Kind.BYTES, put_in(written[2:-1]), at, end, written)
        case "quoted":
            yield Token(Kind.QUOTED, put_in(written[1:-1].replace("``", "`")), at, end, written)
        case "hint":
            yield Token(Kind.HINT, written, at, end, written)
        case "spliced":
            yield from _spliced(source, put_in(written), written, at, end)
        case "number":
            if len(written) > _LONGEST_NUMBER:
                raise source.error(at, "number is too long")
            yield Token(Kind.NUMBER, written, at, end, written)
        case "word":
            yield Token(Kind.WORD, written, at, end, written)
        case _:
            yield Token(Kind.MARK, written, at, end, written)


def _spliced(source: Source, text: str, written: str, at: int, end: int) -> Iterator[Token]:
    """The tokens of a bare text with variables replaced; all of them have the offset of the text.

    A value is data: a variable in it is not replaced.
    """
    inner, before = Source(text), -1
    try:
        for found in _matches(inner):
            if found.lastgroup in ("space", "comment"):
                continue
            if found.lastgroup == "spliced":
                raise inner.error(0, "a variable in a variable")
            for token in _tokens(inner, found, str):
                yield replace(token, at=at, end=end, shown=written, joined=found.start() == before)
            before = found.end()
    except SqlError:
        raise source.error(at, f"the value of {written} cannot be read", "check its quotes") from None
