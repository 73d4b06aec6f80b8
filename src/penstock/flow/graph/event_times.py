"""The event time of a dataflow's sources, between its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.flow.state.manifest import Manifest
from penstock.flow.time.watermarks import MeasuredWatermarks, PendingPartitions, ScanWatermarks, WatermarkProgress
from penstock.spi import Batch, Source, SourcePartition


@dataclass(frozen=True)
class EventTimes:
    """What a batch begins with, and what the next one begins with. ``sources`` are in the order of the scans."""

    generators: Sequence[ScanWatermarks]
    sources: Sequence[Source]

    def pending_partitions(self, batch: Batch, before: Manifest) -> Mapping[int, PendingPartitions]:
        """The event time of each generator when the batch begins, by its number."""
        return {number: self._pending(each, batch, before) for number, each in enumerate(self.generators)}

    def progress_after(
        self, batch: Batch, before: Manifest, measured: MeasuredWatermarks
    ) -> Mapping[str, WatermarkProgress]:
        """How far each generator has come by the end of the batch, by its name."""
        found = dict(before.times)
        for number, generator in enumerate(self.generators):
            new = measured.by_generator.get(number, {})
            known = before.times.get(generator.name, WatermarkProgress()).partitions
            reached = {}
            for each in self._partitions(generator, batch):
                at = max((x for x in (known.get(each.name), new.get(each.number)) if x is not None), default=None)
                if at is not None:
                    reached[each.name] = at
            found[generator.name] = WatermarkProgress(
                self._pending(generator, batch, before).watermark_after(new), reached
            )
        return found

    def report_to_sources(self, batch: Batch, measured: MeasuredWatermarks) -> None:
        """Give sources that do not measure event time themselves the measured watermarks of a batch, from which they
        plan idle partitions."""
        for number, generator in enumerate(self.generators):
            source, reached = self.sources[generator.scan], measured.by_generator.get(number)
            if reached and not source.measures:
                source.receive_watermarks(reached, batch.end[generator.scan])

    def _partitions(self, generator: ScanWatermarks, batch: Batch) -> Sequence[SourcePartition]:
        return self.sources[generator.scan].partitions(batch.end[generator.scan])

    def _pending(self, generator: ScanWatermarks, batch: Batch, before: Manifest) -> PendingPartitions:
        known = before.times.get(generator.name, WatermarkProgress())
        found = self._partitions(generator, batch)
        waiting = {each.number: known.partitions.get(each.name) for each in found if not (each.idle or each.ended)}
        if not waiting:  # when all are idle, those that have given rows count
            reached = {each.number: known.partitions.get(each.name) for each in found if each.idle}
            waiting = {number: at for number, at in reached.items() if at is not None}
        return PendingPartitions(known.watermark, waiting, ended=bool(found) and all(each.ended for each in found))
