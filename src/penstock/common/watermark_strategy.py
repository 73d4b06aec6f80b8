"""Watermark strategies, by Flink's names: the timestamps of values, the watermarks that follow from them, and when idle
partitions are ignored. PyFlink has no generators of watermarks in Python; they have the names of Java's here."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from penstock.common.arguments import expect
from penstock.common.time import Duration
from penstock.spi import Watermark

__all__ = ["TimestampAssigner", "WatermarkGenerator", "WatermarkOutput", "WatermarkStrategy"]


#: Timestamps have 64 bits of microseconds.
_LAST_MILLIS = (2**63 - 1) // 1000


def expect_strategy(given: Any, call: str) -> WatermarkStrategy:
    """``given``, the strategy of a ``call``. Raises ArgumentError for anything else."""
    hint = (
        "there are WatermarkStrategy.no_watermarks(), for_monotonous_timestamps() and "
        "for_bounded_out_of_orderness(Duration) and for_generator(..), each with_timestamp_assigner(..) and "
        "with_idleness(..)"
    )
    return expect(given, WatermarkStrategy, call, hint).resolve()


def _expect_duration(given: Any, call: str) -> timedelta:
    return expect(given, Duration, call, "for example Duration.of_seconds(30)").value


class TimestampAssigner(ABC):
    """Finds the timestamp of a value."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The timestamp, in ms since 1970. ``record_timestamp`` is the one that the value has so far, -2**63 for
        none."""


class WatermarkOutput:
    """Takes the watermarks of a generator."""

    def __init__(self) -> None:
        #: The last watermark, in ms since 1970; None before the first one. Watermarks never go back.
        self.watermark: int | None = None

    def emit_watermark(self, watermark: int) -> None:
        """No value with a timestamp up to ``watermark``, in ms since 1970, is expected any more. A watermark before all
        timestamps says nothing; one after all of them is as the last of them."""
        at = min(int(watermark), _LAST_MILLIS)
        if at >= -_LAST_MILLIS:
            self.watermark = at if self.watermark is None else max(self.watermark, at)

    def mark_idle(self) -> None:
        """No effect: partitions without records are idle after :meth:`WatermarkStrategy.with_idleness`."""

    def mark_active(self) -> None:
        """No effect, as :meth:`mark_idle`."""


class WatermarkGenerator(ABC):
    """Generates watermarks from the values of a stream. Each batch has a new generator for each partition of the
    source: the watermark of a partition is the largest of all its batches, that of the stream the smallest of its
    partitions."""

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for each value, with its timestamp in ms since 1970, -2**63 for none."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called after the last value that a task has at hand, some thousands at most."""


@dataclass(frozen=True)
class WatermarkStrategy:
    """How the watermarks of a stream follow from the timestamps of its values. With ``lateness``, a watermark is so
    much behind the newest timestamp; a ``generator`` gives others; without both there are none. After ``idleness``
    without records, a partition no longer holds the watermark back. ``assigner`` finds the timestamps of values,
    instead of Kafka's.

    A class derived from this one may define :meth:`create_watermark_generator` and :meth:`create_timestamp_assigner`.
    """

    lateness: timedelta | None = None
    idleness: timedelta | None = None
    assigner: TimestampAssigner | None = None
    generator: Callable[[], WatermarkGenerator | None] | None = None

    def create_watermark_generator(self) -> WatermarkGenerator | None:
        """A new generator, in classes that define this."""
        return None if self.generator is None else self.generator()

    def create_timestamp_assigner(self) -> TimestampAssigner | None:
        """The assigner, in classes that define this."""
        return self.assigner

    def resolve(self) -> WatermarkStrategy:
        """The same strategy, with what a derived class defines in its fields."""
        own = type(self).create_watermark_generator is not WatermarkStrategy.create_watermark_generator
        generator = self.create_watermark_generator if own else self.generator
        return WatermarkStrategy(self.lateness, self.idleness, self.create_timestamp_assigner(), generator)

    @staticmethod
    def for_generator(generator: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Watermarks of the generators that ``generator`` makes: a class derived from :class:`WatermarkGenerator`, or
        a function without arguments. It is pickled."""
        hint = "give the class of the generator, or a function that makes one"
        expect(generator, Callable, "for_generator", hint)  # type: ignore[arg-type]
        return WatermarkStrategy(generator=generator)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No event time."""
        return WatermarkStrategy()

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps never go back within a partition."""
        return WatermarkStrategy(timedelta(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Timestamps go back by at most this much within a partition."""
        return WatermarkStrategy(_expect_duration(max_out_of_orderness, "for_bounded_out_of_orderness"))

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """The same strategy for the timestamps that ``timestamp_assigner`` finds. Watermarks follow them, and records
        that are written have them."""
        if not callable(getattr(timestamp_assigner, "extract_timestamp", None)):
            hint = "derive a class from it, with extract_timestamp(value, record_timestamp)"
            expect(timestamp_assigner, TimestampAssigner, "with_timestamp_assigner", hint)
        return replace(self.resolve(), assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """The same strategy, which ignores partitions without records for this long."""
        return replace(self.resolve(), idleness=_expect_duration(idle_timeout, "with_idleness"))

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> WatermarkStrategy:
        """In Flink sources wait for slower ones of their group. Warns: here a batch reads from all of them."""
        warnings.warn(
            "with_watermark_alignment has no effect here: each batch reads from all sources of a job", stacklevel=2
        )
        return self

    @property
    def lag(self) -> int | None:
        """How far the watermark is behind the newest timestamp, in ms: one more than ``lateness``, because another
        value with the same timestamp may follow. None for watermarks of a generator, or none."""
        if self.lateness is None or self.generator is not None:
            return None
        return self.lateness // timedelta(milliseconds=1) + 1

    @property
    def generates(self) -> bool:
        """Whether the stream gets watermarks."""
        return self.lateness is not None or self.generator is not None

    @property
    def watermark(self) -> Watermark | None:
        """The watermark of a table whose records have the timestamps of the stream; None without one, and where
        functions find the timestamps or the watermarks."""
        if self.lag is None or self.assigner is not None:
            return None
        return Watermark(lag=self.lag, idle_timeout=self.idleness)
