"""The ``print`` connector: its options, under Flink's names, its sink spec, and its factory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import BOOLEAN, TEXT, OptionSet, Rule, choice, number, opt
from penstock.spi import CHANGES, AnySettings, Guarantee, SinkCapabilities, TableDefinition
from penstock.types import RowType


def _check_guarantee(options: PrintOptions) -> Iterator[Problem]:
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        reason = "'print' cannot tell what it has printed before"
        yield Problem(reason, "sink.delivery-guarantee", hint="set it to at-least-once")


@dataclass(frozen=True, kw_only=True)
class PrintOptions(OptionSet):
    """How rows are printed."""

    rules: ClassVar[tuple[Rule, ...]] = (_check_guarantee,)

    identifier: str = opt(
        "print-identifier", TEXT, default="", doc="Text that begins every line, followed by '> '.", example="orders"
    )
    standard_error: bool = opt("standard-error", BOOLEAN, default=False, doc="Print to standard error.", example="true")
    parallelism: int | None = opt(
        "sink.parallelism",
        number(1),
        default=None,
        doc="Most tasks that print at a time. In any case, the driver alone prints, where the user sees it.",
        example="1",
    )
    guarantee: Guarantee | None = opt(
        "sink.delivery-guarantee",
        choice(Guarantee),
        default=None,
        doc="Set it to at-least-once beside an exactly-once table: a batch that is retried is printed again.",
        example="at-least-once",
    )


@dataclass(frozen=True, kw_only=True)
class PrintSinkSpec(AnySettings):
    """Prints rows of ``schema``, one line each, as Flink does: ``orders> +I[1, apple]``. ``found``: the table is one of
    those that are found while the job runs, whose lines begin with its name unless the options say how."""

    table: str
    options: PrintOptions
    schema: RowType
    found: bool = False

    @property
    def prefix(self) -> str:
        """What its lines begin with."""
        name = self.options.identifier or (self.table if self.found else "")
        return f"{name}> " if name else ""

    @property
    def capabilities(self) -> SinkCapabilities:
        """No guarantee, unless the table agrees that a batch that is retried may be printed again."""
        return SinkCapabilities(kinds=CHANGES, guarantee=self.options.guarantee)

    def describe(self) -> str:
        """A human-readable description, one line."""
        return f"print sink '{self.table}' to standard {'error' if self.options.standard_error else 'output'}"


class PrintConnector:
    """A sink that shows rows."""

    identifier = "print"
    options: Mapping[str, type[OptionSet]] = {"Sink": PrintOptions}
    runtime = "penstock.connectors.print.spark:PrintRuntime"

    def sink(self, table: TableDefinition) -> PrintSinkSpec:
        """How ``table`` is written. Raises OptionsError with every problem found."""
        return PrintSinkSpec(table=table.name, options=table.bind_options(PrintOptions), schema=table.written)

    def tables_sink(self, table: TableDefinition) -> PrintSinkSpec:
        """How tables with the options of ``table`` are written, which are found while the job runs. Raises OptionsError
        with every problem found."""
        return replace(self.sink(table), found=True)
