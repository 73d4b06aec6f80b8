"""The settings of checkpoints."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Any, Self

from penstock.common.arguments import expect
from penstock.common.call_settings import CallSettings
from penstock.common.time import Duration
from penstock.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.errors import OptionsError, Problem
from penstock.java_gateway import without_java

__all__ = ["CheckpointConfig", "ExternalizedCheckpointCleanup"]

_INTERVAL = "execution.checkpointing.interval"


class ExternalizedCheckpointCleanup(int, enum.Enum):
    """PyFlink's choices for the checkpoint of a job that is cancelled. Here checkpoints are always kept."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class CheckpointConfig:
    """The checkpoint settings of an environment, which ``get_checkpoint_config`` returns; change them in place.

    Checkpointing is off until there is an interval: then nothing is kept of a job that ends. A job with an exactly-once
    sink keeps its checkpoint without one, unless :meth:`disable_checkpointing` is called, and begins a batch as soon as
    the one before it is done. What each call does: :data:`penstock.common.calls.CALLS`.

    Raises UnsupportedError when it is made of a Java object.
    """

    #: In Flink: state is exactly-once, and here always.
    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    #: In Flink: ten minutes, in ms.
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    #: In Flink: none, in ms.
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    #: In Flink: one, and here always.
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    _settings: CallSettings
    _disabled: bool
    _storage: CheckpointStorage | None

    def __init__(self, j_checkpoint_config: Any) -> None:
        raise without_java("CheckpointConfig", "env.get_checkpoint_config() returns one")

    @classmethod
    def _of(cls, settings: CallSettings) -> Self:
        made = cls.__new__(cls)
        made._settings, made._disabled, made._storage = settings, False, None
        return made

    # --- with an effect --------------------------------------------------------------------------------------

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """How often a batch begins, and with exactly-once is committed, in milliseconds."""
        self._settings.put("CheckpointConfig.set_checkpoint_interval", checkpoint_interval)
        return self

    def get_checkpoint_interval(self) -> int:
        """The interval in milliseconds, -1 if none is set."""
        interval: timedelta | None = self._settings.given.value("checkpoint_interval")
        return -1 if interval is None else interval // timedelta(milliseconds=1)

    def disable_checkpointing(self) -> CheckpointConfig:
        """Keep no progress: a job that is started again begins at the beginning. Refused together with exactly-once."""
        self._settings.given.remove(_INTERVAL, "disable_checkpointing")
        self._disabled = True
        return self

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Where checkpoints are kept."""
        hint = "for example FileSystemCheckpointStorage('file:///state')"
        self._storage = expect(storage, CheckpointStorage, "set_checkpoint_storage", hint)
        if isinstance(storage, FileSystemCheckpointStorage | JobManagerCheckpointStorage):
            path = storage.get_checkpoint_path()
            if path is not None:
                self._settings.put("CheckpointConfig.set_checkpoint_storage", path)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """The directory or URI of checkpoints."""
        self._storage = FileSystemCheckpointStorage(checkpoint_path)
        self._settings.put("CheckpointConfig.set_checkpoint_storage_dir", checkpoint_path)
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """The storage that was set, or None."""
        return self._storage

    # --- without an effect -----------------------------------------------------------------------------------

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """In Flink what a failure may do to state."""
        mode = CheckpointingMode(checkpointing_mode)
        self._settings.put("CheckpointConfig.set_checkpointing_mode", mode.name)
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode that was set, by default EXACTLY_ONCE."""
        return CheckpointingMode[self._settings.value("CheckpointConfig.set_checkpointing_mode").upper()]

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """In Flink the milliseconds after which a checkpoint is given up."""
        given = _positive(checkpoint_timeout, "set_checkpoint_timeout")
        self._settings.put("CheckpointConfig.set_checkpoint_timeout", given)
        return self

    def get_checkpoint_timeout(self) -> int:
        """The milliseconds after which a checkpoint is given up in Flink."""
        return int(self._settings.value("CheckpointConfig.set_checkpoint_timeout"))

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """In Flink the least milliseconds between two checkpoints."""
        self._settings.put("CheckpointConfig.set_min_pause_between_checkpoints", min_pause_between_checkpoints)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """The least milliseconds between two checkpoints in Flink."""
        return int(self._settings.value("CheckpointConfig.set_min_pause_between_checkpoints"))

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """In Flink the checkpoints that may be taken at a time."""
        given = _positive(max_concurrent_checkpoints, "set_max_concurrent_checkpoints")
        self._settings.put("CheckpointConfig.set_max_concurrent_checkpoints", given)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """The checkpoints that may be taken at a time in Flink."""
        return int(self._settings.value("CheckpointConfig.set_max_concurrent_checkpoints"))

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """In Flink whether a checkpoint that fails fails its task."""
        tolerated = 0 if fail_on_checkpointing_errors else 2**31 - 1
        self._settings.put("CheckpointConfig.set_fail_on_checkpointing_errors", tolerated)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether a checkpoint that fails fails its task in Flink."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """In Flink the checkpoints in a row that may fail. Raises OptionsError for less than 0."""
        if tolerable_checkpoint_failure_number < 0:
            reason = f"expected 0 or more, not {tolerable_checkpoint_failure_number}"
            raise OptionsError((Problem(reason, "set_tolerable_checkpoint_failure_number"),))
        call = "CheckpointConfig.set_tolerable_checkpoint_failure_number"
        self._settings.put(call, tolerable_checkpoint_failure_number)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """The checkpoints in a row that may fail in Flink."""
        return int(self._settings.value("CheckpointConfig.set_tolerable_checkpoint_failure_number"))

    def set_prefer_checkpoint_for_recovery(self, prefer_checkpoint_for_recovery: bool) -> None:
        """In Flink whether a checkpoint is restored even where a savepoint is newer."""
        call = "CheckpointConfig.set_prefer_checkpoint_for_recovery"
        if prefer_checkpoint_for_recovery or self.is_prefer_checkpoint_for_recovery():
            self._settings.keep(call, prefer_checkpoint_for_recovery)

    def is_prefer_checkpoint_for_recovery(self) -> bool:
        """Whether a checkpoint is restored even where a savepoint is newer in Flink."""
        return bool(self._settings.get_kept("CheckpointConfig.set_prefer_checkpoint_for_recovery", False))

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointCleanup) -> CheckpointConfig:
        """In Flink whether the checkpoint of a job that is cancelled is kept or deleted."""
        return self._retain("enable_externalized_checkpoints", ExternalizedCheckpointCleanup(cleanup_mode).name)

    def set_externalized_checkpoint_cleanup(self, cleanup_mode: ExternalizedCheckpointCleanup) -> CheckpointConfig:
        """In Flink whether the checkpoint of a job that is cancelled is kept or deleted."""
        return self._retain("set_externalized_checkpoint_cleanup", ExternalizedCheckpointCleanup(cleanup_mode).name)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """In Flink whether the checkpoint of a job that is cancelled is kept or deleted."""
        name = ExternalizedCheckpointRetention(retention_mode).name
        return self._retain("set_externalized_checkpoint_retention", name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a checkpoint outlives its job in Flink."""
        return self.get_externalized_checkpoint_cleanup() is not None

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointCleanup | None:
        """What happens to the checkpoint of a job that is cancelled in Flink; None if that was not set."""
        name = self._settings.value("CheckpointConfig.enable_externalized_checkpoints")
        found = ExternalizedCheckpointCleanup[name]
        return None if found is ExternalizedCheckpointCleanup.NO_EXTERNALIZED_CHECKPOINTS else found

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to the checkpoint of a job that is cancelled in Flink."""
        name = self._settings.value("CheckpointConfig.enable_externalized_checkpoints")
        return ExternalizedCheckpointRetention[name]

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """In Flink whether checkpoints overtake records."""
        self._settings.put("CheckpointConfig.enable_unaligned_checkpoints", enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """In Flink checkpoints do not overtake records: the default."""
        self._settings.put("CheckpointConfig.disable_unaligned_checkpoints", False)
        return self

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints overtake records in Flink."""
        return bool(self._settings.value("CheckpointConfig.enable_unaligned_checkpoints"))

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """In Flink whether checkpoints overtake records even where Flink advises against it."""
        self._settings.put("CheckpointConfig.set_force_unaligned_checkpoints", force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether checkpoints overtake records in Flink even where Flink advises against it."""
        return bool(self._settings.value("CheckpointConfig.set_force_unaligned_checkpoints"))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """In Flink when an aligned checkpoint becomes unaligned."""
        self._settings.put("CheckpointConfig.set_alignment_timeout", _millis(alignment_timeout))
        return self

    def get_alignment_timeout(self) -> Duration:
        """When an aligned checkpoint becomes unaligned in Flink."""
        return Duration.of_millis(int(self._settings.value("CheckpointConfig.set_alignment_timeout")))

    set_aligned_checkpoint_timeout = set_alignment_timeout
    get_aligned_checkpoint_timeout = get_alignment_timeout

    # --- for the environment ---------------------------------------------------------------------------------

    @property
    def _off(self) -> bool:
        """Whether checkpointing was disabled, not only left alone."""
        return self._disabled and not self.is_checkpointing_enabled()

    def _retain(self, method: str, name: str) -> CheckpointConfig:
        self._settings.put(f"CheckpointConfig.{method}", name)
        return self


def _millis(timeout: Duration) -> int:
    return expect(timeout, Duration, "set_alignment_timeout", "for example Duration.of_seconds(30)").to_millis()


def _positive(value: int, call: str) -> int:
    if value < 1:
        raise OptionsError((Problem(f"expected 1 or more, not {value}", call),))
    return value
