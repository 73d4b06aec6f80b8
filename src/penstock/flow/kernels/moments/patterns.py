"""Timestamps by patterns of Java's DateTimeFormatter, as far as they have only numbers of a fixed width."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.buffers import binary_parts
from penstock.flow.kernels.moments.calendar import DAY_MICROS, Numbers, civil, day_and_time, days_of, last_day
from penstock.flow.kernels.moments.datetimes import (
    Field,
    compose_text,
    four_digits,
    localize,
    micros_of,
    overflow_reason,
)
from penstock.flow.kernels.moments.local import from_local, to_local
from penstock.flow.kernels.moments.named_patterns import NamedPattern, is_malformed, tokens
from penstock.flow.kernels.moments.readings import lenient, sql_moment
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Vector, column, numbers, valid_rows
from penstock.plan.expressions import Call, Expression, Literal
from penstock.types import arrow_type
from penstock.types.logical import root

_FRACTIONS = {"S" * digits: digits for digits in range(1, 7)}
_WIDTHS = {"yyyy": 4, "yy": 2, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2, **_FRACTIONS}
#: The unit of each field, in microseconds.
_TIME_UNITS = {
    "HH": 3_600_000_000,
    "mm": 60_000_000,
    "ss": 1_000_000,
    **{k: 10 ** (6 - n) for k, n in _FRACTIONS.items()},
}
#: The last second within the range of timestamps.
_MOST_SECONDS = (2**63 - 1) // 1_000_000
_TIME_LIMITS = {"HH": 24, "mm": 60, "ss": 60}


@dataclass(frozen=True)
class Pattern:
    """A pattern: runs of letters, and bytes between them. ``simple`` patterns are those of SimpleDateFormat, where a
    year of more than four digits has no sign."""

    parts: tuple[str | bytes, ...]
    simple: bool = False

    @classmethod
    def from_text(cls, text: str, *, simple: bool = False) -> Pattern | None:
        """The pattern of a text, None if a part of it is not known here."""
        found = tokens(text)
        if found is None or any(each[0] != "'" and each not in _WIDTHS for each in found):
            return None
        parts = [each[1:].encode() if each[0] == "'" else each for each in found]
        letters = [each for each in parts if isinstance(each, str)]
        return cls(tuple(parts), simple) if letters else None

    @property
    def letters(self) -> tuple[str, ...]:
        """The runs of letters."""
        return tuple(each for each in self.parts if isinstance(each, str))

    # --- writing ---------------------------------------------------------------------------------------------

    def write(self, micros: Numbers, values: pa.Array) -> pa.Array:
        """The texts of timestamps; null where ``values`` are."""
        days, time = day_and_time(micros)
        plain = four_digits(days, valid_rows(values))
        found = compose_text(self._split_fields(np.where(plain, days, 0), time), values)
        if plain.all():
            return found
        texts: list[str | None] = [None] * len(values)
        for row in np.flatnonzero(~plain).tolist():
            texts[row] = self._write_far(int(days[row]), int(time[row]))
        return pc.coalesce(pa.array(texts, pa.string()), found)

    def _split_fields(self, days: Numbers, time: Numbers) -> list[Field]:
        year, month, day = civil(days)
        dated = {"yyyy": year, "yy": year % 100, "MM": month, "dd": day}
        fields: list[Field] = []
        for each in self.parts:
            if isinstance(each, bytes):
                fields.append(each)
            elif each in dated:
                fields.append((dated[each], _WIDTHS[each]))
            else:
                count = _TIME_LIMITS.get(each, 10 ** _WIDTHS[each])
                fields.append((time // _TIME_UNITS[each] % count, _WIDTHS[each]))
        return fields

    def _write_far(self, days: int, time: int) -> str:
        """The text of a timestamp in a year of other than four digits, which is counted from its era."""
        fields = self._split_fields(np.array([days]), np.array([time]))
        year = int(civil(np.array([days]))[0][0])
        of_era = year if year > 0 else 1 - year
        parts = []
        for given, field in zip(self.parts, fields, strict=True):
            if isinstance(field, bytes):
                parts.append(field.decode())
            elif given == "yyyy":
                parts.append(f"{'+' if of_era > 9999 and not self.simple else ''}{of_era:04d}")
            elif given == "yy":
                parts.append(f"{of_era % 100:02d}")
            else:
                parts.append(f"{int(field[0][0]):0{field[1]}d}")
        return "".join(parts)

    # --- reading ---------------------------------------------------------------------------------------------

    @property
    def readable(self) -> bool:
        """Whether it has no field twice, and no fraction before other digits."""
        names = [each[:1] for each in self.letters]
        beside = zip(self.parts, self.parts[1:], strict=False)
        runs_on = any(one in _FRACTIONS and isinstance(other, str) for one, other in beside)
        return len(names) == len(set(names)) and not runs_on

    def read(self, values: pa.Array, otherwise: Callable[[str], int | None]) -> tuple[Numbers, NDArray[np.bool_]]:
        """Microseconds since 1970 by the texts, and which texts follow the pattern, or can be read ``otherwise``.
        Missing fields are taken from 1970-01-01 00:00:00."""
        text, starts = binary_parts(values)
        width = sum(len(each) if isinstance(each, bytes) else _WIDTHS[each] for each in self.parts)
        valid = valid_rows(values)
        plain = valid & (np.diff(starts) == width)
        rows = np.flatnonzero(plain)
        characters = (
            text[starts[:-1][rows][:, None] + np.arange(width)] if len(rows) else np.zeros((0, width), np.uint8)
        )
        fields, good = self._read_fields(characters)
        micros, real = _combine_fields(fields, len(rows))
        good &= real
        found, accepted = np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        found[rows[good]], accepted[rows[good]] = micros[good], True
        for row in np.flatnonzero(valid & ~accepted).tolist():
            moment = self._read_one(values[row].as_py(), otherwise)
            if moment is not None:
                found[row], accepted[row] = moment, True
        return found, accepted

    def _read_fields(self, characters: NDArray[np.uint8]) -> tuple[dict[str, Numbers], NDArray[np.bool_]]:
        fields: dict[str, Numbers] = {}
        good = np.ones(len(characters), np.bool_)
        at = 0
        for each in self.parts:
            size = len(each) if isinstance(each, bytes) else _WIDTHS[each]
            part = characters[:, at : at + size]
            at += size
            if isinstance(each, bytes):
                good &= (part == np.frombuffer(each, np.uint8)).all(axis=1)
                continue
            digits = part.astype(np.int64) - ord("0")
            good &= ((digits >= 0) & (digits <= 9)).all(axis=1)
            fields[each] = digits @ (10 ** np.arange(size - 1, -1, -1, dtype=np.int64))
        return fields, good

    def _read_one(self, text: str, otherwise: Callable[[str], int | None]) -> int | None:
        """The moment of a text that is longer or shorter than the pattern, or in another case; for a text that does not
        follow the pattern, the result of ``otherwise``."""
        found = self._make_regex().fullmatch(text)
        if found is None:
            return otherwise(text)
        fields = {}
        for letters in self.letters:
            digits = found[letters[:1]]
            if letters in _FRACTIONS:
                letters, digits = "S" * 6, digits.ljust(6, "0")  # noqa: PLW2901
            fields[letters] = np.array([min(int(digits), 10**9)])
        micros, real = _combine_fields(fields, 1)
        return int(micros[0]) if real[0] else otherwise(text)

    def _make_regex(self) -> re.Pattern[str]:
        parts = []
        for each, after in zip(self.parts, (*self.parts[1:], b""), strict=True):
            if isinstance(each, bytes):
                parts.append(re.escape(each.decode()))
            elif each == "yyyy" and self.simple:
                parts.append("(?P<y>[0-9]{4,9})" if isinstance(after, bytes) else "(?P<y>[0-9]{4})")
            elif each == "yyyy":
                parts.append("(?P<y>[0-9]{4}|[+][0-9]{5,19})")
            elif each in _FRACTIONS:
                parts.append(f"(?P<S>[0-9]{{{len(each)}}})")
            else:
                parts.append(f"(?P<{each[:1]}>[0-9]{{2}})")
        return re.compile("".join(parts), re.IGNORECASE | re.ASCII)


def _combine_fields(fields: dict[str, Numbers], rows: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """The microseconds of fields, and where such a moment exists."""

    def field(name: str, default: int) -> Numbers:
        return fields.get(name, np.full(rows, default, np.int64))

    year = field("yyyy", 1970)
    good = np.ones(rows, np.bool_)
    if "yyyy" in fields:
        good &= (year >= 1) & (year <= 290_000)
    if "yy" in fields:
        year = fields["yy"] + 2000
    month, day = field("MM", 1), field("dd", 1)
    good &= (month >= 1) & (month <= 12) & (day >= 1)
    month = np.where(good, month, 1)
    good &= day <= 31
    day = np.minimum(day, last_day(year, month))
    micros = days_of(np.where(good, year, 1970), month, day) * DAY_MICROS
    for name, unit in _TIME_UNITS.items():
        if name in fields:
            good &= fields[name] < _TIME_LIMITS.get(name, 10**6)
            micros = micros + fields[name] * unit
    return micros, good


def pattern_of(given: Expression, *, simple: bool = False) -> Pattern | NamedPattern | None:
    """The pattern of a constant; None for another expression, and for a pattern with unknown parts. ``simple`` patterns
    are those of SimpleDateFormat."""
    if not isinstance(given, Literal) or not isinstance(given.value, str):
        return None
    return Pattern.from_text(given.value, simple=simple) or NamedPattern.from_text(given.value, simple=simple)


def timestamps(pattern: Pattern | NamedPattern, arrow: pa.DataType, values: pa.Array, *_: Any) -> pa.Array:
    """Texts as timestamps or dates, null for those that do not follow the pattern. As timestamps, Flink reads what
    Java's ``Timestamp.valueOf`` and ``Date.valueOf`` do, too."""
    if pa.types.is_date32(arrow):
        micros, accepted = pattern.read(values, lambda _: None)
        return column((micros // DAY_MICROS).astype(np.int32), accepted, arrow)
    micros, accepted = pattern.read(values, sql_moment)
    return column(micros - micros % 1000, accepted, arrow)


_Maker = Callable[[Call, Session], Kernel | None]


def _allow_null(maker: _Maker) -> _Maker:
    """The kernels of a ``maker``, and one for calls with a literal NULL, whose value is NULL."""

    @wraps(maker)
    def make_kernel(call: Call, session: Session) -> Kernel | None:
        if any(isinstance(each, Literal) and each.value is None for each in call.args):
            return _make_nulls(arrow_type(call.type))
        return maker(call, session)

    return make_kernel


def _make_nulls(arrow: pa.DataType) -> Kernel:
    return Strict(arrow, lambda values, *_: pa.nulls(len(values), arrow))


def _is_refused(given: Expression) -> bool:
    """Whether a constant is not a pattern of Java's DateTimeFormatter: Flink reads no text with it."""
    return isinstance(given, Literal) and isinstance(given.value, str) and is_malformed(given.value)


@_allow_null
def date_format(call: Call, session: Session) -> Kernel | None:
    """``DATE_FORMAT``."""
    moment, given = call.args
    texts = root(moment.type) == "STRING"
    pattern, local = pattern_of(given, simple=texts), localize(moment.type, session)
    if pattern is None or local is None:
        return None
    if texts:
        return Strict(pa.string(), lambda values, _: _rewrite_texts(pattern, values))
    return Strict(pa.string(), lambda values, _: pattern.write(micros_of(local(values)), values))


def _rewrite_texts(pattern: Pattern | NamedPattern, values: pa.Array) -> pa.Array:
    """Texts ``yyyy-MM-dd HH:mm:ss`` by another pattern, null for other texts."""
    micros, accepted = _USUAL.read(values, lenient)
    return pattern.write(micros, column(micros, accepted, pa.int64()))


#: ``yyyy-MM-dd HH:mm:ss``
_USUAL = Pattern(("yyyy", b"-", "MM", b"-", "dd", b" ", "HH", b":", "mm", b":", "ss"), simple=True)


@_allow_null
def from_unixtime(call: Call, session: Session) -> Kernel | None:
    """``FROM_UNIXTIME``."""
    pattern = pattern_of(call.args[1], simple=True) if len(call.args) == 2 else _USUAL
    local = to_local(session)
    if pattern is None or local is None:
        return None

    def write(values: pa.Array, *_: pa.Scalar) -> pa.Array | Vector:
        seconds = numbers(values).astype(np.int64)
        beyond = (seconds > _MOST_SECONDS) | (seconds < -_MOST_SECONDS)
        micros = np.where(beyond, 0, seconds) * 1_000_000
        moments = column(micros, valid_rows(values), pa.timestamp("us", "UTC"))
        made = pattern.write(micros_of(local(moments)), values)
        return Vector(made, (Failure(beyond, overflow_reason(call)),)) if beyond.any() else made

    return Strict(pa.string(), write)


@_allow_null
def unix_timestamp(call: Call, session: Session) -> Kernel | None:
    """``UNIX_TIMESTAMP`` of text by a constant pattern; the least BIGINT for a text that does not follow it."""
    instant = from_local(session, last=True)
    if not call.args or instant is None:
        return None
    pattern = pattern_of(call.args[1], simple=True) if len(call.args) == 2 else _USUAL
    if pattern is None or not pattern.readable:
        return None
    otherwise = lenient if pattern == _USUAL else lambda _: None

    def seconds(values: pa.Array, *_: pa.Scalar) -> pa.Array:
        micros, accepted = pattern.read(values, otherwise)
        moments = instant(column(micros, accepted, pa.timestamp("us")))
        found = np.where(accepted, numbers(moments.view(pa.int64())) // 1_000_000, np.iinfo(np.int64).min)
        return column(found, valid_rows(values), pa.int64())

    return Strict(pa.int64(), seconds)


@_allow_null
def to_moment(call: Call, session: Session) -> Kernel | None:
    """``TO_TIMESTAMP`` and ``TO_DATE`` by a constant pattern; null for a text that does not follow it, and for
    all texts if it is not a pattern."""
    pattern = pattern_of(call.args[1]) if len(call.args) == 2 else None
    if call.function == "TO_TIMESTAMP" and _is_refused(call.args[1]):
        return _make_nulls(arrow_type(call.type))
    if pattern is None or not pattern.readable:
        return None
    return Strict(arrow_type(call.type), partial(timestamps, pattern, arrow_type(call.type)))


@_allow_null
def to_instant(call: Call, session: Session) -> Kernel | None:
    """``TO_TIMESTAMP_LTZ`` of text by a constant pattern, as local time of a constant zone, UTC unless it is given;
    null for all texts if one of them is not known."""
    text, *rest = call.args
    pattern = pattern_of(rest[0]) if rest else None
    zone = rest[1].value if len(rest) == 2 and isinstance(rest[1], Literal) else "UTC" if len(rest) < 2 else None
    if not isinstance(zone, str) or not rest or root(text.type) != "STRING":
        return None
    instant = from_local(Session(zone))
    if instant is None or _is_refused(rest[0]):
        return _make_nulls(arrow_type(call.type))
    if pattern is None or not pattern.readable:
        return None
    return Strict(arrow_type(call.type), lambda values, *_: instant(timestamps(pattern, pa.timestamp("us"), values)))
