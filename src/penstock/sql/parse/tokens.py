"""Flink SQL text to tokens. Every token has its offset. Variables are replaced here and nowhere else.

A variable inside a string or a quoted name becomes part of that one token whatever its value is, so a value can neither
end a string nor appear in an error: tokens are shown as they were written, ``${NAME}``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.errors import Problem, SqlError, undefined_variable
from penstock.sql.parse.source import SourceText


class TokenType(enum.Enum):
    """The types of tokens. Their values are the names of groups in :data:`_TOKEN`. The marks around hints have their
    own type."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    BYTES = "bytes"
    NUMBER = "number"
    MARK = "mark"
    HINT = "hint"
    END = "end"


@dataclass(frozen=True)
class Token:
    """``text`` is the value: quotes removed, variables replaced. ``shown`` is the text as it was written, for errors.

    ``at`` is the offset in the source; ``joined``: whether no space precedes the token.
    """

    type: TokenType
    text: str
    at: int
    shown: str
    joined: bool = False

    @cached_property
    def keyword(self) -> str:
        """The text in upper case when it may be a keyword or a mark, else nothing."""
        return self.text.upper() if self.type in (TokenType.WORD, TokenType.MARK) else ""


_TOKEN = re.compile(
    r"""
      (?P<space>[\s\ufeff]+)
    | (?P<comment>--[^\r\n]* | /\*(?!\+).*?\*/)
    | (?P<hint>/\*\+ | \*/(?!\*))
    | (?P<bytes>[xX]'[^']*')
    | (?P<string>'(?:[^']|'')*')
    | (?P<unicode>[uU]&'(?:[^']|'')*'(?:\s*(?i:UESCAPE)\s*'(?:[^']|'')*')?)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<spliced>\w*(?:\$\{[^{}]*\}\w*)+)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<mark><>|!=|<=|>=|\|\||=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: Tokens that need a closing mark: the opening one, the name of the token, and the closing one.
_UNCLOSED = (("'", "string", "'"), ("`", "quoted name", "`"), ("/*", "comment", "*/"), ("${", "variable", "}"))
#: The text of a string with escapes of Unicode, and the character of these.
_UNICODE = re.compile(r"..(?P<text>'(?:[^']|'')*')(?:\s*\w+\s*'(?P<escape>(?:[^']|'')*)')?", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^{}]*)\}?")
#: No type holds a longer number.
_LONGEST_NUMBER = 400


def scan(source: SourceText, variables: Mapping[str, str]) -> tuple[Token, ...]:
    """The tokens of a text, the last of which is END. Raises SqlError for all undefined variables at once, for a
    string, name or comment that is not closed, for an escape that is not a character, and for a number that is longer
    than any type holds."""
    problems = [
        problem
        for match in _find_matches(source)
        if match.lastgroup in ("string", "unicode", "bytes", "quoted", "spliced")
        for problem in _find_undefined(source, match, variables)
    ]
    if problems:
        raise SqlError(tuple(problems))

    def put_in(text: str) -> str:
        return _VARIABLE.sub(lambda found: variables[found.group(1)], text)

    tokens: list[Token] = []
    end = -1
    for match in _find_matches(source):
        if match.lastgroup not in ("space", "comment"):
            for token in _make_tokens(source, match, put_in):
                joined = match.start() == end and not token.joined
                tokens.append(replace(token, joined=True) if joined else token)
            end = match.end()
    return (*tokens, Token(TokenType.END, "", len(source.text), "the end of the text"))


def _find_matches(source: SourceText) -> Iterator[re.Match[str]]:
    for match in _TOKEN.finditer(source.text):
        if match.lastgroup == "mark":
            for opening, unclosed, closing in _UNCLOSED:
                if source.text.startswith(opening, match.start()):
                    raise _not_closed_error(source, match.start(), unclosed, closing)
        yield match


def _not_closed_error(source: SourceText, at: int, unclosed: str, closing: str) -> SqlError:
    """The error of a string, name or comment at ``at`` that is not closed. A quote that is missing earlier inverts all
    strings after it: then the first string that continues to another line has it."""
    if closing == "'":
        strings = (match for match in _TOKEN.finditer(source.text, 0, at) if match.lastgroup == "string")
        earlier = next((match for match in strings if "\n" in match.group()), None)
        if earlier is not None:
            line = source.text.count("\n", 0, earlier.end()) + 1
            reason = f"the string continues to line {line}, and a later one is not closed"
            return source.error(earlier.start(), reason, f"add {closing} where it ends")
    return source.error(at, f"the {unclosed} is not closed", f"add {closing}")


def _find_undefined(source: SourceText, match: re.Match[str], variables: Mapping[str, str]) -> Iterator[Problem]:
    for found in _VARIABLE.finditer(match.group()):
        if found.group(1) not in variables or not found.group().endswith("}"):
            yield source.problem(match.start() + found.start(), *undefined_variable(found.group(1), variables))


def _make_tokens(source: SourceText, found: re.Match[str], put_in: Callable[[str], str]) -> Iterator[Token]:
    written = text = found.group()
    at = found.start()
    match found.lastgroup:
        case "spliced":
            yield from _splice_variables(source, put_in(written), written, at)
            return
        case "string":
            text = put_in(written[1:-1].replace("''", "'"))
        case "unicode":
            yield Token(TokenType.STRING, _unescape(source, found, put_in), at, written)
            return
        case "bytes":
            text = put_in(written[2:-1])
        case "quoted":
            text = put_in(written[1:-1].replace("``", "`"))
        case "number" if len(written) > _LONGEST_NUMBER:
            raise source.error(at, f"the number is longer than {_LONGEST_NUMBER} characters", "no type can hold it")
    yield Token(TokenType(found.lastgroup), text, at, written)


def _unescape(source: SourceText, found: re.Match[str], put_in: Callable[[str], str]) -> str:
    """The value of a string such as ``U&'\\00e9' UESCAPE '\\'``. A variable in it is put in as it is. Raises
    SqlError."""
    parts = _UNICODE.fullmatch(found.group())
    assert parts is not None  # noqa: S101 - the token is of this form
    escape = "\\" if parts["escape"] is None else parts["escape"]
    if len(escape) != 1 or re.fullmatch(r"[0-9a-fA-F+\"'\s]", escape):
        reason = "UESCAPE takes one character other than a digit, a letter from A to F, a space, a quote or '+'"
        raise source.error(found.start() + parts.start("escape") - 1, reason, "such as UESCAPE '!'")
    mark = re.escape(escape)
    special = re.compile(rf"(?P<variable>{_VARIABLE.pattern})|''|{mark}(?P<code>{mark}|[0-9a-fA-F]{{4}})?")
    first = found.start() + parts.start("text") + 1

    def value(part: re.Match[str]) -> str:
        if part["variable"] is not None:
            return put_in(part[0])
        if part[0] == "''":
            return "'"
        if part["code"] is None:
            hint = f"such as {escape}00e9; {escape}{escape} is {escape} itself"
            raise source.error(first + part.start(), f"{escape} is followed by four hexadecimal digits", hint)
        return escape if part["code"] == escape else chr(int(part["code"], 16))

    text = special.sub(value, parts["text"][1:-1])
    try:  # two escapes of one character beyond U+FFFF become one
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        reason = "half of a surrogate pair is missing"
        hint = f"characters beyond U+FFFF are two escapes, such as {escape}d83d{escape}de00"
        raise source.error(found.start(), reason, hint) from None


def _splice_variables(source: SourceText, text: str, written: str, at: int) -> Iterator[Token]:
    """The tokens of a bare text with variables replaced; all of them have the offset of the text.

    A variable in a value is not replaced.
    """
    inner, before = SourceText(text), -1
    try:
        for found in _find_matches(inner):
            if found.lastgroup in ("space", "comment"):
                continue
            if found.lastgroup == "spliced":
                raise inner.error(0, "a variable contains another variable")
            for token in _make_tokens(inner, found, str):
                yield replace(token, at=at, shown=written, joined=found.start() == before)
            before = found.end()
    except SqlError:
        raise source.error(at, f"the value of {written} cannot be read", "check its quotes") from None
