"""Schemas that decode and encode messages, by PyFlink's names.

A schema names a format and its options; it has no code of its own, so builders and SQL decode alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import UnsupportedError


@dataclass(frozen=True, kw_only=True)
class DeserializationSchema:
    """Reads messages with ``format``, whose options are ``options``, into values of ``type_info``."""

    format: str
    type_info: TypeInformation
    options: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class SerializationSchema:
    """Writes values of ``type_info`` with ``format``, whose options are ``options``."""

    format: str
    type_info: TypeInformation
    options: tuple[tuple[str, str], ...] = field(default=())


class SimpleStringSchema(DeserializationSchema, SerializationSchema):
    """Messages that are one string: the format ``raw`` with one STRING column."""

    def __init__(self, charset: str = "UTF-8"):
        if charset.upper().replace("_", "-") not in {"UTF-8", "UTF8"}:
            raise UnsupportedError(f"SimpleStringSchema reads and writes UTF-8 only, not {charset}")
        super().__init__(format="raw", type_info=Types.STRING())
