"""How a job's progress is kept."""

from __future__ import annotations

from datetime import timedelta

from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.errors import OptionsError, Problem
from penstock.settings import Settings


class CheckpointConfig:
    """The checkpoint settings of an environment.

    A job always keeps a checkpoint unless :meth:`disable_checkpointing` is called; without an interval a batch
    begins as soon as the last one is done.
    """

    def __init__(self) -> None:
        self._interval: timedelta | None = None
        self._mode = CheckpointingMode.EXACTLY_ONCE
        self._directory: str | None = None
        self._disabled = False

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """How often a batch begins, and with exactly-once is committed, in milliseconds."""
        if checkpoint_interval < 1:
            reason = f"expected 1 ms or more, not {checkpoint_interval}"
            raise OptionsError((Problem(reason, "checkpoint interval", hint="for example 1000"),))
        self._interval, self._disabled = timedelta(milliseconds=checkpoint_interval), False
        return self

    def get_checkpoint_interval(self) -> int:
        """The interval in milliseconds, -1 when none was set."""
        return -1 if self._interval is None else self._interval // timedelta(milliseconds=1)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Kept for porting; see :class:`CheckpointingMode`."""
        self._mode = checkpointing_mode
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode that was set."""
        return self._mode

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """The directory or URI that checkpoints are kept under."""
        self._directory = checkpoint_path
        return self

    def disable_checkpointing(self) -> CheckpointConfig:
        """Keep no progress: a restarted job starts anew. Refused together with exactly-once."""
        self._interval, self._disabled = None, True
        return self

    def is_checkpointing_enabled(self) -> bool:
        """Whether progress is kept."""
        return not self._disabled

    def settings(self, parallelism: int | None) -> Settings:
        """These settings as the plan carries them."""
        return Settings(
            checkpoint_interval=self._interval,
            checkpoint_dir=self._directory,
            checkpointing=not self._disabled,
            parallelism=parallelism,
        )
