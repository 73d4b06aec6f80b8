"""What metrics are, in a few words each: the HELP lines for Prometheus. docs/metrics.md says more."""

from __future__ import annotations

from collections.abc import Mapping

HELP: Mapping[str, str] = {
    "numRestarts": "Restarts of the job in this process",
    "stateRows": "Rows that the step keeps, about",
    "stateBytes": "Bytes of the files of the step's state",
    "stateSegments": "Parts of files that hold the step's state",
    "numLateRecordsDropped": "Rows of windows that came when their last window was closed",
    "lateRecordsDroppedRate": "Late rows per second, of the last minute",
    "currentInputWatermark": "Watermark of windows at the end of the last batch, in ms since 1970",
    "numRecordsIn": "Records read",
    "numRecordsInPerSecond": "Records read per second, of the last minute",
    "numBytesIn": "Bytes read, as compressed",
    "numBytesInPerSecond": "Bytes read per second, of the last minute",
    "numRecordsFiltered": "Records that scan.header-filter left out",
    "numRecordsInErrors": "Records that could not be decoded, and were left out or became dead letters",
    "numRecordsRefused": "Records that were left out because they could not be read",
    "schemaVersion": "Version of the table's schema",
    "lastSchemaChange": "When the table's schema changed last, in ms since 1970",
    "numRecordsLost": "Offsets that were gone when they were to be read, and were skipped",
    "currentFetchEventTimeLag": "Milliseconds from a record's timestamp until it was fetched",
    "currentEmitEventTimeLag": "Milliseconds from a record's timestamp until its row was made",
    "currentOutputWatermark": "Watermark of the table, in ms since 1970",
    "watermarkLag": "Milliseconds by which the watermark is behind the clock",
    "sourceIdleTime": "Milliseconds since a batch last had records",
    "pendingRecords": "Records between what is done and the end of the topics",
    "currentOffset": "Last offset of the partition that is done, -1 before the first",
    "committedOffset": "Offset of the partition that the consumer group has, -1 before the first commit",
    "commitsSucceeded": "Batches after which the group's offsets were committed",
    "commitsFailed": "Batches after which the group's offsets could not be committed",
    "numRecordsOut": "Records written, and for exactly-once tables committed",
    "numRecordsOutPerSecond": "Records written per second, of the last minute",
    "numBytesOut": "Bytes written",
    "numBytesOutPerSecond": "Bytes written per second, of the last minute",
    "currentSendTime": "Milliseconds from the last Produce request to its answer",
}

#: Aliases, in other documents, of metrics that have a name here; Prometheus gets one name of each.
SECOND_NAMES = frozenset({"numBytesInPerScond"})


def help_of(name: str, group: str) -> str:
    """The HELP of a metric. ``group`` is the name of the innermost group that it is in."""
    if name in HELP:
        return HELP[name]
    if group.startswith("Kafka"):
        return f"As {name} of Kafka's own client"
    return f"See docs/metrics.md for {name}"
