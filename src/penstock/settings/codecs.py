"""Codecs of settings: the codecs of options, restricted to the values that a job can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.options import Codec


def restrict(codec: Codec, fits: Callable[[Any], bool], expected: str) -> Codec:
    """``codec`` for the values that fit."""

    def parse(text: str) -> Any:
        value = codec.parse(text)
        if not fits(value):
            raise ValueError(f"expected {expected}")
        return value

    return replace(codec, parse=parse)


#: Text that is not empty.
FILLED = restrict(Codec("String", str.strip), bool, "a text that is not empty")
