"""Event time of a table that is read: what its watermark follows, and the options of Flink about it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import OptionsError, Problem
from penstock.options import (
    DURATION,
    TEXT,
    Codec,
    OptionSet,
    Origin,
    choice,
    number,
    opt,
    opt_without_effect,
    unknown_keys,
)

_PREFIX = "scan.watermark."
_EMISSION = "the watermark advances with each batch"
_ALIGNMENT = "a batch reads what each of its tables has, up to a limit, and none waits for another"
#: Longer than any job runs.
_NEVER = timedelta(days=36_500)


def _parse_timeout(text: str) -> timedelta:
    found: timedelta = DURATION.parse(text)
    if found < timedelta(0):
        raise ValueError("expected a duration of 0 or more")
    return found or _NEVER


def _show_timeout(value: timedelta) -> str:
    return DURATION.show(timedelta(0) if value == _NEVER else value)


def describe_idleness(timeout: timedelta | None) -> str:
    """When a partition is idle, in words; empty where nothing is said about it."""
    if timeout is None:
        return ""
    return "never idle" if timeout in (_NEVER, timedelta(0)) else f"idle after {DURATION.show(timeout)}"


@dataclass(frozen=True)
class Watermark:
    """How far event time has come in a table that is read.

    ``column`` holds the event time of a row; when it is empty, the timestamp of the record is the event time. The
    watermark after a row is its event time less ``lag``, in ms, or, with None, another function of the row, which the
    engine computes. ``unit`` is the number of ms in a unit of an integer column. A partition without rows is idle after
    ``idle_timeout``; None means the job's setting.
    """

    column: str = ""
    lag: int | None = 0
    unit: int | None = None
    idle_timeout: timedelta | None = None


class EmitStrategy(enum.Enum):
    """When Flink's sources emit watermarks. Accepted for compatibility."""

    ON_EVENT = "on-event"
    ON_PERIODIC = "on-periodic"


@dataclass(frozen=True, kw_only=True)
class WatermarkOptions(OptionSet):
    """Options about WATERMARK FOR, which a table of any connector may have in SQL."""

    idle_timeout: timedelta | None = opt(
        "scan.watermark.idle-timeout",
        Codec("Duration", _parse_timeout, _show_timeout),
        default=None,
        default_text="'table.exec.source.idle-timeout'",
        doc="How long the table's watermark waits for a partition without new rows; 0 means forever.",
        example="30 s",
    )
    emit_strategy: EmitStrategy | None = opt_without_effect(
        "scan.watermark.emit.strategy", choice(EmitStrategy), _EMISSION, example="on-event"
    )
    emit_gap: int | None = opt_without_effect("scan.watermark.emit.on-event.gap", number(1), _EMISSION, example="10")
    alignment_group: str | None = opt_without_effect(
        "scan.watermark.alignment.group", TEXT, _ALIGNMENT, example="orders"
    )
    alignment_drift: timedelta | None = opt_without_effect(
        "scan.watermark.alignment.max-drift", DURATION, _ALIGNMENT, example="1 min"
    )
    alignment_interval: timedelta | None = opt_without_effect(
        "scan.watermark.alignment.update-interval", DURATION, _ALIGNMENT, example="1 s"
    )


def split_options(
    given: Mapping[str, str], origin: Origin
) -> tuple[dict[str, str], WatermarkOptions, tuple[Problem, ...]]:
    """The options ``given`` without the options of event time, the options of event time, and their problems."""
    own = {key: value for key, value in given.items() if key.startswith(_PREFIX)}
    others = {key: value for key, value in given.items() if key not in own}
    problems = unknown_keys(own, WatermarkOptions.keys(), (), origin)
    try:
        return others, WatermarkOptions.from_text(own, origin), problems
    except OptionsError as error:
        return others, WatermarkOptions(), (*problems, *error.problems)
