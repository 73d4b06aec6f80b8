"""The event time of a dataflow's sources, between its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.flow.state.manifest import Manifest
from penstock.flow.time.times import Awaited, Measured, Reached, Timing
from penstock.spi import Batch, Source, SourcePartition


@dataclass(frozen=True)
class EventTimes:
    """What a batch begins with, and what the next one begins with. ``sources`` are in the order of the scans."""

    timings: Sequence[Timing]
    sources: Sequence[Source]

    def awaited(self, batch: Batch, before: Manifest) -> Mapping[int, Awaited]:
        """The event time of each timing when the batch begins, by its number."""
        return {number: self._awaited(each, batch, before) for number, each in enumerate(self.timings)}

    def after(self, batch: Batch, before: Manifest, measured: Measured) -> Mapping[str, Reached]:
        """How far each timing has come by the end of the batch, by its name."""
        found = dict(before.times)
        for number, timing in enumerate(self.timings):
            new = measured.by_timing.get(number, {})
            known = before.times.get(timing.name, Reached()).partitions
            reached = {}
            for each in self._partitions(timing, batch):
                at = max((x for x in (known.get(each.name), new.get(each.number)) if x is not None), default=None)
                if at is not None:
                    reached[each.name] = at
            found[timing.name] = Reached(self._awaited(timing, batch, before).after(new), reached)
        return found

    def tell(self, batch: Batch, measured: Measured) -> None:
        """Give sources that do not measure event time themselves the measured watermarks of a batch, from which they
        plan idle partitions."""
        for number, timing in enumerate(self.timings):
            source, reached = self.sources[timing.scan], measured.by_timing.get(number)
            if reached and not source.measures:
                source.progressed(reached, batch.end[timing.scan])

    def _partitions(self, timing: Timing, batch: Batch) -> Sequence[SourcePartition]:
        return self.sources[timing.scan].partitions(batch.end[timing.scan])

    def _awaited(self, timing: Timing, batch: Batch, before: Manifest) -> Awaited:
        known = before.times.get(timing.name, Reached())
        found = self._partitions(timing, batch)
        waiting = {each.number: known.partitions.get(each.name) for each in found if not (each.idle or each.ended)}
        if not waiting:  # when all are idle, those that have given rows count
            reached = {each.number: known.partitions.get(each.name) for each in found if each.idle}
            waiting = {number: at for number, at in reached.items() if at is not None}
        return Awaited(known.watermark, waiting, ended=bool(found) and all(each.ended for each in found))
