"""Which segments to merge when.

At each point of the range of hashes, segments lie on one another, the newest on top. They have levels by size, each
eight times the one below. Eight neighbours of one level are merged to one of the next: so each row is rewritten once
per level, and a look-up asks at most some eight segments per level. Where more than half of the rows are superseded,
all are merged.

A large merge is not done at once: a batch does a part of its range, which makes a segment of its own, and the merged
ones are valid in the rest from then on. What is left to do follows from the references alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from penstock.flow.segments import SegmentRef

#: How many neighbours of a level are merged, and how much larger the next level is.
_FAN = 8
#: Segments of fewer rows are merged whenever there are two.
_SMALL = 4096
#: Rows that a batch may merge in any case.
_SOME = 1 << 18


@dataclass(frozen=True)
class Merge:
    """Segments to be merged, newest first, from hash ``low`` up to but not ``high``. ``oldest``: no older one."""

    low: int
    high: int
    refs: tuple[SegmentRef, ...]
    oldest: bool

    @property
    def newest(self) -> int:
        return self.refs[0].newest


@dataclass(frozen=True)
class _Slice:
    """A part of the range in which no segment begins or ends."""

    low: int
    high: int
    merge: tuple[SegmentRef, ...]
    oldest: bool
    depth: int

    @property
    def rows(self) -> float:
        return sum(_density(ref) for ref in self.merge) * (self.high - self.low)


def merges(refs: Sequence[SegmentRef], low: int, high: int, added: int) -> list[Merge]:
    """The merges that are due, as far as a batch that added this many rows should do them. No two overlap."""
    budget = float(max(4 * added, _SOME, sum(ref.rows for ref in refs) // 64))
    groups = [list(group) for _, group in groupby(_slices(refs, low, high), _same_merge)]
    due = sorted((group for group in groups if group[0].merge), key=lambda group: -group[0].depth)
    result = []
    for group in due:
        end = group[0].low
        for part in group:
            end = part.high
            if part.rows > budget:
                end = part.low + int((part.high - part.low) * budget / part.rows)
            budget -= part.rows
            if budget <= 0:
                break
        if end > group[0].low:
            taking = {ref: None for part in group if part.low < end for ref in part.merge}
            ordered = sorted(taking, key=lambda ref: -ref.newest)
            result.append(Merge(group[0].low, end, tuple(ordered), group[0].oldest))
        if budget <= 0:
            break
    return result


def without(refs: Sequence[SegmentRef], merges: Sequence[Merge]) -> list[SegmentRef]:
    """What remains of ``refs`` after these merges."""
    rest: list[SegmentRef] = []
    for ref in refs:
        at = ref.low
        for merge in sorted((each for each in merges if ref in each.refs), key=lambda each: each.low):
            rest += filter(None, [ref.within(at, merge.low)])
            at = max(at, merge.high)
        rest += filter(None, [ref.within(at, ref.high)])
    return rest


def stale_rows(merge: Merge, gone: int) -> int:
    """How many rows the result of a merge supersedes in older segments, about, if ``gone`` ones disappeared in it."""
    parts = (ref.within(merge.low, merge.high) for ref in merge.refs)
    return max(0, sum(part.stale for part in parts if part) - gone)


def joined(refs: Sequence[SegmentRef]) -> list[SegmentRef]:
    """References to neighbouring parts of one segment as one."""
    result: list[SegmentRef] = []
    for ref in sorted(refs, key=lambda ref: (ref.newest, ref.file, ref.offset, ref.low)):
        last = result[-1] if result else None
        if last and (last.file, last.offset, last.high) == (ref.file, ref.offset, ref.low):
            result[-1] = replace(last, high=ref.high, rows=last.rows + ref.rows, stale=last.stale + ref.stale)
        else:
            result.append(ref)
    return result


def _slices(refs: Sequence[SegmentRef], low: int, high: int) -> Iterator[_Slice]:
    """The slices in the order of hashes."""
    cuts = sorted({low, high, *(ref.low for ref in refs), *(ref.high for ref in refs)})
    by_low = sorted(refs, key=lambda ref: -ref.low)
    stack: list[SegmentRef] = []
    for start, end in pairwise(cuts):
        begin = [ref for ref in stack if ref.high > start]
        while by_low and by_low[-1].low <= start:
            begin.append(by_low.pop())
        stack = sorted(begin, key=lambda ref: -ref.newest)
        first, last = _due(stack, high - low)
        yield _Slice(start, end, tuple(stack[first:last]), last == len(stack), len(stack))


def _same_merge(part: _Slice) -> tuple[int, int] | None:
    """Slices of one merge take the segments between the same two ages: so one that is part of it in a slice is part of
    it wherever it is valid."""
    if not part.merge:
        return None
    return part.merge[0].newest, -1 if part.oldest else part.merge[-1].newest


def _density(ref: SegmentRef) -> float:
    return ref.rows / (ref.high - ref.low)


def _due(stack: Sequence[SegmentRef], width: int) -> tuple[int, int]:
    """Which segments of a stack, newest first, to merge: from the first up to but not the second; (0, 0) for none."""
    if len(stack) < 2:
        return 0, 0
    sizes = [_density(ref) * width for ref in stack]
    if sum(ref.stale / (ref.high - ref.low) * width for ref in stack) > sum(sizes) / 2:
        return 0, len(stack)
    levels: list[int] = []
    for size in sizes:  # a segment below larger ones counts as one of their level
        levels.append(max(_level(size), levels[-1] if levels else 0))
    start = 0
    while start < len(stack):
        end = start + levels.count(levels[start])
        if end - start >= (_FAN if levels[start] else 2):
            size = sum(sizes[start:end])
            # The result may be the last one that the next level needs.
            while end < len(stack) and _level(size) >= levels[end] and levels.count(levels[end]) + 1 >= _FAN:
                size += sum(sizes[end : end + levels.count(levels[end])])
                end += levels.count(levels[end])
            return start, end
        start = end
    return 0, 0


def _level(size: float) -> int:
    level = 0
    while size >= _SMALL:
        size /= _FAN
        level += 1
    return level
