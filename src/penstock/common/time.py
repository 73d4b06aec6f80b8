"""Durations, as PyFlink writes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time."""

    value: timedelta

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """So many milliseconds."""
        return Duration(timedelta(milliseconds=millis))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """So many seconds."""
        return Duration(timedelta(seconds=seconds))

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """So many minutes."""
        return Duration(timedelta(minutes=minutes))

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """So many hours."""
        return Duration(timedelta(hours=hours))

    @staticmethod
    def of_days(days: int) -> Duration:
        """So many days."""
        return Duration(timedelta(days=days))

    def to_millis(self) -> int:
        """The whole milliseconds in it."""
        return self.value // timedelta(milliseconds=1)
