"""The options of the ``canal-json`` format."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.changes.options import ChangeOptions
from penstock.options import PATTERN, opt


@dataclass(frozen=True, kw_only=True)
class CanalJsonOptions(ChangeOptions):
    """Options of ``canal-json``, with Flink's names and defaults."""

    database_include: str | None = opt(
        "database.include",
        PATTERN,
        default=None,
        doc="Read only changes of databases whose whole name matches this Java regular expression.",
        example="shop_[0-9]+",
    )
    table_include: str | None = opt(
        "table.include",
        PATTERN,
        default=None,
        doc="Read only changes of tables whose whole name matches this Java regular expression.",
        example="orders|items",
    )
