"""Where a source begins, and why, as text; and which job has committed a group's offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.connectors.kafka.source.positions import Positions
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.options import StartupMode
from penstock.kafka.offsets import CommittedOffset
from penstock.kafka.partitions import TopicPartition

#: The offsets of a group at which reading starts.
GroupOffsets = Mapping[TopicPartition, CommittedOffset]

#: The most partitions that are named.
_SHOWN = 4
#: The most characters of a job's name in the metadata of a commit: brokers take 4096 bytes.
_LONGEST_NAME = 200


@dataclass(frozen=True)
class CommittedBy:
    """A job that commits offsets, and the id of its query, which belongs to a checkpoint."""

    job: str
    query_id: str

    def to_metadata(self) -> str:
        """The metadata of its commits."""
        return json.dumps({"penstock": {"job": self.job[:_LONGEST_NAME], "query": self.query_id}})

    @classmethod
    def from_metadata(cls, text: str) -> CommittedBy | None:
        """The job that made a commit with this metadata; None for commits of other programs."""
        try:
            found = json.loads(text)["penstock"]
            return cls(str(found["job"]), str(found["query"]))
        except (ValueError, KeyError, TypeError):
            return None

    def is_other(self, job: CommittedBy) -> bool:
        """Whether it is another job than ``job``, and not one of the same name with another checkpoint."""
        return self.job != job.job[:_LONGEST_NAME]


def explain_start(scan: KafkaScanSpec, start_time: int | None, group: GroupOffsets, own: CommittedBy) -> str:
    """Why a scan starts where it does: ``start_time`` (ms since 1970), its options, or the ``group``'s offsets."""
    mode, options = scan.options.startup_mode, scan.options
    if start_time is not None and not scan.upserts:
        return f"at the first records from {_format_time(start_time)} on, by --start-time"
    if scan.start_by is not None:
        return f"where {scan.start_by} says"
    if scan.upserts:
        return "at the earliest offsets, as tables of 'upsert-kafka' do"
    if mode is StartupMode.TIMESTAMP and options.startup_timestamp is not None:
        begins = _format_time(options.startup_timestamp)
        return f"at the first records from {begins} on, by 'scan.startup.timestamp-millis'"
    if mode is StartupMode.SPECIFIC_OFFSETS:
        return "at the offsets of 'scan.startup.specific-offsets'" + (
            f", else {_explain_group(scan, group, own)}" if group else ""
        )
    if mode is StartupMode.GROUP_OFFSETS:
        if not group:
            reset = f"at the {scan.reset.value} offsets, by 'properties.auto.offset.reset'"
            return f"{reset}, because group '{scan.group_id}' has none"
        return _explain_group(scan, group, own)
    return f"at the {'earliest' if mode is StartupMode.EARLIEST else 'latest'} offsets, by 'scan.startup.mode'"


def _explain_group(scan: KafkaScanSpec, group: GroupOffsets, own: CommittedBy) -> str:
    found = _find_committers(group)
    others = [f"job '{each.job}'" for each in found if each.is_other(own)]
    if len(others) < len(found):
        others.append("this job with another checkpoint")
    by = f", which {' and '.join(dict.fromkeys(others))} committed" if others else ""
    return f"at the offsets of group '{scan.group_id}'{by}"


def warn_about_foreign_start(scan: KafkaScanSpec, group: GroupOffsets, own: CommittedBy) -> str:
    """A warning that reading starts at offsets which another job has committed; empty if it does not, or if the user
    asks for that."""
    others = " and ".join(dict.fromkeys(f"job '{each.job}'" for each in _find_committers(group) if each.is_other(own)))
    if not others or scan.asks_for_group:
        return ""
    return (
        f"table '{scan.table}' starts where {others} left off, by the offsets of group '{scan.group_id}': records "
        "before them are not read. If you do not mean that, set 'scan.startup.mode' to earliest-offset or "
        "latest-offset, or 'properties.group.id' to a group of this job only, and start with a new checkpoint "
        "directory"
    )


def _find_committers(group: GroupOffsets) -> list[CommittedBy]:
    found = (CommittedBy.from_metadata(group[tp].metadata) for tp in sorted(group))
    return list(dict.fromkeys(each for each in found if each is not None))


def describe_positions(positions: Positions) -> str:
    """The positions, as ``orders-0 at 8``; of many partitions the first ones."""
    partitions = positions.partitions()
    named = [f"{topic}-{number} at {positions.at[topic, number].offset}" for topic, number in partitions[:_SHOWN]]
    left = len(partitions) - len(named)
    return ", ".join(named) + (f" and {left} more" if left else "") if named else "no partitions yet"


def _format_time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
