"""Timestamps by patterns of Java's formatters with names, or with numbers of any width, one text at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.flow.kernels.moments.calendar import DAY_MICROS, Numbers, civil, day_and_time, days_of, last_day
from penstock.flow.kernels.vectors import valid_rows

_TOKEN = re.compile(r"(?P<letters>(?P<letter>[A-Za-z])(?P=letter)*)|'(?P<quoted>(?:[^']|'')*)'|(?P<other>[^A-Za-z'])")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000

#: By the letter of a number: its value from the year, month, day, day of the week and day of the year, and from the
#: microseconds of the day.
_DATED: Mapping[str, Callable[[int, int, int, int, int], int]] = {
    "y": lambda year, month, day, week, of_year: year if year > 0 else 1 - year,
    "u": lambda year, month, day, week, of_year: year,
    "Q": lambda year, month, day, week, of_year: (month + 2) // 3,
    "M": lambda year, month, day, week, of_year: month,
    "L": lambda year, month, day, week, of_year: month,
    "D": lambda year, month, day, week, of_year: of_year,
    "d": lambda year, month, day, week, of_year: day,
}
_TIMED: Mapping[str, Callable[[int], int]] = {
    "H": lambda time: time // _HOUR,
    "k": lambda time: (time // _HOUR - 1) % 24 + 1,
    "K": lambda time: time // _HOUR % 12,
    "h": lambda time: (time // _HOUR - 1) % 12 + 1,
    "m": lambda time: time // _MINUTE % 60,
    "s": lambda time: time // _SECOND % 60,
}
#: What can be read, and which letter of the same field it is.
_READ = {"y": "y", "u": "y", "M": "M", "L": "M", "d": "d", "E": "E", "H": "H", "h": "h", "a": "a", "m": "m", "s": "s"}
_LIMITS = {"M": (1, 12), "d": (1, 31), "H": (0, 23), "h": (1, 12), "m": (0, 59), "s": (0, 59)}


def tokens(text: str, *, simple: bool = False) -> list[str] | None:
    """The parts of a pattern: runs of a letter; text between them, which begins with a quote; and brackets around what
    may be missing, which ``simple`` patterns, those of SimpleDateFormat, do not have. None for a text that is not a
    pattern."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at = found.end()
        quoted = found["quoted"]
        plain = found["other"] if quoted is None else quoted.replace("''", "'") or "'"
        if found["other"] and not simple:
            if plain in "#{}":
                return None
            if plain in "[]":
                parts.append(plain)
                continue
        parts.append(found["letters"] or f"'{plain}")
    opened = 0
    for each in parts:
        opened += (each == "[") - (each == "]")
        if opened < 0:
            return None
    return [*parts, *"]" * opened]


#: The letters of DateTimeFormatter, each with the most that may follow one another.
_LETTERS = {
    **dict.fromkeys("GMLQqEceaBxXOzv", 5),
    **dict.fromkeys("uyYASnNW", 19),
    **dict.fromkeys("dhHkKmswF", 2),
    "D": 3,
    "V": 2,
    "Z": 5,
    "p": 100,
}


def is_malformed(text: str) -> bool:
    """Whether Java's DateTimeFormatter refuses a pattern."""
    parts = tokens(text)
    return parts is None or any(each[0] not in "'[]" and len(each) > _LETTERS.get(each[0], 0) for each in parts)


@dataclass(frozen=True)
class NamedPattern:
    """A pattern of the parts of :func:`tokens`. In ``simple`` ones u is the day of the week."""

    parts: tuple[str, ...]
    simple: bool

    @classmethod
    def from_text(cls, text: str, *, simple: bool = False) -> NamedPattern | None:
        """The pattern of a text, None if a part of it is not known here."""
        parts = tokens(text, simple=simple)
        return (
            None if parts is None or not all(_is_known(each, simple) for each in parts) else cls(tuple(parts), simple)
        )

    # --- writing ---------------------------------------------------------------------------------------------

    def write(self, micros: Numbers, values: pa.Array) -> pa.Array:
        """The texts of timestamps; null where ``values`` are."""
        days, times = day_and_time(micros)
        known: dict[tuple[int, int], str] = {}
        texts: list[str | None] = [None] * len(values)
        for row in np.flatnonzero(valid_rows(values)).tolist():
            moment = int(days[row]), int(times[row])
            if moment not in known:
                known[moment] = self._write_text(*moment)
            texts[row] = known[moment]
        return pa.array(texts, pa.string())

    def _write_text(self, day: int, time: int) -> str:
        year, month, of_month = (int(each[0]) for each in civil(np.array([day])))
        first = int(days_of(np.array([year]), np.array([1]), 1)[0])
        date = year, month, of_month, (day + 3) % 7, day - first + 1
        written = (each[1:] if each[0] == "'" else self._write_field(each, date, time) for each in self.parts)
        return "".join(written)

    def _write_field(self, letters: str, date: tuple[int, int, int, int, int], time: int) -> str:
        letter, width = letters[0], len(letters)
        year, month, _, week, _ = date
        match letter:
            case "[" | "]":
                return ""
            case "G":
                return "AD" if year > 0 else "BC"
            case "a":
                return "PM" if time >= 12 * _HOUR else "AM"
            case "E":
                return _DAYS[week] if width > 3 else _DAYS[week][:3]
            case "M" | "L" if width > 2:
                return _MONTHS[month - 1] if width > 3 else _MONTHS[month - 1][:3]
            case "S":
                return f"{time % _SECOND:06d}".ljust(9, "0")[:width]
            case "w":
                return f"{_find_week(*date):0{width}d}"
            case "u" if self.simple:
                return f"{week + 1:0{width}d}"
        number = _DATED[letter](*date) if letter in _DATED else _TIMED[letter](time)
        if letter in "yu" and width == 2:
            number %= 100
        sign = "+" if letter in "yu" and number > 9999 and width > 3 and not self.simple else ""
        return f"{sign}{number:0{width}d}"

    # --- reading ---------------------------------------------------------------------------------------------

    @property
    def readable(self) -> bool:
        """Whether no field occurs twice, and all fields can be read."""
        letters = [each[0] for each in self.parts if each[0] not in "'[]S"]
        fields = [_READ.get(each, "") for each in letters]
        return all(fields) and len(set(fields)) == len(fields) and sum(each[0] == "S" for each in self.parts) < 2

    def read(self, values: pa.Array, otherwise: Callable[[str], int | None]) -> tuple[Numbers, NDArray[np.bool_]]:
        """Microseconds since 1970 by the texts, and which texts follow the pattern, or can be read ``otherwise``.
        Missing fields are taken from 1970-01-01 00:00:00."""
        found, accepted = np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        known: dict[str, int | None] = {}
        for row, text in enumerate(values.to_pylist()):
            if text is None:
                continue
            if text not in known:
                moment = self._read_moment(text)
                known[text] = otherwise(text) if moment is None else moment
            value = known[text]
            if value is not None:
                found[row], accepted[row] = value, True
        return found, accepted

    def _read_moment(self, text: str) -> int | None:
        match = self._regex.fullmatch(text)
        if match is None:
            return None
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        numbers = {name: int(value) for name, value in fields.items() if value.isdecimal() and name != "S"}
        if "M" in fields and "M" not in numbers:
            numbers["M"] = next(at for at, name in enumerate(_MONTHS, 1) if name[:3] == fields["M"][:3])
        if any(not least <= numbers.get(name, least) <= most for name, (least, most) in _LIMITS.items()):
            return None
        year, month, day = numbers.get("y", 1970), numbers.get("M", 1), numbers.get("d", 1)
        year += 2000 if "y" in fields and len(fields["y"]) == 2 else 0
        if not 1 <= year <= 290_000:
            return None
        day = min(day, int(last_day(np.array([year]), np.array([month]))[0]))
        days = int(days_of(np.array([year]), np.array([month]), day)[0])
        if "E" in fields and fields["E"][:3] != _DAYS[(days + 3) % 7][:3]:
            return None
        hour = numbers.get("H", 0)
        if "h" in numbers and "a" in fields:
            hour = numbers["h"] % 12 + (12 if fields["a"].upper() == "PM" else 0)
        time = hour * _HOUR + numbers.get("m", 0) * _MINUTE + numbers.get("s", 0) * _SECOND
        return days * DAY_MICROS + time + int(fields.get("S", "").ljust(6, "0")[:6])

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile("".join(map(_make_reading, self.parts)))


def _is_known(part: str, simple: bool) -> bool:
    letter, width = part[0], len(part)
    if letter in "'[]":
        return True
    known = letter in "GEawS" or letter in _DATED or letter in _TIMED
    most = 9 if letter == "S" else 99 if simple else 9 if letter in "Ea" else _LETTERS.get(letter, 0)
    return known and width <= most and not (letter == "Q" and (simple or width > 2))


def _make_reading(part: str) -> str:
    """The regular expression of a part."""
    letter, width = part[0], len(part)
    match letter:
        case "'":
            return re.escape(part[1:])
        case "[":
            return "(?:"
        case "]":
            return ")?"
        case "E":
            return f"(?P<E>{'|'.join(each if width > 3 else each[:3] for each in _DAYS)})"
        case "M" | "L" if width > 2:
            return f"(?P<M>{'|'.join(each if width > 3 else each[:3] for each in _MONTHS)})"
        case "a":
            return "(?P<a>AM|PM|am|pm)"
        case "S":
            return f"(?P<S>[0-9]{{{width}}})"
        case "y" | "u" if width != 2:
            return "(?P<y>[0-9]{4})" if width == 4 else "(?P<y>[0-9]{1,6})"
    return f"(?P<{_READ[letter]}>[0-9]{{{'1,2' if width == 1 else width}}})"


def _find_week(year: int, month: int, day: int, week: int, of_year: int) -> int:
    """The week of the year; the first one, which begins on a Sunday, has the 1st of January."""
    sunday_first = (week + 1) % 7  # days since Sunday
    first_of_year = (sunday_first - (of_year - 1)) % 7
    number = (of_year - 1 + first_of_year) // 7 + 1
    length = 366 if int(last_day(np.array([year]), np.array([2]))[0]) == 29 else 365
    return 1 if length - of_year < 6 - sunday_first else number
