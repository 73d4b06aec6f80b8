"""Watermark strategies, by PyFlink's names: the lag of event time in a source, when idle partitions are ignored, and
the timestamps of values."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from penstock.common.time import Duration
from penstock.spi import Watermark

__all__ = ["TimestampAssigner", "WatermarkStrategy"]


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
        return WatermarkStrategy(max_out_of_orderness.value)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """The same strategy for the timestamps that ``timestamp_assigner`` finds. They are the timestamps of records
        that are written, too. Sources do not measure watermarks of them."""
        return replace(self, assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """The same strategy, which ignores partitions without records for this long."""
        return replace(self, idleness=idle_timeout.value)

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
