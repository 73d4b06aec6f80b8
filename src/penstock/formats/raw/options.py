"""The options of the ``raw`` format."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import TEXT, OptionSet, Rule, choice, opt


class Endianness(enum.Enum):
    """Which byte of a number comes first."""

    BIG = "big-endian"
    LITTLE = "little-endian"


def _check_charset(options: RawOptions) -> Iterator[Problem]:
    try:
        "".encode(options.charset)
    except (LookupError, ValueError):
        yield Problem(f"unknown charset '{options.charset}'", "charset", hint="for example UTF-8, UTF-16 or ISO-8859-1")


@dataclass(frozen=True, kw_only=True)
class RawOptions(OptionSet):
    """Options of ``raw``, with Flink's names and defaults."""

    charset: str = opt("charset", TEXT, default="UTF-8", doc="The charset of a text column.")
    endianness: Endianness = opt(
        "endianness", choice(Endianness), default=Endianness.BIG, doc="The byte order of a numeric column."
    )

    rules: ClassVar[tuple[Rule, ...]] = (_check_charset,)
