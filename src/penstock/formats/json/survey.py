"""What fields JSON objects have, and of what kinds their values are: what an inferred schema is made of.

Fields that are known have the types of their columns, and only values that do not fit these are noted. A type of NULL
means that the type is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes
from penstock.exact.errors import Malformed
from penstock.formats.json import survey_kernel as kernel
from penstock.formats.json.fitting import describe_limits, fits, split_decimal
from penstock.formats.json.options import TimestampStandard
from penstock.formats.json.parser import Document, Number, Object, parse
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.survey_kernel import survey_objects
from penstock.formats.json.syntax import unescape
from penstock.loops.record_status import EXACT, NO_ROW, READ
from penstock.types import NULL, DecimalType, Field, NullType
from penstock.types.logical import MAX_PRECISION

_SEPARATORS = {TimestampStandard.SQL: ord(" "), TimestampStandard.ISO_8601: ord("T")}
#: The most occurrences of unknown fields that one pass notes.
_ROOM = 1 << 12


@dataclass(frozen=True)
class FieldSurvey:
    """The values of one field that do not fit its type. ``firsts[kind]`` is the number of the first message that has
    one of that kind (:mod:`penstock.formats.json.survey_kernel`), or -1. ``digits`` is the most digits of an integer of
    more than 64 bits, or before the point in a DECIMAL column, ``fraction`` that of a fraction of a second, or behind
    the point."""

    name: str
    firsts: tuple[int, ...]
    digits: int
    fraction: int

    @property
    def kinds(self) -> frozenset[int]:
        """The kinds of values that occur."""
        return frozenset(kind for kind, first in enumerate(self.firsts) if first >= 0)

    @property
    def first(self) -> int:
        """The number of the first message with a value, or -1."""
        return min((first for first in self.firsts if first >= 0), default=-1)

    def without(self, kind: int) -> FieldSurvey:
        """The values of other kinds."""
        return replace(self, firsts=(*self.firsts[:kind], -1, *self.firsts[kind + 1 :]))

    def combine(self, other: FieldSurvey) -> FieldSurvey:
        """The values of both."""
        firsts = (max(pair) if min(pair) < 0 else min(pair) for pair in zip(self.firsts, other.firsts, strict=True))
        digits, fraction = max(self.digits, other.digits), max(self.fraction, other.fraction)
        return FieldSurvey(self.name, tuple(firsts), digits, fraction)


@dataclass(frozen=True)
class Survey:
    """The fields of some messages: the known ones, and then others in the order in which they first occur. ``bad`` are
    the messages that are not JSON objects, each with the reason."""

    fields: tuple[FieldSurvey, ...]
    bad: tuple[tuple[int, str], ...]


class _Tally:
    """What was found of the fields so far."""

    def __init__(self, known: Sequence[Field]):
        self.fields = list(known)
        self.firsts = np.full((len(known), kernel.KINDS), -1, np.int64)
        self.sizes = np.zeros((len(known), 2), np.int64)
        self._places = {each.name: at for at, each in enumerate(known)}

    def add_fields(self, names: Sequence[str]) -> None:
        """Make room for more fields."""
        for name in names:
            self._places[name] = len(self.fields)
            self.fields.append(Field(name, NULL))
        self.firsts = np.vstack([self.firsts, np.full((len(names), kernel.KINDS), -1, np.int64)])
        self.sizes = np.vstack([self.sizes, np.zeros((len(names), 2), np.int64)])

    def note(self, row: int, name: str, value: Document, separator: int) -> None:
        """Note one value, unless it fits its type."""
        if name not in self._places:
            self.add_fields([name])
        at = self._places[name]
        data_type = self.fields[at].type
        kind, digits, fraction = _classify(value, separator)
        if fits(value, kind, fraction, data_type):
            return
        if isinstance(data_type, DecimalType) and isinstance(value, Number):
            digits, fraction = split_decimal(value)
        first = self.firsts[at, kind]
        self.firsts[at, kind] = row if first < 0 else min(first, row)
        self.sizes[at] = np.maximum(self.sizes[at], [digits, fraction])

    def result(self, message: npt.NDArray[np.int64]) -> tuple[FieldSurvey, ...]:
        """The fields. ``message`` has the number of the message of each object."""
        firsts = np.append(message, -1)[self.firsts]
        return tuple(
            FieldSurvey(each.name, tuple(first.tolist()), int(digits), int(fraction))
            for each, first, (digits, fraction) in zip(self.fields, firsts, self.sizes, strict=True)
        )


def survey_messages(
    messages: pa.BinaryArray, known: Sequence[Field] = (), standard: TimestampStandard = TimestampStandard.SQL
) -> Survey:
    """Survey messages, each a JSON object; NULL and empty ones are left out. The fields ``known`` come first."""
    return survey_spans(TextSpans.from_messages(messages), known, standard)


def survey_spans(
    spans: TextSpans, known: Sequence[Field] = (), standard: TimestampStandard = TimestampStandard.SQL
) -> Survey:
    """Survey objects in messages. The fields ``known`` come first."""
    separator, status = _SEPARATORS[standard], spans.status
    refused: list[tuple[int, str]] = []
    while True:
        tally = _Tally(known)
        left = _survey_fast(tally, spans, status, separator)
        bad = [*_survey_exactly(tally, spans, left, separator)]
        if not bad:
            reasons = tuple((int(spans.message[row]), reason) for row, reason in sorted(refused))
            fields = tally.result(spans.message)
            new = sorted(fields[len(known) :], key=lambda each: each.first)
            return Survey((*fields[: len(known)], *new), reasons)
        # What was seen of them before their mistake does not count.
        refused += bad
        status[[row for row, _ in bad]] = NO_ROW


def survey_nested(
    spans: TextSpans, known: Sequence[Field] = (), standard: TimestampStandard = TimestampStandard.SQL
) -> Survey:
    """Survey objects in messages, and in place of each object in them its own fields, at any depth, with dotted names.
    A field that has other values too has both: those, and the fields of its objects. One that is a known column keeps
    its objects."""
    found: dict[str, FieldSurvey] = {}
    bad: dict[int, str] = {}
    waiting = [("", spans)]
    while waiting:
        prefix, objects = waiting.pop()
        inside = _find_inner(known, prefix)
        columns = {each.name for each in inside if not isinstance(each.type, NullType)}
        survey = survey_spans(objects, inside, standard)
        bad |= dict(survey.bad)
        for each in survey.fields:
            name = prefix + each.name
            if each.firsts[kernel.OBJECT] >= 0 and each.name not in columns:
                inner = objects.members(each.name).objects()
                bad = dict.fromkeys(inner.unread, "its objects are nested too deeply to be flattened") | bad
                waiting.append((f"{name}.", inner))
                each = each.without(kernel.OBJECT)  # noqa: PLW2901 - the fields of its objects are there instead
            if each.kinds:
                found[name] = found[name].combine(each) if name in found else replace(each, name=name)
    names = [each.name for each in known]
    new = sorted((each for name, each in found.items() if name not in names), key=lambda each: each.first)
    fields = [found.get(name) or FieldSurvey(name, (-1,) * kernel.KINDS, 0, 0) for name in names]
    return Survey((*fields, *new), tuple(sorted(bad.items())))


def _find_inner(known: Sequence[Field], prefix: str) -> list[Field]:
    """The known fields of the objects whose fields' names begin so. Those that are no columns, because their own fields
    are, have no type."""
    found: dict[str, Field] = {}
    for each in known:
        name, dot, _ = each.name.removeprefix(prefix).partition(".") if each.name.startswith(prefix) else ("", "", "")
        if name and not dot:
            found[name] = Field(name, each.type)
        elif name:
            found.setdefault(name, Field(name, NULL))
    return list(found.values())


def _survey_fast(
    tally: _Tally, spans: TextSpans, status: npt.NDArray[np.uint8], separator: int
) -> npt.NDArray[np.int64]:
    """Survey the objects that the loop can read. The numbers of the others."""
    while all('"' not in each.name and "\\" not in each.name for each in tally.fields):
        keys = [f'{each.name}":'.encode() for each in tally.fields]
        key_starts = np.zeros(len(keys) + 1, np.int64)
        key_starts[1:] = np.cumsum([len(key) for key in keys])
        names = np.frombuffer(b"".join(keys), np.uint8), key_starts
        unknown = np.zeros((_ROOM, 3), np.int64)
        outcome = status.copy()
        found = tally.firsts, tally.sizes, unknown
        types = describe_limits(tally.fields)
        count = survey_objects(spans.text, spans.starts, spans.ends, names, types, separator, outcome, *found)
        if not count:
            return np.flatnonzero(outcome == EXACT)
        tally.add_fields(list(dict.fromkeys(_read_name(spans.text, *span) for span in unknown[:count, 1:].tolist())))
    return np.flatnonzero(status == READ)


def _read_name(text: Bytes, start: int, size: int) -> str:
    if start >= 0:
        return text[start : start + size].tobytes().decode()
    name = np.empty(size, np.uint8)
    unescape(text, ~start, name, 0, size)
    return name.tobytes().decode()


def _survey_exactly(
    tally: _Tally, spans: TextSpans, rows: npt.NDArray[np.int64], separator: int
) -> Iterator[tuple[int, str]]:
    """Survey these objects one by one. Those that are not JSON objects, each with the reason."""
    for row in rows.tolist():
        try:
            document = parse(spans.text[spans.starts[row] : spans.ends[row]].tobytes())
        except Malformed as error:
            yield row, str(error)
            continue
        if not isinstance(document, Object):
            yield row, "expected a JSON object"
            continue
        for name, value in document.pairs:
            tally.note(row, name, value, separator)


def _classify(value: Document, separator: int) -> tuple[int, int, int]:
    """The kind of a value, and its digits, as the loop finds them."""
    match value:
        case None:
            return kernel.NULL, 0, 0
        case bool():
            return kernel.BOOLEAN, 0, 0
        case Object():
            return kernel.OBJECT, 0, 0
        case list():
            return kernel.ARRAY, 0, 0
        case Number():
            if not value.is_whole:
                return kernel.FRACTION, 0, 0
            if -(2**63) <= int(value.text) < 2**63:
                return kernel.INTEGER, 0, 0
            digits = len(value.text.lstrip("-"))
            return (kernel.LARGE, digits, 0) if digits <= MAX_PRECISION else (kernel.HUGE, 0, 0)
    found = np.frombuffer(str(value).encode(), np.uint8)
    kind, fraction = kernel.text_kind(found, 0, len(found), separator)
    return int(kind), 0, int(fraction)
