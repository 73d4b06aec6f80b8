"""Plans merges: which segments to merge, and when. :meth:`Table.flush` (``flow/state/tables.py``) carries them out.

At each point of the range of hashes there is a stack of segments, the newest on top. They have levels by size, each
eight times the one below. Eight neighbours of one level are merged to one of the next: so each row is rewritten once
per level, and a look-up asks at most some eight segments per level. Where more than half of the rows are superseded,
all are merged.

A large merge is not done at once: a batch does a part of its range, which makes a separate segment, and the merged ones
are valid in the rest from then on. What is left to do follows from the references alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from penstock.flow.state.segments import SegmentRef

#: How many neighbours of a level are merged, and how much larger the next level is.
_FAN = 8
#: Segments of fewer rows are merged whenever there are two.
_SMALL = 4096
#: How much a batch may merge in any case, and the most for one merge.
_SOME, _MOST = 1 << 18, 1 << 21
#: How many bytes one merge may read at most: it holds them, its result and the bytes of its segment in memory.
_MOST_BYTES = 24 << 20


@dataclass(frozen=True)
class Merge:
    """Segments to be merged, newest first, from hash ``low`` to ``high`` (exclusive). ``oldest``: no older one."""

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
    def weight(self) -> float:
        return sum(ref.weight / (ref.high - ref.low) for ref in self.merge) * (self.high - self.low)

    @property
    def bytes(self) -> float:
        return sum(ref.rows * ref.width / (ref.high - ref.low) for ref in self.merge) * (self.high - self.low)


def plan_merges(refs: Sequence[SegmentRef], low: int, high: int, added: float) -> list[Merge]:
    """The merges that are due, as far as a batch that added this :attr:`SegmentRef.weight` should do them. No two
    overlap."""
    whole = budget = max(4 * added, _SOME, sum(ref.weight for ref in refs) / 64)
    groups = [list(group) for _, group in groupby(_walk_slices(refs, high - low, budget), _make_merge_key)]
    # Small merges first: they are due again soon, and large ones wait for them.
    due = sorted(
        (group for group in groups if group[0].merge), key=lambda group: sum(map(_measure_density, group[0].merge))
    )
    result = []
    for group in due:
        rest: Sequence[_Slice] = group
        while rest and (budget >= whole / 4 or sum(part.weight for part in rest) <= budget):
            share = _MOST_BYTES / max(1.0, sum(part.bytes for part in rest))
            first, rest = _split_by_weight(rest, min(budget, _MOST, share * sum(part.weight for part in rest)))
            budget -= sum(part.weight for part in first)
            taking = {ref for part in first for ref in part.merge}
            newest_first = tuple(sorted(taking, key=lambda ref: (-ref.newest, ref.low)))
            result.append(Merge(first[0].low, first[-1].high, newest_first, first[0].oldest))
    return result


def _split_by_weight(group: Sequence[_Slice], most: float) -> tuple[Sequence[_Slice], Sequence[_Slice]]:
    """The first slices that have this weight together, and the others. One may be cut in two."""
    for at, part in enumerate(group):
        if part.weight > most:
            cut = part.low + max(1, int((part.high - part.low) * most / part.weight))
            if cut < part.high:
                first, second = replace(part, high=cut), replace(part, low=cut)
                return [*group[:at], first], [second, *group[at + 1 :]]
        most -= part.weight
    return group, []


def remove_merged(refs: Sequence[SegmentRef], merges: Sequence[Merge]) -> list[SegmentRef]:
    """What remains of ``refs`` after these merges."""
    rest: list[SegmentRef] = []
    for ref in refs:
        at = ref.low
        for merge in sorted((each for each in merges if ref in each.refs), key=lambda each: each.low):
            rest += filter(None, [ref.clip(at, merge.low)])
            at = max(at, merge.high)
        rest += filter(None, [ref.clip(at, ref.high)])
    return rest


def count_stale_rows(merge: Merge, gone: int) -> int:
    """About how many rows the result of a merge supersedes in older segments, if ``gone`` rows disappeared in it."""
    parts = (ref.clip(merge.low, merge.high) for ref in merge.refs)
    return max(0, sum(part.stale for part in parts if part) - gone)


def join_neighbours(refs: Sequence[SegmentRef]) -> list[SegmentRef]:
    """References to neighbouring parts of one segment as one reference. If the rows of one part got their time before
    the rows of the other, the earlier time holds for both."""
    result: list[SegmentRef] = []
    for ref in sorted(refs, key=lambda ref: (ref.newest, ref.file, ref.offset, ref.low)):
        last = result[-1] if result else None
        if last and (last.file, last.offset, last.high) == (ref.file, ref.offset, ref.low):
            seen = min(filter(None, (last.seen, ref.seen)), default=0)
            rows, stale = last.rows + ref.rows, last.stale + ref.stale
            result[-1] = replace(last, high=ref.high, rows=rows, stale=stale, seen=seen)
        else:
            result.append(ref)
    return result


def split_stacks(refs: Sequence[SegmentRef], rows: int) -> Iterator[tuple[int, int, Sequence[SegmentRef]]]:
    """The ranges of hashes, in their order, in which no segment begins or ends, cut to about this many ``rows`` each,
    and the segments there, newest first."""
    for low, high, stack in _walk_stacks(refs):
        pieces = max(1, math.ceil(sum(map(_measure_density, stack)) * (high - low) / rows))
        edges = [low + (high - low) * at // pieces for at in range(pieces + 1)]
        for start, end in pairwise(edges):
            if start < end:
                yield start, end, stack


def _walk_stacks(refs: Sequence[SegmentRef]) -> Iterator[tuple[int, int, Sequence[SegmentRef]]]:
    cuts = sorted({edge for ref in refs for edge in (ref.low, ref.high)})
    by_low = sorted(refs, key=lambda ref: -ref.low)
    stack: list[SegmentRef] = []
    for start, end in pairwise(cuts):
        here = [ref for ref in stack if ref.high > start]
        while by_low and by_low[-1].low <= start:
            here.append(by_low.pop())
        stack = sorted(here, key=lambda ref: -ref.newest)
        if stack:
            yield start, end, stack


def _walk_slices(refs: Sequence[SegmentRef], width: int, budget: float) -> Iterator[_Slice]:
    """The slices in the order of hashes."""
    for start, end, stack in _walk_stacks(refs):
        first, last = _find_due(stack, width, budget)
        yield _Slice(start, end, tuple(stack[first:last]), last == len(stack), len(stack))


def _make_merge_key(part: _Slice) -> tuple[int, int] | None:
    """The key of the merge that a slice is part of. Slices of one merge take the segments between the same two ages, so
    that a segment which one slice merges is merged wherever it is valid."""
    if not part.merge:
        return None
    return part.merge[0].newest, -1 if part.oldest else part.merge[-1].newest


def _measure_density(ref: SegmentRef) -> float:
    return ref.rows / (ref.high - ref.low)


def _find_due(stack: Sequence[SegmentRef], width: int, budget: float) -> tuple[int, int]:
    """Which segments of a stack, newest first, to merge: from the first to the second (exclusive); (0, 0) for none."""
    if len(stack) < 2:
        return 0, 0
    sizes = [_measure_density(ref) * width for ref in stack]
    if sum(ref.stale / (ref.high - ref.low) * width for ref in stack) > sum(sizes) / 2:
        return 0, len(stack)
    levels: list[int] = []
    for size in sizes:  # a segment below larger ones counts as one of their level
        levels.append(max(_find_level(size), levels[-1] if levels else 0))
    start = 0
    while start < len(stack):
        end = start + levels.count(levels[start])
        if end - start >= (_FAN if levels[start] else 2):
            size = sum(sizes[start:end])
            # The result may be the last one that the next level needs. A merge that takes several batches waits, so
            # that small segments do not wait for it.
            while end < len(stack) and _find_level(size) >= levels[end] and levels.count(levels[end]) + 1 >= _FAN:
                after = end + levels.count(levels[end])
                size += sum(sizes[end:after])
                if size > budget:
                    break
                end = after
            return start, end
        start = end
    return 0, 0


def _find_level(size: float) -> int:
    level = 0
    while size >= _SMALL:
        size /= _FAN
        level += 1
    return level
