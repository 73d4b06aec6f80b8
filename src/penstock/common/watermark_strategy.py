"""Watermark strategies, by PyFlink's names: the lag of event time in a source, and when idle partitions are ignored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from penstock.common.time import Duration
from penstock.spi import Watermark


@dataclass(frozen=True)
class WatermarkStrategy:
    """The lag of event time behind the newest record; None: no watermarks. After ``idleness`` without records, a
    partition no longer holds the watermark back."""

    lateness: timedelta | None = None
    idleness: timedelta | None = None

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
        return WatermarkStrategy(max_out_of_orderness.value)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """The same strategy, which ignores partitions without records for this long."""
        return replace(self, idleness=idle_timeout.value)

    @property
    def watermark(self) -> Watermark | None:
        """The watermark of a table. It lags one millisecond more, as another record with the same time may follow."""
        if self.lateness is None:
            return None
        return Watermark(lag=self.lateness // timedelta(milliseconds=1) + 1, idle_timeout=self.idleness)
