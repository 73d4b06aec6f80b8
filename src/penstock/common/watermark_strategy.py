"""Watermark strategies, by PyFlink's names: the lag of event time in a source, when idle partitions are ignored, and
the timestamps of values."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from penstock.common.arguments import expect
from penstock.common.time import Duration
from penstock.spi import Watermark

__all__ = ["TimestampAssigner", "WatermarkStrategy"]


def expect_strategy(given: Any, call: str) -> WatermarkStrategy:
    """``given``, the strategy of a ``call``. Raises ArgumentError for anything else."""
    hint = (
        "there are WatermarkStrategy.no_watermarks(), for_monotonous_timestamps() and "
        "for_bounded_out_of_orderness(Duration), each with_timestamp_assigner(..) and with_idleness(..); custom "
        "watermark generators are not supported yet"
    )
    return expect(given, WatermarkStrategy, call, hint)


def _expect_duration(given: Any, call: str) -> timedelta:
    return expect(given, Duration, call, "for example Duration.of_seconds(30)").value


class TimestampAssigner(ABC):
    """Finds the timestamp of a value."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The timestamp, in ms since 1970. ``record_timestamp`` is the one that the value has so far, -2**63 for
        none."""


@dataclass(frozen=True)
class WatermarkStrategy:
    """The lag of event time behind the newest record; None: no watermarks. After ``idleness`` without records, a
    partition no longer holds the watermark back. ``assigner`` finds the timestamps of values, instead of Kafka's."""

    lateness: timedelta | None = None
    idleness: timedelta | None = None
    assigner: TimestampAssigner | None = None

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
        """The same strategy for the timestamps that ``timestamp_assigner`` finds. They are the timestamps of records
        that are written, too. Sources do not measure watermarks of them."""
        if not callable(getattr(timestamp_assigner, "extract_timestamp", None)):
            hint = "derive a class from it, with extract_timestamp(value, record_timestamp)"
            expect(timestamp_assigner, TimestampAssigner, "with_timestamp_assigner", hint)
        return replace(self, assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """The same strategy, which ignores partitions without records for this long."""
        return replace(self, idleness=_expect_duration(idle_timeout, "with_idleness"))

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Duration, update_interval: Duration | None = None
    ) -> WatermarkStrategy:
        """In Flink sources wait for slower ones of their group. Warns: here a batch reads from all of them."""
        warnings.warn(
            "with_watermark_alignment has no effect here: each batch reads from all sources of a job", stacklevel=2
        )
        return self

    @property
    def watermark(self) -> Watermark | None:
        """The watermark of a table. It lags one millisecond more, as another record with the same time may follow."""
        if self.lateness is None:
            return None
        return Watermark(lag=self.lateness // timedelta(milliseconds=1) + 1, idle_timeout=self.idleness)
