"""Where files of state are: a folder of this machine, or of anything that pyarrow.fs opens."""

from __future__ import annotations

import abc
import hashlib
import mmap
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from penstock.errors import CheckpointError, CheckpointUnavailableError

#: The end of the names of files with the output of a batch, which nothing reads after the batch.
OUTPUT_SUFFIX = ".rows"
#: A copy of a remote file is deleted after the first time without being read, a copy of output after the second: each
#: batch may have as much output as input.
_UNREAD_SECONDS, _UNREAD_OUTPUT_SECONDS = 3600, 300


#: Adds a bytes-like part to a new file.
Write: TypeAlias = Callable[[Any], None]


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
    def from_uri(uri: str, cache: str | os.PathLike[str] | None = None) -> Storage:
        """The folder at ``uri``: a path, ``file:/...``, or a scheme of pyarrow.fs (``s3://``, ``gs://``, ``hdfs://``).

        Files of other machines are kept in the folder ``cache``, by default in the folder for temporary files. Raises
        CheckpointError if the address is not understood.
        """
        parts = urlsplit(uri)
        if parts.scheme in ("", "file"):
            return LocalStorage(unquote(parts.path) if parts.scheme else uri)
        try:
            fs.FileSystem.from_uri(uri)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise CheckpointError(
                f"the state of a job cannot be kept at '{uri}': {error}; use a path of this machine, s3://, gs:// or "
                "hdfs://"
            ) from error
        return RemoteStorage(uri, str(cache or _make_own_cache()))

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Where it is, for messages."""

    @abc.abstractmethod
    def create(self, name: str) -> AbstractContextManager[Write]:
        """A new file, whose parts are written one after the other. When the context ends without an error, the file is
        whole and durable. An incomplete one is never read, because nothing names it."""

    def write(self, name: str, parts: Iterable[Any]) -> None:
        """Write a new file of these parts, as :meth:`create`."""
        with self.create(name) as write:
            for part in parts:
                write(part)

    @abc.abstractmethod
    def open(self, name: str) -> pa.Buffer:
        """The content of a file, mapped into memory. Raises CheckpointError if there is no such file."""

    @abc.abstractmethod
    def files(self) -> Iterator[StoredFile]:
        """All files; none when the folder does not exist."""

    def take(self, name: str, source: Storage) -> None:
        """Copy a file of another storage, in place of one that was copied in part. When the call returns, it is whole
        and durable. Raises CheckpointError if there is no such file."""
        self.write(name, [source.open(name)])

    @abc.abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if there is one of that name."""

    def find_unseen(self, names: Collection[str]) -> list[str]:
        """The files, possibly written by other machines, that this machine cannot see; always empty for storage that
        all machines reach under one address."""
        return []


@dataclass(frozen=True)
class LocalStorage(Storage):
    """A folder of this machine, or one that is mounted here."""

    folder: str

    @property
    def place(self) -> str:
        return self.folder

    @contextmanager
    def create(self, name: str) -> Iterator[Write]:
        path, action = Path(self.folder, name), f"write '{name}' to"
        with _translate_failures(action, self.folder):
            try:
                file = path.open("xb", buffering=0)
            except FileNotFoundError:
                _make_folder(path.parent)
                file = path.open("xb", buffering=0)

        def write(part: Any) -> None:
            with _translate_failures(action, self.folder):
                rest = memoryview(part).cast("B")
                while len(rest):
                    rest = rest[file.write(rest) :]

        with file:
            yield write
            with _translate_failures(action, self.folder):
                os.fsync(file.fileno())
                _sync(path.parent)

    def open(self, name: str) -> pa.Buffer:
        with _translate_failures(f"read '{name}' from", self.folder):
            try:
                return _map_file(Path(self.folder, name))
            except FileNotFoundError as error:
                raise missing_error(name, self.folder) from error

    def take(self, name: str, source: Storage) -> None:
        """As :meth:`Storage.take`. Files never change, so one on the same disk gets a hard link. A copy gets its name
        when it is whole, so that no crash leaves a part of it."""
        path = Path(self.folder, name)
        draft = path.with_name(f".{name}.{uuid.uuid4().hex}")
        with _translate_failures(f"write '{name}' to", self.folder):
            _make_folder(path.parent)
            try:
                if not (isinstance(source, LocalStorage) and _link_file(draft, Path(source.folder, name))):
                    self.write(draft.name, [source.open(name)])
                draft.replace(path)
                _sync(path.parent)
            finally:
                draft.unlink(missing_ok=True)

    def files(self) -> Iterator[StoredFile]:
        with _translate_failures("list", self.folder):
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
        with _translate_failures(f"delete '{name}' from", self.folder):
            Path(self.folder, name).unlink(missing_ok=True)

    def find_unseen(self, names: Collection[str]) -> list[str]:
        return sorted(name for name in names if not Path(self.folder, name).exists())


@dataclass(frozen=True)
class RemoteStorage(Storage):
    """A folder that pyarrow.fs opens. Files that were written or read here are kept whole in the folder ``cache``,
    where other processes of this machine find them, until nothing has read them for an hour, or output of a batch for
    five minutes."""

    uri: str
    cache: str

    @property
    def place(self) -> str:
        return self.uri

    @contextmanager
    def create(self, name: str) -> Iterator[Write]:
        action = f"write '{name}' to"
        with _translate_failures(action, self.uri):
            system, path = self._find_place(name)
            system.create_dir(path.rpartition("/")[0], recursive=True)
            stream = system.open_output_stream(path)
        with self._keep_copy(name) as keep:

            def write(part: Any) -> None:
                with _translate_failures(action, self.uri):
                    stream.write(part)
                keep(part)

            with stream:
                yield write
                with _translate_failures(action, self.uri):
                    stream.close()

    def open(self, name: str) -> pa.Buffer:
        path = self._find_cached(name)
        with _translate_failures(f"read '{name}' from", self.uri):
            with suppress(FileNotFoundError):  # not read here yet, or deleted by another process, also at this moment
                os.utime(path)
                return _map_file(path)
            content = self._fetch_file(name)
            with self._keep_copy(name) as keep:
                keep(content)
            return _map_file(path)

    def files(self) -> Iterator[StoredFile]:
        with _translate_failures("list", self.uri):
            system, folder = fs.FileSystem.from_uri(self.uri)
            found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        for each in found:
            if each.type == fs.FileType.File:
                yield StoredFile(each.base_name, each.size, (each.mtime_ns or 0) // 1_000_000)

    def delete(self, name: str) -> None:
        with _translate_failures(f"delete '{name}' from", self.uri):
            system, path = self._find_place(name)
            with suppress(FileNotFoundError):
                system.delete_file(path)
            self._find_cached(name).unlink(missing_ok=True)

    def _find_place(self, name: str) -> tuple[fs.FileSystem, str]:
        system, folder = fs.FileSystem.from_uri(self.uri)
        return system, f"{folder.rstrip('/')}/{name}"

    def _fetch_file(self, name: str) -> pa.Buffer:
        system, path = self._find_place(name)
        try:
            with system.open_input_stream(path) as stream:
                return stream.read_buffer()
        except FileNotFoundError as error:
            raise missing_error(name, self.uri) from error

    def _find_cached(self, name: str) -> Path:
        return Path(self.cache, f"{self._mark}-{name}")

    @property
    def _mark(self) -> str:
        """What distinguishes this folder from others that share the cache."""
        return hashlib.blake2b(self.uri.encode(), digest_size=8).hexdigest()

    @contextmanager
    def _keep_copy(self, name: str) -> Iterator[Write]:
        """Writes the copy of a file in the cache, and deletes old ones."""
        path, action = self._find_cached(name), f"write '{name}' to"
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with _translate_failures(action, self.cache):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = draft.open("xb")

        def write(part: Any) -> None:
            with _translate_failures(action, self.cache):
                file.write(part)

        with file:
            yield write
        with _translate_failures(action, self.cache):
            draft.replace(path)
            for each in os.scandir(self.cache):
                most = _UNREAD_OUTPUT_SECONDS if each.name.endswith(OUTPUT_SUFFIX) else _UNREAD_SECONDS
                with suppress(FileNotFoundError):  # deleted by another process since
                    if self._mark in each.name and each.stat().st_mtime < time.time() - most:
                        os.unlink(each.path)


def _map_file(path: Path) -> pa.Buffer:
    """The content of a file, mapped into memory."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return pa.py_buffer(b"")
        return pa.py_buffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


def _make_folder(folder: Path) -> None:
    """Make a folder, if there is none."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _sync(folder.parent)


def _link_file(path: Path, file: Path) -> bool:
    """Make a hard link to a file. False where that is impossible: on another disk, or on one without links."""
    with suppress(OSError):
        path.hardlink_to(file)
        return True
    return False


def _sync(folder: Path) -> None:
    """Make the names of files in a folder durable."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _make_own_cache() -> Path:
    """A folder that other users cannot write to."""
    path = Path(tempfile.gettempdir(), f"penstock-state-{os.getuid()}")
    with _translate_failures("make the folder", str(path)):
        path.mkdir(mode=0o700, exist_ok=True)
        if path.stat().st_uid != os.getuid():
            raise PermissionError(f"it belongs to the user {path.owner()}")
    return path


def missing_error(name: str, place: str) -> CheckpointError:
    return CheckpointError(
        f"'{name}' in '{place}' is missing, but the checkpoint names it as part of the job's state; restore it from a "
        "backup, or start with another checkpoint directory"
    )


@contextmanager
def _translate_failures(action: str, place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointUnavailableError(
            f"cannot {action} '{place}': {error}; check the path, its rights and its space, and whether it answers"
        ) from error
