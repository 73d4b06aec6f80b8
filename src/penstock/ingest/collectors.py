"""What keeps records that are left out: the types of ``dirty-data.collector``, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import OptionsError, Problem
from penstock.ingest.definition import CollectorDef
from penstock.options import Codec, OptionSet, opt, unknown_keys


def _parse_folder(text: str) -> str:
    if not text.strip():
        raise ValueError("expected the folder for its files")
    return text


@dataclass(frozen=True, kw_only=True)
class LoggerOptions(OptionSet):
    """Records are logged."""


@dataclass(frozen=True, kw_only=True)
class FileOptions(OptionSet):
    """Records are logged, and those of a batch kept in a file of JSON lines."""

    path: str = opt(
        "path",
        Codec("String", _parse_folder, pattern=r"\S"),
        doc="The folder of the files.",
        example="/var/log/penstock/orders",
    )


COLLECTORS: Mapping[str, type[OptionSet]] = {"logger": LoggerOptions, "file": FileOptions}


def read_collector(collector: CollectorDef) -> OptionSet:
    """The options of a collector. Raises OptionsError with every problem."""
    origin, given = collector.origin, dict(collector.options)
    declared = COLLECTORS.get(collector.type)
    if declared is None:
        reason, hint = f"there is no collector '{collector.type}'", f"use {' or '.join(COLLECTORS)}"
        raise OptionsError((Problem(reason, "type", origin.locate("type"), hint),))
    problems = unknown_keys(given, declared.keys(), (), origin)
    try:
        found = declared.from_text(given, origin)
    except OptionsError as error:
        raise OptionsError((*problems, *error.problems)) from None
    if problems:
        raise OptionsError(problems)
    return found
