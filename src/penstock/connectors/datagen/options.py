"""The options of the ``datagen`` connector, under Flink's names."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import MAP, Codec, OptionSet, number, opt


def _parse_whole(text: str) -> int:
    value = int(text) if text.strip().isdecimal() else 0
    if not 1 <= value < 2**63:
        raise ValueError("expected 1 or more rows")
    return value


_ROWS = Codec("Long", _parse_whole)


@dataclass(frozen=True, kw_only=True)
class DatagenOptions(OptionSet):
    """Which rows there are."""

    rows_per_second: int = opt("rows-per-second", number(1), default=10_000, doc="Rows per second.", example="5")
    number_of_rows: int | None = opt(
        "number-of-rows",
        _ROWS,
        default=None,
        default_text="forever, or until the first sequence is at its end",
        doc="The number of rows, after which the table ends.",
        example="1000",
    )
    parallelism: int | None = opt(
        "scan.parallelism",
        number(1),
        default=None,
        doc="Most tasks that make rows at a time. In any case, one task makes the rows of a batch.",
        example="1",
    )
    fields: tuple[tuple[str, str], ...] = opt(
        "fields",
        MAP,
        default=(),
        doc="How the values of a column are made, in separate options: `fields.COLUMN.kind` is `random` or "
        "`sequence`. A sequence needs `start` and `end`. Random numbers are from `min` to `max`; text, bytes, arrays "
        "and maps have a `length`, and text and bytes with `var-len` = `true` any length up to it; timestamps are up "
        "to `max-past` old. `null-rate` is the part of the values that are NULL. Parts of a column follow its "
        "name: fields of a ROW by their names, and `element`, `key` and `value`.",
        example="id.kind:sequence,id.start:1,id.end:1000",
    )
