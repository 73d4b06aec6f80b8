"""Files of running tasks."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.errors import ExecutionError


class ScratchFile:
    """A new file in a folder for the bytes that tasks keep during a batch. Its bytes can be read when it is flushed, or
    when the ``with`` block ends.

    All methods that write raise ExecutionError if the folder takes no more.
    """

    def __init__(self, folder: str, suffix: str = ""):
        self._folder = folder
        self.path = Path(folder) / f"{uuid.uuid4().hex}{suffix}"
        with self._errors():
            self._file = self.path.open("xb")

    def __enter__(self) -> ScratchFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make all that is written readable, and release the file."""
        with self._errors():
            self._file.close()

    def append(self, data: Any) -> int:
        """Write bytes at the end. Returns the position at which they begin."""
        position = self._file.tell()
        with self._errors():
            self._file.write(data)
        return position

    def flush(self) -> None:
        """Make all that is written readable."""
        with self._errors():
            self._file.flush()

    def delete(self) -> None:
        """Delete and close the file. Write errors do not matter any more."""
        self.path.unlink()
        with contextlib.suppress(OSError):
            self._file.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ExecutionError(
                f"cannot write to '{self._folder}', where tasks keep rows during a batch: {error}; free space on its "
                "disk and check its rights, or name a folder on another disk in 'spark.local.dir' or the environment "
                "variable SPARK_LOCAL_DIRS"
            ) from error
