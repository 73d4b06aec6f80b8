"""Which time the records of a job have."""

from __future__ import annotations

import enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(int, enum.Enum):
    """The origin of the timestamps of records, which functions see and Kafka sinks write."""

    #: Records have no timestamps; Kafka sinks write the time of writing.
    ProcessingTime = 0
    #: The time at which penstock read the record.
    IngestionTime = 1
    #: The time of the record in Kafka, or the one that a timestamp assigner finds in it: the default, as in Flink since
    #: 1.12.
    EventTime = 2
