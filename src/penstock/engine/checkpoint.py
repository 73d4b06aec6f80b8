"""A job's checkpoint: Spark's own logs, and penstock's documents beside them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.spi import cause_of

__all__ = ["JobCheckpoint", "default_location", "open_checkpoint"]

_FOLDER = "penstock"
#: What file systems without hard links answer.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES}
#: What file systems without locks answer.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
#: What does not pass by itself.
_LASTING = _NO_LOCKS | {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
#: What the clients of Hadoop's file systems say where a right is missing: names of classes, and of HTTP's statuses.
_DENIED = re.compile(r"AccessControlException|AuthorizationException|AccessDenied|Forbidden|Unauthorized")
_LOCAL_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def default_location(job: str) -> str:
    """Where a job's checkpoint is kept when the user names no place: a durable folder of the user's, by job name."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return str(Path(state) / "penstock" / "checkpoints" / _folder(job))


def open_checkpoint(spark: SparkSession, location: str | None, job: str) -> JobCheckpoint:
    """The checkpoint of ``job`` under ``location`` (a directory or URI), or at the default place.

    Raises CheckpointError for a file system that cannot be used.
    """
    root = f"{location.rstrip('/')}/{_folder(job)}" if location else default_location(job)
    parts = urlsplit(root)
    if parts.scheme in ("", "file"):
        path = Path(unquote(parts.path) if parts.scheme else root).absolute()
        # Hadoop's default manager forks a process per file on a local disk; this one renames just as atomically.
        spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", _LOCAL_MANAGER)
        return JobCheckpoint(str(path), _LocalFiles(path), path.as_uri())
    spark.conf.unset("spark.sql.streaming.checkpointFileManagerClass")
    try:
        return JobCheckpoint(root, _HadoopFiles(spark, root))
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint '{root}' cannot be opened: {error}; check its address, and that Spark has the classes and "
            "rights for it"
        ) from error


def _folder(job: str) -> str:
    """The job's name as the name of a folder; different names give different folders."""
    plain = re.sub(r"[^\w.-]+", "_", job, flags=re.ASCII)
    if plain == job and plain.strip("."):
        return plain
    return f"{plain}-{hashlib.sha256(job.encode()).hexdigest()[:8]}"


class _Files(Protocol):
    """Files below a folder. All raise OSError."""

    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...
    def create(self, name: str, text: str) -> None: ...
    def names(self, folder: str) -> list[str]: ...


class JobCheckpoint:
    """Reads Spark's offset and commit logs and keeps penstock's own documents. Driver only."""

    def __init__(self, location: str, files: _Files, uri: str | None = None):
        self.location = location
        #: The place in Spark's words: with its scheme, whatever the default file system is.
        self.uri = uri or location
        self._files = files

    def read(self, name: str) -> dict[str, Any] | None:
        """The document ``name``, or None. Raises CheckpointError when it is not a JSON object, and, as all methods do,
        CheckpointUnavailableError when the storage fails."""
        text = self._text(f"{_FOLDER}/{name}.json")
        return None if text is None else self._parse(text, f"{_FOLDER}/{name}.json")

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write the document ``name`` atomically. Raises CheckpointError."""
        text = json.dumps(document, sort_keys=True, indent=1) + "\n"
        try:
            self._files.write(f"{_FOLDER}/{name}.json", text)
        except OSError as error:
            raise self._unwritable(error) from error

    def create(self, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Write the document ``name`` unless it is there, and give what is there: of two that create it at once both
        get the same, where the file system renames a file only if its new name is free (object stores look first, and
        two copies may both find it free). Raises CheckpointError."""
        text = json.dumps(document, sort_keys=True, indent=1) + "\n"
        try:
            self._files.create(f"{_FOLDER}/{name}.json", text)
        except OSError as error:
            raise self._unwritable(error) from error
        return self.read(name) or dict(document)

    def revise(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Replace what is known under ``name`` (at first: nothing) by what ``change`` makes of it, and give that. When
        another copy of the job was quicker, ``change`` is asked again, so that no change is lost. Raises
        CheckpointError.

        Each revision is a file of its own, which is created once and never removed.
        """
        mine = uuid.uuid4().hex
        while True:
            revisions = [0, *self._revisions(name)]
            before: dict[str, Any] = (self.read(f"{name}.{max(revisions)}") or {}).get("content", {})
            after = change(before)
            if after == before:
                return before
            if self.create(f"{name}.{max(revisions) + 1}", {"content": after, "by": mine})["by"] == mine:
                return after

    def _revisions(self, name: str) -> Iterator[int]:
        try:
            names = self._files.names(_FOLDER)
        except OSError as error:
            raise self._unreadable(_FOLDER, error) from error
        found = (re.fullmatch(rf"{re.escape(name)}\.(\d+)\.json", each) for each in names)
        return (int(each[1]) for each in found if each)

    def first_batch(self) -> int:
        """The id of the batch that Spark runs first: the last planned one when it was not committed, else the next."""
        planned, committed = self._last("offsets"), self._last("commits")
        return planned if planned is not None and planned != committed else (-1 if committed is None else committed) + 1

    def offsets(self, batch: int) -> tuple[dict[str, Any], ...] | None:
        """The end positions of ``batch``, one per source, as Spark logged them; None when it was not planned."""
        name = f"offsets/{batch}"
        text = self._text(name)
        if text is None:
            return None
        lines = text.split("\n")
        if not lines[0].startswith("v") or len(lines) < 3:  # version, metadata, then one line per source
            raise CheckpointError(self._damaged(name, "it is cut short"))
        return tuple(self._parse(line, name) for line in lines[2:] if line)

    def check(self) -> None:
        """Raises CheckpointError for an entry of Spark's logs that a start reads and that is damaged or missing.

        Spark would end the query with the reason and without the file's name.
        """
        planned, committed = self._last("offsets"), self._last("commits")
        metadata = self._text("metadata")
        if metadata is not None and "id" not in self._parse(metadata, "metadata"):
            raise CheckpointError(self._damaged("metadata", "it has no id"))
        if planned is not None:
            if metadata is None:
                raise CheckpointError(self._damaged("metadata", "it is missing"))
            for batch in range(max(0, planned - 1), planned + 1):
                if not self.offsets(batch):
                    raise CheckpointError(self._damaged(f"offsets/{batch}", "it is missing, or has no positions"))
        if committed is not None:
            name = f"commits/{committed}"
            version, _, content = (self._text(name) or "").partition("\n")
            if not version.startswith("v"):
                raise CheckpointError(self._damaged(name, "it is cut short"))
            self._parse(content, name)

    def _text(self, name: str) -> str | None:
        try:
            return self._files.read(name)
        except OSError as error:
            raise self._unreadable(name, error) from error
        except UnicodeDecodeError as error:
            raise CheckpointError(self._damaged(name, str(error))) from error

    def _last(self, folder: str) -> int | None:
        try:
            names = self._files.names(folder)
        except OSError as error:
            raise self._unreadable(folder, error) from error
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _parse(self, text: str, name: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CheckpointError(self._damaged(name, str(error))) from error
        if not isinstance(found, dict):
            raise CheckpointError(self._damaged(name, "it holds no JSON object"))
        return found

    def _unwritable(self, error: OSError) -> CheckpointError:
        return _kind_of(error)(
            f"cannot write to the checkpoint '{self.location}': {error}; check the path, its rights and its space"
        )

    def _unreadable(self, name: str, error: OSError) -> CheckpointError:
        return _kind_of(error)(
            f"'{name}' in the checkpoint '{self.location}' cannot be read: {error}; check the path, its rights and "
            "that its storage answers, and start the job again"
        )

    def _damaged(self, name: str, reason: str) -> str:
        return (
            f"'{name}' in the checkpoint '{self.location}' cannot be read: {reason}; "
            "restore the file from a backup, or start with another checkpoint directory"
        )


def _kind_of(error: OSError) -> type[CheckpointError]:
    """Whether a restart may help: not with a wrong path or a missing right."""
    return CheckpointError if error.errno in _LASTING else CheckpointUnavailableError


class _LocalFiles:
    def __init__(self, root: Path):
        self._root = root

    def read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        self._put(name, text, lambda draft, path: draft.replace(path))

    def create(self, name: str, text: str) -> None:
        def link(draft: Path, path: Path) -> None:
            try:
                path.hardlink_to(draft)  # unlike a rename, never over what is there
            except FileExistsError:
                return
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with path.with_name(".lock").open("w") as lock:  # which falls with the process that holds it
                    self._lock(lock)
                    if not path.exists():
                        draft.replace(path)

        self._put(name, text, link)

    @staticmethod
    def _lock(file: TextIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            reason = "its file system has neither hard links nor locks, so that two copies of the job may not meet"
            raise OSError(error.errno, f"{reason}; choose another one") from error

    def _put(self, name: str, text: str, publish: Callable[[Path, Path], object]) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            publish(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._root / folder)
        except FileNotFoundError:
            return []


class _HadoopFiles:
    """Any file system that Hadoop's client knows, through the driver's JVM."""

    def __init__(self, spark: SparkSession, root: str):
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        with _as_os_error():
            configuration = context._jsc.hadoopConfiguration()
            self._root = self._jvm.org.apache.hadoop.fs.Path(root)
            self._system = self._root.getFileSystem(configuration)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), configuration)
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        gateway = context._gateway
        self._overwrite = gateway.new_array(rename, 1)
        self._overwrite[0] = rename.OVERWRITE
        self._no_options = gateway.new_array(rename, 0)

    def read(self, name: str) -> str | None:
        path = self._path(name)
        with _as_os_error():
            if not self._system.exists(path):
                return None
            stream = self._system.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, name: str, text: str) -> None:
        with _as_os_error():
            self._context.rename(self._draft(name, text), self._path(name), self._overwrite)

    def create(self, name: str, text: str) -> None:
        draft = self._draft(name, text)
        try:
            with _as_os_error():
                self._context.rename(draft, self._path(name), self._no_options)
        except OSError:
            with _as_os_error():
                self._system.delete(draft, False)
            if self.read(name) is None:
                raise

    def _draft(self, name: str, text: str) -> Any:
        draft = self._path(f"{name}.{uuid.uuid4().hex}.draft")
        with _as_os_error():
            stream = self._system.create(draft, True)
            try:
                stream.write(text.encode("utf-8"))
            finally:
                stream.close()
        return draft

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        with _as_os_error():
            if not self._system.exists(path):
                return []
            return [str(status.getPath().getName()) for status in self._system.listStatus(path)]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


@contextmanager
def _as_os_error() -> Iterator[None]:
    """What Hadoop's client raises, as Python's own file functions raise it."""
    try:
        yield
    except Py4JJavaError as error:
        raise _os_error(str(error.java_exception.toString())) from error
    except PySparkException as error:
        raise _os_error(cause_of(str(error))) from error


def _os_error(text: str) -> OSError:
    return PermissionError(errno.EACCES, text) if _DENIED.search(text) else OSError(text)
