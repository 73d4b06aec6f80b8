"""Where operators keep their state in Flink.

State is kept in one way here. What a backend says about the place of checkpoints is taken from it; its other values are
kept, so that the getters answer as in PyFlink.
"""

from __future__ import annotations

import enum
from typing import Any

from penstock.java_gateway import without_java

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]

_FILE_THRESHOLD = 20 * 1024
_MOST_FILE_THRESHOLD = 1024 * 1024
_WRITE_BUFFER = 4096


class PredefinedOptions(int, enum.Enum):
    """Settings of RocksDB for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class StateBackend:
    """The root of PyFlink's backends. Raises UnsupportedError when it is made of a Java object."""

    #: The value of Flink's option ``state.backend.type``.
    _identifier = ""

    def __init__(self, j_state_backend: Any) -> None:
        raise without_java(type(self).__name__, "use one of the backends of penstock.datastream")

    @property
    def _checkpoints(self) -> str | None:
        """The directory of checkpoints, None unless the backend names one."""
        return None

    @property
    def _savepoints(self) -> str | None:
        """The directory of savepoints, None unless the backend names one."""
        return None


class HashMapStateBackend(StateBackend):
    """State in memory."""

    _identifier = "hashmap"

    def __init__(self, j_hashmap_state_backend: Any = None) -> None:
        if j_hashmap_state_backend is not None:
            raise without_java("j_hashmap_state_backend")


class MemoryStateBackend(StateBackend):
    """State in memory; checkpoints in ``checkpoint_path``, or in the job's default directory."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024
    _identifier = "hashmap"

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
        j_memory_state_backend: Any = None,
    ) -> None:
        if j_memory_state_backend is not None:
            raise without_java("j_memory_state_backend")
        self._path = checkpoint_path
        self._savepoint_path = savepoint_path
        self._size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self._asynchronous = using_asynchronous_snapshots is not False

    def get_max_state_size(self) -> int:
        """The most bytes of one state in Flink."""
        return self._size

    def is_using_asynchronous_snapshots(self) -> bool:
        """Whether Flink takes snapshots beside its work."""
        return self._asynchronous

    @property
    def _checkpoints(self) -> str | None:
        return self._path

    @property
    def _savepoints(self) -> str | None:
        return self._savepoint_path


class FsStateBackend(StateBackend):
    """State in memory; checkpoints in the directory or URI ``checkpoint_directory_uri``."""

    _identifier = "hashmap"

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
        j_fs_state_backend: Any = None,
    ) -> None:
        if j_fs_state_backend is not None:
            raise without_java("j_fs_state_backend")
        if checkpoint_directory_uri is None:
            raise ValueError("FsStateBackend needs a 'checkpoint_directory_uri'")
        threshold = _FILE_THRESHOLD if file_state_size_threshold is None else file_state_size_threshold
        if not 0 <= threshold <= _MOST_FILE_THRESHOLD:
            raise ValueError(f"expected a 'file_state_size_threshold' of 0 to {_MOST_FILE_THRESHOLD}, not {threshold}")
        self._path = checkpoint_directory_uri
        self._savepoint_path = default_savepoint_directory_uri
        self._threshold = threshold
        self._buffer = _WRITE_BUFFER if write_buffer_size is None else write_buffer_size
        self._asynchronous = using_asynchronous_snapshots is not False

    def get_checkpoint_path(self) -> str:
        """The directory of checkpoints."""
        return self._path

    def get_min_file_size_threshold(self) -> int:
        """The bytes up to which Flink keeps state in the metadata of a checkpoint."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """The bytes that Flink buffers while it writes a file of a checkpoint."""
        return self._buffer

    def is_using_asynchronous_snapshots(self) -> bool:
        """Whether Flink takes snapshots beside its work."""
        return self._asynchronous

    @property
    def _checkpoints(self) -> str | None:
        return self._path

    @property
    def _savepoints(self) -> str | None:
        return self._savepoint_path


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB, on the disks of the workers."""

    _identifier = "rocksdb"

    def __init__(
        self, enable_incremental_checkpointing: bool | None = None, j_embedded_rocks_db_state_backend: Any = None
    ) -> None:
        if j_embedded_rocks_db_state_backend is not None:
            raise without_java("j_embedded_rocks_db_state_backend")
        self._incremental = enable_incremental_checkpointing is True
        self._paths: tuple[str, ...] | None = None
        self._options = PredefinedOptions.DEFAULT
        self._threads = 4

    def set_db_storage_paths(self, *paths: str | None) -> None:
        """The directories of RocksDB's files; None for the temporary directories."""
        if not paths:
            raise ValueError("set_db_storage_paths needs a directory, or None")
        self._paths = tuple(path for path in paths if path is not None) or None

    def get_db_storage_paths(self) -> list[str] | None:
        """The directories of RocksDB's files, None if they were not set."""
        return None if self._paths is None else list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether a checkpoint holds only what changed."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """The settings of RocksDB."""
        self._options = PredefinedOptions(options)

    def get_predefined_options(self) -> PredefinedOptions:
        """The settings of RocksDB."""
        return self._options

    def set_options(self, options_factory_class_name: str) -> None:
        """Raises UnsupportedError: a factory of options is a Java class."""
        raise without_java("set_options", "choose settings by set_predefined_options")

    def get_options(self) -> str | None:
        """The Java class that makes options: None."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """The threads that move files of checkpoints."""
        return self._threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """The threads that move files of checkpoints, 1 or more."""
        if number_of_transfering_threads < 1:
            raise ValueError(f"expected 1 thread or more, not {number_of_transfering_threads}")
        self._threads = number_of_transfering_threads


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """State in RocksDB; checkpoints in the directory or URI ``checkpoint_data_uri``, or where
    ``checkpoint_stream_backend`` puts them."""

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
        j_rocks_db_state_backend: Any = None,
    ) -> None:
        if j_rocks_db_state_backend is not None:
            raise without_java("j_rocks_db_state_backend")
        if checkpoint_data_uri is None and checkpoint_stream_backend is None:
            raise ValueError("RocksDBStateBackend needs a 'checkpoint_data_uri' or a 'checkpoint_stream_backend'")
        super().__init__(enable_incremental_checkpointing)
        self._backend = (
            FsStateBackend(checkpoint_data_uri) if checkpoint_stream_backend is None else checkpoint_stream_backend
        )
        self._filters = True

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend that says where checkpoints are kept."""
        return self._backend

    def get_number_of_transfering_threads(self) -> int:
        """The threads that move files of checkpoints."""
        return self.get_number_of_transfer_threads()

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """The threads that move files of checkpoints, 1 or more."""
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def is_ttl_compaction_filter_enabled(self) -> bool:
        """Whether RocksDB drops expired state when it merges files."""
        return self._filters

    def enable_ttl_compaction_filter(self) -> None:
        """Let RocksDB drop expired state when it merges files: the default."""
        self._filters = True

    def disable_ttl_compaction_filter(self) -> None:
        """Do not let RocksDB drop expired state when it merges files."""
        self._filters = False

    @property
    def _checkpoints(self) -> str | None:
        return self._backend._checkpoints

    @property
    def _savepoints(self) -> str | None:
        return self._backend._savepoints


class CustomStateBackend(StateBackend):
    """A backend in Java, which penstock does not have."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        raise without_java("CustomStateBackend", "use one of the backends of penstock.datastream")
