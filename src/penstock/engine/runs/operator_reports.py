"""What operators report of a batch: late rows, and the watermark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.flow.time.watermarks import END_OF_TIME, NEVER, OperatorTime
from penstock.spi import MetricGroup


@dataclass(frozen=True)
class OperatorReport:
    """An operator's late rows in a batch, the watermark at its end, in ms since 1970, and the time at which it needs
    another batch."""

    late: int
    watermark: int
    wake: int | None = None

    def count(self, group: MetricGroup) -> None:
        """Count them, by Flink's names of metrics."""
        group.count("numLateRecordsDropped", "lateRecordsDroppedRate", self.late)
        if NEVER < self.watermark < END_OF_TIME:
            group.gauge("currentInputWatermark", lambda: self.watermark)


def next_wake(reports: Iterable[OperatorReport], before_ms: int, now_ms: int) -> int | None:
    """When operators need another batch after one at ``now_ms`` that has these reports, and came after one at
    ``before_ms``; None if they need none. Where the machine's clock was set back, so that no time has passed, operators
    without rows have not run, and their requests stay."""
    if now_ms <= before_ms:
        return now_ms + 1
    return min((each.wake for each in reports if each.wake is not None), default=None)


def operator_times(
    before: Mapping[str, OperatorTime], reports: Mapping[str, OperatorReport]
) -> dict[str, OperatorTime]:
    """What operators have seen of event time by the end of a batch with these reports, from what they had seen before.
    Those that use processing time are left out."""
    found = dict(before)
    for uid, each in reports.items():
        if uid in before or each.watermark > NEVER:
            found[uid] = OperatorTime(each.watermark, each.late + (before[uid].late if uid in before else 0))
    return found


def operator_reports(reports: Iterable[bytes]) -> dict[str, OperatorReport]:
    """The report of each operator, by uid, from those of its owners."""
    found: dict[str, OperatorReport] = {}
    for report in map(json.loads, reports):
        before = found.get(report["uid"], OperatorReport(0, NEVER))
        wakes = [each for each in (before.wake, report["wake"]) if each is not None]
        watermark = max(before.watermark, report["watermark"])
        found[report["uid"]] = OperatorReport(before.late + report["late"], watermark, min(wakes, default=None))
    return found
