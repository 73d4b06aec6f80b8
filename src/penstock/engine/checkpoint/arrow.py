"""A checkpoint's files on any file system that pyarrow opens, without Spark."""

from __future__ import annotations

import contextlib

from pyarrow import fs

from penstock.engine.checkpoint.local import Lock


class ArrowFiles:
    """Files below the URI ``root``. All methods raise OSError."""

    def __init__(self, root: str):
        self._system, self._root = fs.FileSystem.from_uri(root)

    def read(self, name: str) -> str | None:
        try:
            with self._system.open_input_stream(self._path(name)) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        path = self._path(name)
        self._system.create_dir(path.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(path) as stream:
            stream.write(text.encode())

    def create(self, name: str, text: str) -> None:
        if self._system.get_file_info(self._path(name)).type == fs.FileType.NotFound:
            self.write(name, text)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._path(name))

    def lock(self, name: str) -> Lock:
        return Lock()

    def names(self, folder: str) -> list[str]:
        found = self._system.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True))
        return [each.base_name for each in found]

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"
