"""Durations and points in time, by PyFlink's names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Duration", "Instant", "Time"]

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time."""

    value: timedelta

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """A number of nanoseconds, of which whole microseconds count."""
        return Duration(timedelta(microseconds=nanos // 1000))

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
        return self.value // _MILLISECOND


@dataclass(frozen=True, order=True)
class Instant:
    """A point in time: seconds since 1970, and nanoseconds after them."""

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """A number of milliseconds since 1970."""
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * 1_000_000)

    def to_epoch_milli(self) -> int:
        """The whole milliseconds since 1970."""
        return self.seconds * 1000 + self.nanos // 1_000_000


@dataclass(frozen=True, order=True, init=False)
class Time:
    """A span of time in milliseconds."""

    value: int

    def __init__(self, milliseconds: int):
        object.__setattr__(self, "value", milliseconds)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """A number of milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """A number of seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """A number of minutes."""
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        """A number of hours."""
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        """A number of days."""
        return Time.hours(days * 24)

    def to_milliseconds(self) -> int:
        """The number of milliseconds."""
        return self.value
