"""The options of the ``print`` connector, under Flink's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import BOOLEAN, TEXT, OptionSet, Rule, choice, opt
from penstock.spi import Guarantee


def _not_exactly_once(options: PrintOptions) -> Iterator[Problem]:
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        reason = "a printer cannot tell what it has printed before"
        yield Problem(reason, "sink.delivery-guarantee", hint="set it to at-least-once")


@dataclass(frozen=True, kw_only=True)
class PrintOptions(OptionSet):
    """How rows are printed."""

    rules: ClassVar[tuple[Rule, ...]] = (_not_exactly_once,)

    identifier: str = opt(
        "print-identifier", TEXT, default="", doc="Text that begins every line, followed by '> '.", example="orders"
    )
    standard_error: bool = opt("standard-error", BOOLEAN, default=False, doc="Print to standard error.", example="true")
    guarantee: Guarantee | None = opt(
        "sink.delivery-guarantee",
        choice(Guarantee),
        default=None,
        doc="at-least-once has to be said beside an exactly-once table: a batch that is done again is printed again.",
        example="at-least-once",
    )
