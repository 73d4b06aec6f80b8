"""How rows are assigned to windows."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from penstock.plan.expressions import Place
from penstock.plan.flink_sql import quote_names
from penstock.types import quote_name


class WindowKind(enum.Enum):
    """The kinds of windows."""

    TUMBLE = "tumble"
    HOP = "hop"
    CUMULATE = "cumulate"
    SESSION = "session"


@dataclass(frozen=True)
class Windowing:
    """Windows over the column ``time``, all lengths in milliseconds.

    ``size`` is the length of a window, for CUMULATE the greatest, for SESSION the gap that ends one. ``step`` is the
    time between the starts of windows of HOP, and between the ends of those of CUMULATE. Windows begin ``offset`` after
    full ones since 1970. ``zoned``: they are windows of the local time of moments. ``processing``: they are windows of
    processing time, whatever the column has. Sessions consist of rows with equal ``keys``, or, if ``grouped``, of the
    rows of each group. ``place`` is where they are written, if that is a text.
    """

    kind: WindowKind
    time: str
    size: int
    step: int = 0
    offset: int = 0
    zoned: bool = False
    processing: bool = False
    keys: tuple[str, ...] = ()
    grouped: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def stride(self) -> int:
        """The time between the starts of windows, or between their ends."""
        return self.step or self.size

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns of rows that say which windows these are in."""
        return (*([] if self.processing else [self.time]), *self.keys)

    def describe(self) -> str:
        """A human-readable description: ``hop(ts, 5 s, 1 min)``."""
        lengths = [_show_length(each) for each in (self.step, self.size) if each]
        lengths += [f"offset {_show_length(self.offset)}"] if self.offset else []
        time = "processing time" if self.processing else self.time
        of = f" of each {', '.join(self.keys)}" if self.keys else ""
        return f"{self.kind.value}({', '.join([time, *lengths])}){of}"


@dataclass(frozen=True)
class Attached:
    """The windows that rows were assigned to before: their columns ``start`` and ``end``. ``zoned`` is as above."""

    start: str
    end: str
    zoned: bool = False

    @property
    def processing(self) -> bool:
        """Never: such windows are windows of event time."""
        return False

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns of rows that say which window these are in."""
        return self.start, self.end

    def describe(self) -> str:
        """A human-readable description."""
        return f"the windows {self.start} to {self.end}"


@dataclass(frozen=True)
class WindowColumns:
    """The columns of a row that say what its window is: its start, its end (exclusive), and its time attribute, the
    last moment in it."""

    start: str
    end: str
    time: str

    @property
    def names(self) -> tuple[str, str, str]:
        """The names, in this order."""
        return self.start, self.end, self.time

    def part(self, name: str) -> str:
        """Which part of a window a column is: its ``start``, its ``end`` or its ``time``; empty for none."""
        return dict(zip(self.names, ("start", "end", "time"), strict=True)).get(name, "")

    def describe(self) -> str:
        """A human-readable description."""
        return f"window {quote_names((self.start, self.end))}, time attribute {quote_name(self.time)}"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def _show_length(millis: int) -> str:
    for unit, size in _UNITS:
        if millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"
