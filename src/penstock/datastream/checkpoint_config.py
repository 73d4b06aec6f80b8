"""The settings of checkpoints."""

from __future__ import annotations

from datetime import timedelta

from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.settings.given import GivenSettings

_INTERVAL = "execution.checkpointing.interval"


class CheckpointConfig:
    """The checkpoint settings of an environment.

    A job always keeps a checkpoint unless :meth:`disable_checkpointing` is called. Without an interval a batch begins
    as soon as the one before it is done.
    """

    def __init__(self, settings: GivenSettings) -> None:
        self._settings = settings
        self._mode = CheckpointingMode.EXACTLY_ONCE
        self._disabled = False

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """How often a batch begins, and with exactly-once is committed, in milliseconds."""
        self._settings.put(_INTERVAL, str(checkpoint_interval), "set_checkpoint_interval")
        return self

    def get_checkpoint_interval(self) -> int:
        """The interval in milliseconds, -1 if none was set."""
        interval: timedelta | None = self._settings.value("checkpoint_interval")
        return -1 if interval is None else interval // timedelta(milliseconds=1)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Has no effect, as in :class:`CheckpointingMode`."""
        self._mode = checkpointing_mode
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode that was set."""
        return self._mode

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """The directory or URI of checkpoints."""
        self._settings.put("execution.checkpointing.dir", checkpoint_path, "set_checkpoint_storage_dir")
        return self

    def disable_checkpointing(self) -> CheckpointConfig:
        """Keep no progress: a restarted job starts from the beginning. Refused together with exactly-once."""
        self._settings.remove(_INTERVAL, "disable_checkpointing")
        self._disabled = True
        return self

    def is_checkpointing_enabled(self) -> bool:
        """Whether the job has a checkpoint."""
        return not self._disabled or self.get_checkpoint_interval() >= 0
