"""How the formats of keys and values are chosen among the options of a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.ingest.tables.declared_reader import DeclaredReader
from penstock.options import Origin
from penstock.spi import ChangeFormat, Format, InferringFormat, TableReader


def find_prefix(given: Iterable[str], identifier: str) -> str:
    """What the options of the format of 'value.format' begin with; 'value.' may be left out."""
    long = f"value.{identifier}."
    return long if any(key.startswith(long) for key in given) else f"{identifier}."


def find_key_reader(
    found: Format, given: Mapping[str, str], origin: Origin, *, declared: bool
) -> TableReader[Any] | None:
    """What reads keys of a format: into the columns that are ``declared``, or into those that they show; None for a
    format from which columns cannot be inferred. Raises OptionsError."""
    prefix = f"key.{found.identifier}."
    if declared:
        return DeclaredReader(found.identifier, found.options.from_text(given, origin, prefix))
    if isinstance(found, InferringFormat) and not isinstance(found, ChangeFormat):
        return found.table_reader(found.options.from_text(given, origin, prefix), found.inference.from_text({}))
    return None
