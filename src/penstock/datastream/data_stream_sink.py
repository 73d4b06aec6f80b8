"""Streams that are written."""

from __future__ import annotations

from penstock.common.call_settings import CallSettings
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.transformations import SinkStep, positive


class DataStreamSink:
    """A stream that is written."""

    def __init__(self, settings: CallSettings, step: SinkStep):
        self._settings = settings
        self._step = step

    def name(self, name: str) -> DataStreamSink:
        """Name the sink: in plans, in messages, and in a derived transactional id."""
        self._step.name, self._step.named = name, True
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Name the sink for plans. A job finds its progress by its own name and the checkpoint directory."""
        self._step.uid = uid
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Describe the sink, for plans."""
        self._step.description = description
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """In Flink the id of the sink in a checkpoint of a former version. Warns."""
        self._settings.note("DataStreamSink.set_uid_hash")
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """How many tasks write at a time, for a sink of Kafka. For others it is warned of."""
        self._step.parallelism = positive(parallelism)
        if not self._step.sink.parallel and parallelism != self._settings.parallelism:
            self._settings.note("DataStreamSink.set_parallelism")
        return self

    def disable_chaining(self) -> DataStreamSink:
        """In Flink the sink does not share a thread with the step before. Warns."""
        self._settings.note("DataStreamSink.disable_chaining")
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """In Flink which operators share resources. Warns."""
        self._settings.note("DataStreamSink.slot_sharing_group")
        return self
