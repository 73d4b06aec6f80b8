"""Event time of a stream in Python: calls of timestamp assigners and of generators of watermarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.common.conversions import CAUGHT
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.datastream.function_calls import NO_TIMESTAMP, ValueBatch, failed
from penstock.datastream.function_steps import Step


@dataclass(frozen=True)
class TimestampsCall:
    """An assigner of timestamps, called with each value."""

    function: Callable[[Any, int], Any]

    def __call__(self, rows: ValueBatch, step: Step) -> None:
        times = rows.times or [None] * rows.count
        out: list[int | None] = []
        try:
            out.extend(
                int(self.function(value, NO_TIMESTAMP if at is None else at))
                for value, at in zip(rows.values(), times, strict=True)
            )
        except CAUGHT as error:
            raise failed(step, error, rows.number(len(out))) from error
        rows.times = out


@dataclass(frozen=True)
class WatermarksCall:
    """A generator of watermarks, called with each value."""

    generator: WatermarkGenerator

    def __call__(self, rows: ValueBatch, step: Step) -> None:
        output, found = WatermarkOutput(), list[int | None]()
        try:
            for value, at in zip(rows.values(), rows.times or (), strict=True):
                self.generator.on_event(value, NO_TIMESTAMP if at is None else at, output)
                found.append(output.watermark)
            self.generator.on_periodic_emit(output)
        except CAUGHT as error:
            raise failed(step, error, rows.number(min(len(found), rows.count - 1)) if rows.count else -1) from error
        rows.watermarks = [*found[:-1], output.watermark] if found else []
