"""Regular expressions of Java. What matches is what ``java.util.regex.Pattern`` of Java 17 matches."""

from __future__ import annotations

import warnings

import pytest

from penstock.options import PATTERN, java_pattern

TEXTS: tuple[str, ...] = (
    "shop_1",
    "shop",
    "SHOP",
    "a",
    "aa",
    "ab",
    "a.b",
    "a.bc",
    "axb",
    "٣",
    "é",
    "É",
    "A_B",
    "a\n",
    " x",
    "]",
    "^",
)
TEXTS += ("&|~", "x\r\n", "\x1b", "-", "a\x0b", "\\a", "||", "", "A")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (r"shop_[0-9]+", {"shop_1"}),
        (r"(?i)shop", {"shop", "SHOP"}),
        (r"(?i)é", {"é"}),
        (r"\d", set()),
        (r"\w", {"a", "A"}),
        (r"\p{Alpha}", {"a", "A"}),
        (r"\P{Alpha}", {"٣", "é", "É", "]", "^", "\x1b", "-"}),
        (r"[\p{Upper}_]+", {"SHOP", "A_B", "A"}),
        (r"\p{Punct}+", {"]", "^", "&|~", "-", "||"}),
        (r"\Qa.b\E.*", {"a.b", "a.bc"}),
        (r"\Qa.b", {"a.b"}),
        (r"[\Q]^\E]", {"]", "^"}),
        (r"(?<x>a)\k<x>", {"aa"}),
        (r"(?<=a)b|a(?=b)b|(?<!x)a", {"a", "ab"}),
        (r"[SHO(?<]+", set()),
        (r"a\z", {"a"}),
        (r"[\h]x", {" x"}),
        (r"\hx", {" x"}),
        (r"a\v", {"a\n", "a\x0b"}),
        (r"x\R", {"x\r\n"}),
        (r"\e", {"\x1b"}),
        (r"\x{61}\0142", {"ab"}),
        (r"a++b", {"ab"}),
        (r"(?>a+)b", {"ab"}),
        (r"[]a]", {"]", "a"}),
        (r"[^]a]", {"٣", "é", "É", "^", "\x1b", "-", "A"}),
        (r"[\]a]", {"]", "a"}),
        (r"\\[a]", {"\\a"}),
        (r"[a&|~]+", {"a", "aa", "&|~", "||"}),
        (r"[a||b]+", {"a", "aa", "ab", "||"}),
    ],
)
def test_it_matches_what_it_matches_in_java(pattern: str, matched: set[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = java_pattern(pattern)
    assert {text for text in TEXTS if found.fullmatch(text)} == matched


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing ), unterminated subpattern"),
        ("[a", "unterminated character set"),
        ("a{99999999999}", "the repetition number is too large"),
        (r"\p{L}+", r"'\p{L}' is not supported; list the characters in brackets"),
        (r"[\P{Alpha}]", r"'\P{Alpha}' is not supported; list the characters in brackets"),
        ("[a-z&&[^b]]", "'&&' within brackets is not supported; write a single character class"),
        ("[a[b]]", "'[' within brackets is not supported; write a single character class"),
        ("a(?i)b", "global flags not at the start of the expression"),
        ("(?u)a", "ASCII and UNICODE flags are incompatible"),
    ],
)
def test_what_is_none_or_is_one_in_java_alone_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match="expected a regular expression") as raised:
        PATTERN.parse(pattern)
    assert str(raised.value) == f"expected a regular expression ({reason})"
