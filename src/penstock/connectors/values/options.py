"""The options of the ``values`` connector, under the names of the connector that Flink's own tests use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import BOOLEAN, TEXT, Codec, OptionSet, Rule, choice, number, opt
from penstock.spi import INSERTIONS, Guarantee
from penstock.types import RowKind

_KINDS = {"I": RowKind.INSERT, "UB": RowKind.UPDATE_BEFORE, "UA": RowKind.UPDATE_AFTER, "D": RowKind.DELETE}


def _parse_kinds(text: str) -> frozenset[RowKind]:
    names = [name.strip().upper() for name in text.split(",")]
    if not set(names) <= _KINDS.keys():
        raise ValueError("expected some of I, UB, UA and D, joined by commas")
    return frozenset(_KINDS[name] for name in names)


def _show_kinds(kinds: frozenset[RowKind]) -> str:
    return ",".join(name for name, kind in _KINDS.items() if kind in kinds)


_CHANGELOG = Codec("ChangelogMode", _parse_kinds, _show_kinds)


def _check_guarantee(options: ValuesSinkOptions) -> Iterator[Problem]:
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        reason = "rows in memory are not part of a transaction"
        yield Problem(reason, "sink.delivery-guarantee", hint="set it to at-least-once")


@dataclass(frozen=True, kw_only=True)
class ValuesSourceOptions(OptionSet):
    """How rows are read."""

    data_id: str = opt(
        "data-id", TEXT, doc="The id of the rows, which `penstock.connectors.values.register` gives.", example="orders"
    )
    bounded: bool = opt(
        "bounded",
        BOOLEAN,
        default=True,
        doc="Whether the table ends with its last row; otherwise the job runs until it is stopped.",
        example="false",
    )
    kinds: frozenset[RowKind] = opt(
        "changelog-mode",
        _CHANGELOG,
        default=INSERTIONS,
        doc="The row kinds that the rows may have: I, UB, UA and D for +I, -U, +U and -D. With UA and without UB, a row"
        " replaces the one of its PRIMARY KEY, and -D needs the key alone; else -U and -D have their whole row.",
        example="I,UB,UA,D",
    )
    most: int | None = opt(
        "scan.max-records-per-trigger", number(1), default=None, doc="The most rows of a batch.", example="100"
    )


@dataclass(frozen=True, kw_only=True)
class ValuesSinkOptions(OptionSet):
    """How rows are written."""

    rules: ClassVar[tuple[Rule, ...]] = (_check_guarantee,)

    data_id: str | None = opt(
        "data-id",
        TEXT,
        default=None,
        default_text="the table's name",
        doc="Where `penstock.connectors.values.rows` finds the rows.",
        example="copies",
    )
    insert_only: bool = opt(
        "sink-insert-only",
        BOOLEAN,
        default=True,
        doc="Whether updates and deletions are refused.",
        example="false",
    )
    guarantee: Guarantee | None = opt(
        "sink.delivery-guarantee",
        choice(Guarantee),
        default=None,
        doc="Set it to at-least-once beside an exactly-once table: when a batch is retried, its rows are added again.",
        example="at-least-once",
    )
