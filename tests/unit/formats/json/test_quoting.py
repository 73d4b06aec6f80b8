"""Text as JSON string literals."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.json.quoting import quote, quote_in_bytes


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("", '""'),
        ('say "x" \\ é', '"say \\"x\\" \\\\ é"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ('\x00\x1f"\x7f\u2028', '"\\u0000\\u001F\\"\x7f\u2028"'),
        ("😀/", '"😀/"'),
    ],
)
def test_only_characters_that_json_requires_are_escaped(text: str, literal: str) -> None:
    assert quote(text) == literal
    assert quote_in_bytes(text) == literal.replace("😀", "\\uD83D\\uDE00")


@given(st.text())
def test_literals_read_back(text: str) -> None:
    assert json.loads(quote(text)) == json.loads(quote_in_bytes(text)) == text
