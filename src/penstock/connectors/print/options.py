"""The options of the ``print`` connector, under Flink's names."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import BOOLEAN, TEXT, OptionSet, opt

__all__ = ["PrintOptions"]


@dataclass(frozen=True, kw_only=True)
class PrintOptions(OptionSet):
    """How rows are printed."""

    identifier: str = opt(
        "print-identifier", TEXT, default="", doc="Text that begins every line, followed by '> '.", example="orders"
    )
    standard_error: bool = opt("standard-error", BOOLEAN, default=False, doc="Print to standard error.", example="true")
