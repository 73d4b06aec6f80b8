"""Durations, by PyFlink's names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time."""

    value: timedelta

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """A number of milliseconds."""
        return Duration(timedelta(milliseconds=millis))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """A number of seconds."""
        return Duration(timedelta(seconds=seconds))

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """A number of minutes."""
        return Duration(timedelta(minutes=minutes))

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """A number of hours."""
        return Duration(timedelta(hours=hours))

    @staticmethod
    def of_days(days: int) -> Duration:
        """A number of days."""
        return Duration(timedelta(days=days))

    def to_millis(self) -> int:
        """The number of whole milliseconds."""
        return self.value // timedelta(milliseconds=1)
