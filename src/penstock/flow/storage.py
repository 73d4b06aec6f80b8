"""Where files of state are: a folder of this machine, or of anything that pyarrow.fs opens."""

from __future__ import annotations

import abc
import mmap
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from penstock.errors import CheckpointError, CheckpointUnavailableError


@dataclass(frozen=True)
class StoredFile:
    """A file of a storage: its size in bytes, and when it was written, in milliseconds since the epoch."""

    name: str
    bytes: int
    written_ms: int


class Storage(abc.ABC):
    """Immutable files in one folder. Can be pickled, so that tasks open it themselves.

    All methods raise CheckpointUnavailableError if the storage does not answer.
    """

    @staticmethod
    def of(uri: str, cache: str | os.PathLike[str] | None = None) -> Storage:
        """The folder at ``uri``: a path, ``file:/...``, or a scheme of pyarrow.fs (``s3://``, ``gs://``, ``hdfs://``).

        Files of other machines are kept in the folder ``cache``, by default in the folder for temporary files. Raises
        CheckpointError if the address is not understood.
        """
        parts = urlsplit(uri)
        if parts.scheme in ("", "file"):
            return LocalStorage(unquote(parts.path) if parts.scheme else uri)
        try:
            fs.FileSystem.from_uri(uri)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CheckpointError(
                f"the state of a job cannot be kept at '{uri}': {error}; use a path of this machine, s3://, gs:// or "
                "hdfs://"
            ) from error
        return RemoteStorage(uri, str(cache or Path(tempfile.gettempdir()) / f"penstock-state-{os.getuid()}"))

    @abc.abstractmethod
    def write(self, name: str, parts: Sequence[Any]) -> None:
        """Write a new file of these bytes-like parts. When the call returns, the file is whole and durable. A file that
        was cut short by a crash is never read, because nothing names it."""

    @abc.abstractmethod
    def open(self, name: str) -> pa.Buffer:
        """The content of a file, mapped into memory. Raises CheckpointError if there is no such file."""

    @abc.abstractmethod
    def files(self) -> Iterator[StoredFile]:
        """All files; none when the folder does not exist."""

    @abc.abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if there is one of that name."""


@dataclass(frozen=True)
class LocalStorage(Storage):
    """A folder of this machine, or one that is mounted here."""

    folder: str

    def write(self, name: str, parts: Sequence[Any]) -> None:
        with _failures(f"write '{name}' to", self.folder):
            path = Path(self.folder, name)
            try:
                file = path.open("xb", buffering=0)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = path.open("xb", buffering=0)
            with file:
                for part in parts:
                    rest = memoryview(part).cast("B")
                    while len(rest):
                        rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def open(self, name: str) -> pa.Buffer:
        with _failures(f"read '{name}' from", self.folder):
            try:
                with Path(self.folder, name).open("rb") as file:
                    if os.fstat(file.fileno()).st_size == 0:
                        return pa.py_buffer(b"")
                    return pa.py_buffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            except FileNotFoundError as error:
                raise missing(name, self.folder) from error

    def files(self) -> Iterator[StoredFile]:
        with _failures("list", self.folder):
            try:
                entries = list(os.scandir(self.folder))
            except FileNotFoundError:
                return
            for entry in entries:
                try:
                    found = entry.stat()
                except FileNotFoundError:  # deleted by another process since
                    continue
                if entry.is_file():
                    yield StoredFile(entry.name, found.st_size, found.st_mtime_ns // 1_000_000)

    def delete(self, name: str) -> None:
        with _failures(f"delete '{name}' from", self.folder):
            Path(self.folder, name).unlink(missing_ok=True)


@dataclass(frozen=True)
class RemoteStorage(Storage):
    """A folder that pyarrow.fs opens. Files that were written or read here are kept in ``cache``, whole and unchanged;
    another process of this machine finds them there."""

    uri: str
    cache: str

    def write(self, name: str, parts: Sequence[Any]) -> None:
        with _failures(f"write '{name}' to", self.uri):
            system, path = self._place(name)
            system.create_dir(path.rpartition("/")[0], recursive=True)
            with system.open_output_stream(path) as stream:
                for part in parts:
                    stream.write(part)
        self._keep(name, parts)

    def open(self, name: str) -> pa.Buffer:
        cached = LocalStorage(self.cache)
        path = Path(self.cache, self._cached(name))
        if not path.exists():
            with _failures(f"read '{name}' from", self.uri):
                system, place = self._place(name)
                try:
                    with system.open_input_stream(place) as stream:
                        content = stream.read_buffer()
                except FileNotFoundError as error:
                    raise missing(name, self.uri) from error
            self._keep(name, [content])
        return cached.open(self._cached(name))

    def files(self) -> Iterator[StoredFile]:
        with _failures("list", self.uri):
            system, folder = fs.FileSystem.from_uri(self.uri)
            found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        for each in found:
            if each.type == fs.FileType.File:
                written = each.mtime_ns if each.mtime_ns is not None else 0
                yield StoredFile(each.base_name, each.size, written // 1_000_000)

    def delete(self, name: str) -> None:
        with _failures(f"delete '{name}' from", self.uri):
            system, path = self._place(name)
            with suppress(FileNotFoundError):
                system.delete_file(path)
        LocalStorage(self.cache).delete(self._cached(name))

    def _place(self, name: str) -> tuple[fs.FileSystem, str]:
        system, folder = fs.FileSystem.from_uri(self.uri)
        return system, f"{folder.rstrip('/')}/{name}"

    def _cached(self, name: str) -> str:
        """Names of files are unique: two jobs may share a cache."""
        return name

    def _keep(self, name: str, parts: Sequence[Any]) -> None:
        draft = f".{name}.{uuid.uuid4().hex}"
        LocalStorage(self.cache).write(draft, parts)
        Path(self.cache, draft).replace(Path(self.cache, self._cached(name)))


def missing(name: str, place: str) -> CheckpointError:
    return CheckpointError(
        f"'{name}' in '{place}' is missing, but the checkpoint names it as part of the job's state; restore it from a "
        "backup, or start with another checkpoint directory"
    )


@contextmanager
def _failures(action: str, place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointUnavailableError(
            f"cannot {action} '{place}': {error}; check the path, its rights and its space, and whether it answers"
        ) from error
