"""Watermark strategies, as PyFlink writes them: how far event time has come in a source, and which of its partitions
are waited for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from penstock.common.time import Duration
from penstock.spi import Watermark


@dataclass(frozen=True)
class WatermarkStrategy:
    """How far event time lags behind the newest record; None: no watermarks. ``idleness``: when a silent partition
    no longer holds the watermark back."""

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
        """The same strategy, with partitions left out that were silent this long."""
        return replace(self, idleness=idle_timeout.value)

    @property
    def watermark(self) -> Watermark | None:
        """The same for a table. It is a millisecond behind: another record of the same time may follow."""
        if self.lateness is None:
            return None
        return Watermark(lag=self.lateness // timedelta(milliseconds=1) + 1, idle_timeout=self.idleness)
