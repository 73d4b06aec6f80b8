"""Text to dates, timestamps and numbers by the rules of Spark's CAST in ANSI mode, one value at a time.

The compiled loops (``penstock.flow.kernels.parsing``) read what is in its usual form.
"""

from __future__ import annotations

import re
import zoneinfo
from datetime import date
from decimal import Decimal
from functools import cache

from penstock.flow.kernels.calendar import DAY_MICROS, ERA_DAYS
from penstock.formats.exact.numbers import java_trim, parse_decimal, parse_double, parse_float, to_decimal
from penstock.types import DecimalType

#: What Spark leaves out at both ends of a text: blanks and control characters.
BLANK = "".join(map(chr, (*range(33), 127)))

_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]"
    r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_SPECIAL = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "Infinity"),
    **dict.fromkeys(("-inf", "-infinity"), "-Infinity"),
    "nan": "NaN",
}
_OFFSET = re.compile(r"[+-](?:[0-9]|[0-9]{2}(?::[0-9]{2}(?::[0-9]{2})?|[0-9]{2}(?:[0-9]{2})?)?)")
_PREFIXED = re.compile(r"(UTC|GMT|UT)([+-].*)")
#: Java's short names of zones.
_SHORT = (
    "ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT PNT PRT PST SST VST"
)


def integer(text: str) -> int | None:
    """A whole number; None if it is none."""
    plain = text.strip(BLANK)
    return int(plain) if _WHOLE.fullmatch(plain) and len(plain) < 100 else None


def days(text: str) -> int | None:
    """A date in days since 1970. What follows a space or T is ignored."""
    found = _DATE.fullmatch(text.strip(BLANK))
    if found is None:
        return None
    sign, year, month, day = found.groups()
    return _days(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))


def _days(year: int, month: int, day: int) -> int | None:
    """The days of a date; None if there is no such day."""
    eras, of_era = divmod(year, 400)
    try:
        made = (date(2000 + of_era, month, day) - date(1970, 1, 1)).days + (eras - 5) * ERA_DAYS
    except ValueError:
        return None
    return made if -(2**31) <= made < 2**31 else None


def micros(text: str) -> int | None:
    """A timestamp in microseconds since 1970. A zone is checked, and ignored."""
    found = _TIMESTAMP.fullmatch(text.strip(BLANK))
    if found is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, zone = found.groups()
    made = _days(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if made is None or hours > 23 or minutes > 59 or seconds > 59 or (zone is not None and not _is_zone(zone.strip())):
        return None
    time = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    total = made * DAY_MICROS + time
    return total if -(2**63) <= total < 2**63 else None


def _is_zone(name: str) -> bool:
    """Whether Java knows a zone of that name, once one digit of an hour or a minute has got a zero before it."""
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([+-])([0-9]{2}):([0-9])$", r"\1\2:0\3", name, count=1)
    if name in ("Z", "UTC", "GMT", "UT") or name in _SHORT.split():
        return True
    prefixed = _PREFIXED.fullmatch(name)
    offset = prefixed[2] if prefixed else name
    if offset[:1] in ("+", "-"):
        return _is_offset(offset)
    return name in _zones()


def _is_offset(text: str) -> bool:
    if _OFFSET.fullmatch(text) is None:
        return False
    digits = text[1:].replace(":", "")
    hours, rest = (int(digits), "") if len(digits) < 3 else (int(digits[:2]), digits[2:])
    minutes, seconds = int(rest[:2] or 0), int(rest[2:] or 0)
    return minutes < 60 and seconds < 60 and hours * 3600 + minutes * 60 + seconds <= 18 * 3600


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def double(text: str) -> float | None:
    """The nearest DOUBLE; None if the text is no number."""
    return _real(text, single=False)


def single(text: str) -> float | None:
    """The nearest FLOAT; None if the text is no number."""
    return _real(text, single=True)


def _real(text: str, *, single: bool) -> float | None:
    plain = java_trim(text)
    plain = _SPECIAL.get(plain.lower(), plain)
    try:
        return parse_float(plain) if single else parse_double(plain)
    except ValueError:
        return None


def decimal(text: str, target: DecimalType) -> Decimal | str:
    """The DECIMAL; "malformed" if the text is no number, "range" if it has too many digits."""
    try:
        found = parse_decimal(java_trim(text))
    except ValueError:
        return "malformed"
    fitted = to_decimal(found, target)
    return "range" if fitted is None else fitted
