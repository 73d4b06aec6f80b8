"""Where checkpoints are kept."""

from __future__ import annotations

from typing import Any

from penstock.java_gateway import without_java

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]


class CheckpointStorage:
    """The root of PyFlink's storages. Raises UnsupportedError when it is made of a Java object."""

    def __init__(self, j_checkpoint_storage: Any) -> None:
        raise without_java("CheckpointStorage", "use FileSystemCheckpointStorage(directory)")


class JobManagerCheckpointStorage(CheckpointStorage):
    """In Flink the memory of the JobManager. Here the checkpoint goes to ``checkpoint_path``, or to the job's default
    directory."""

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        max_state_size: int | None = None,
        j_jobmanager_checkpoint_storage: Any = None,
    ) -> None:
        if j_jobmanager_checkpoint_storage is not None:
            raise without_java("j_jobmanager_checkpoint_storage")
        self._path = checkpoint_path
        self._size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """The directory, or None."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """None: there are no savepoints."""
        return None

    def get_max_state_size(self) -> int:
        """The most bytes of one state in Flink."""
        return self._size


class FileSystemCheckpointStorage(CheckpointStorage):
    """A directory, or a URI of a file system that Spark can write to."""

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
        j_filesystem_checkpoint_storage: Any = None,
    ) -> None:
        if j_filesystem_checkpoint_storage is not None:
            raise without_java("j_filesystem_checkpoint_storage")
        if checkpoint_path is None:
            raise ValueError("FileSystemCheckpointStorage needs a 'checkpoint_path'")
        self._path = checkpoint_path
        self._threshold = 20 * 1024 if file_state_size_threshold is None else file_state_size_threshold
        self._buffer = 4096 if write_buffer_size < 0 else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The directory."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """None: there are no savepoints."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """The bytes up to which Flink keeps state in the metadata of a checkpoint."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """The bytes that Flink buffers while it writes a file of a checkpoint."""
        return self._buffer


class CustomCheckpointStorage(CheckpointStorage):
    """A storage in Java, which penstock does not have."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        raise without_java("CustomCheckpointStorage", "use FileSystemCheckpointStorage(directory)")
