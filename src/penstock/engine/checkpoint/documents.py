"""A job's documents in its checkpoint, and Spark's logs there."""

from __future__ import annotations

import errno
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

from penstock.engine.checkpoint.local import NO_LOCKS, Lock
from penstock.errors import CheckpointError, CheckpointUnavailableError

_FOLDER = "penstock"
#: Errors that are not transient.
_LASTING = NO_LOCKS | {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}


class Files(Protocol):
    """Files below a folder. All methods raise OSError."""

    def read(self, name: str) -> str | None:
        """The file's text, or None when there is no such file."""
        ...

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Write the file, or replace it, atomically. Unless it is ``durable``, it may be lost or damaged when the
        machine fails."""
        ...

    def create(self, name: str, text: str) -> None:
        """Write the file unless it exists."""
        ...

    def delete(self, name: str) -> None:
        """Delete the file, if it exists."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none when it does not exist."""
        ...

    def lock(self, name: str) -> Lock:
        """The lock of the file, if no other has it and the file system has locks. Does not wait."""
        ...


class JobCheckpoint:
    """Reads Spark's offset and commit logs and keeps penstock's own documents. Driver only."""

    def __init__(self, location: str, files: Files, uri: str | None = None):
        self.location = location
        #: The location with its scheme, so that Spark's default file system does not matter.
        self.uri = uri or location
        self._files = files

    @property
    def spark_uri(self) -> str:
        """The location as Hadoop's paths have it: what other addresses escape, such as a blank, is left as it is."""
        return unquote(self.uri) if self.uri.startswith("file:") else self.uri

    def read(self, name: str) -> dict[str, Any] | None:
        """The document ``name``, or None. Raises CheckpointError when it is not a JSON object. All methods raise
        CheckpointUnavailableError when the storage fails."""
        path = self._path(name)
        text = self._text(path)
        return None if text is None else self._parse(text, path)

    def write(self, name: str, document: Mapping[str, Any], *, durable: bool = True) -> None:
        """Write the document ``name`` atomically. Without ``durable`` it does not wait for the disk: for content that
        is meaningless after a machine failure. Raises CheckpointError."""
        self._put(partial(self._files.write, durable=durable), name, document)

    def latest(self, name: str) -> dict[str, Any] | None:
        """The document ``name`` that :meth:`advance` has written with the highest number; else the one without a
        number, as former versions wrote it; None if there is neither."""
        while numbers := list(self._numbers(name)):
            found = self.read(f"{name}.{max(numbers)}")
            if found is not None:  # else it was deleted meanwhile: a document with a higher number exists
                return found
        return self.read(name)

    def advance(self, name: str, number: int, document: Mapping[str, Any], *, replace: bool = False) -> None:
        """Write the document ``name`` with this number, unless it exists, or ``replace`` it. So a late copy of the job
        neither replaces a document nor becomes the latest. Numbers are consecutive; the previous document is deleted,
        and may stay if that fails. Raises CheckpointError."""
        self._put(self._files.write if replace else self._files.create, f"{name}.{number}", document)
        self.delete(f"{name}.{number - 2}")

    def create(self, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Write the document ``name`` unless it exists, and return the one that exists. Two copies of a job that create
        it at once get the same document if the file system renames a file only to a free name. Object stores check
        the name first, and then rename: two copies may both find it free. Raises CheckpointError."""
        self._put(self._files.create, name, document)
        return self.read(name) or dict(document)

    def revise(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Replace the content of ``name`` (at first an empty one) by ``change(content)``, and return the new content.
        If another copy of the job wrote first, ``change`` is called again on its result, so that no change is lost.
        Raises CheckpointError.

        Each revision is a separate file, which is created once and never removed.
        """
        mine = uuid.uuid4().hex
        while True:
            revisions = [0, *self._numbers(name)]
            before: dict[str, Any] = (self.read(f"{name}.{max(revisions)}") or {}).get("content", {})
            after = change(before)
            if after == before:
                return before
            if self.create(f"{name}.{max(revisions) + 1}", {"content": after, "by": mine})["by"] == mine:
                return after

    def delete(self, name: str) -> None:
        """Delete the document ``name``, if it exists; a failure is ignored."""
        with suppress(OSError):
            self._files.delete(self._path(name))

    def lock(self, name: str) -> Lock:
        """Try to get the lock ``name``. Raises CheckpointError."""
        with self._writing():
            return self._files.lock(f"{_FOLDER}/{name}")

    def last_number(self, name: str) -> int:
        """The highest number of the documents ``name`` that have one; 0 if none has."""
        return max(self._numbers(name), default=0)

    def _numbers(self, name: str) -> Iterator[int]:
        """The numbers of the documents ``name`` that have one."""
        found = (re.fullmatch(rf"{re.escape(name)}\.(\d+)\.json", each) for each in self._names(_FOLDER))
        return (int(each[1]) for each in found if each)

    def folder(self, name: str) -> str:
        """The address of a folder in it."""
        return f"{self.uri.rstrip('/')}/{name}"

    def last(self, log: str) -> int:
        """The number of the last batch in Spark's log ``offsets`` or ``commits``; -1 if it is empty."""
        found = self._last(log)
        return -1 if found is None else found

    def first_batch(self) -> int:
        """The id of the batch that Spark runs first: the last planned one if it was not committed, else the next."""
        planned, committed = self._last("offsets"), self._last("commits")
        return planned if planned is not None and planned != committed else (-1 if committed is None else committed) + 1

    def offsets(self, batch: int) -> tuple[dict[str, Any], ...] | None:
        """The end positions of ``batch``, one per source, from Spark's log; None if it was not planned."""
        name = f"offsets/{batch}"
        text = self._text(name)
        if text is None:
            return None
        lines = text.split("\n")
        if not lines[0].startswith("v") or len(lines) < 3:  # version, metadata, then one line per source
            raise self._damaged(name, "it is cut short")
        return tuple(self._parse(line, name) for line in lines[2:] if line)

    def check_writable(self) -> None:
        """Write a file, and delete it. Raises CheckpointError if that fails."""
        probe = self._path(f"probe-{uuid.uuid4().hex}")
        with self._writing():
            self._files.write(probe, "{}\n")
            self._files.delete(probe)

    def check(self) -> None:
        """Raises CheckpointError if an entry of Spark's logs that a start reads is damaged or missing.

        Spark would end the query with the reason, but without the file's name.
        """
        planned, committed = self._last("offsets"), self._last("commits")
        metadata = self._text("metadata")
        if metadata is not None and "id" not in self._parse(metadata, "metadata"):
            raise self._damaged("metadata", "it has no id")
        if planned is not None:
            if metadata is None:
                raise self._damaged("metadata", "it is missing")
            for batch in range(max(0, planned - 1), planned + 1):
                if not self.offsets(batch):
                    raise self._damaged(f"offsets/{batch}", "it is missing, or has no positions")
        if committed is not None:
            name = f"commits/{committed}"
            version, _, content = (self._text(name) or "").partition("\n")
            if not version.startswith("v"):
                raise self._damaged(name, "it is cut short")
            self._parse(content, name)

    def _text(self, name: str) -> str | None:
        try:
            with self._reading(name):
                return self._files.read(name)
        except UnicodeDecodeError as error:
            raise self._damaged(name, str(error)) from error

    def _last(self, folder: str) -> int | None:
        return max((int(name) for name in self._names(folder) if name.isdigit()), default=None)

    def _names(self, folder: str) -> list[str]:
        with self._reading(folder):
            return self._files.names(folder)

    def _put(self, put: Callable[[str, str], None], name: str, document: Mapping[str, Any]) -> None:
        with self._writing():
            put(self._path(name), json.dumps(document, sort_keys=True, indent=1) + "\n")

    def _path(self, name: str) -> str:
        """The file of a document."""
        return f"{_FOLDER}/{name}.json"

    def _parse(self, text: str, name: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise self._damaged(name, str(error)) from error
        if not isinstance(found, dict):
            raise self._damaged(name, "it holds no JSON object")
        return found

    def _reading(self, name: str) -> AbstractContextManager[None]:
        hint = "check the path, its rights and that its storage answers, and start the job again"
        return _storage_errors(f"'{name}' in the checkpoint '{self.location}' cannot be read", hint)

    def _writing(self) -> AbstractContextManager[None]:
        problem = f"cannot write to the checkpoint '{self.location}'"
        return _storage_errors(problem, "check the path, its rights and its space")

    def _damaged(self, name: str, reason: str) -> CheckpointError:
        return CheckpointError(
            f"'{name}' in the checkpoint '{self.location}' cannot be read: {reason}; "
            "restore the file from a backup, or start with another checkpoint directory"
        )


@contextmanager
def _storage_errors(problem: str, hint: str) -> Iterator[None]:
    """Raises OSErrors as errors of the checkpoint. A restart may help if the storage did not answer, but not with a
    wrong path or a missing right."""
    try:
        yield
    except OSError as error:
        cls = CheckpointError if error.errno in _LASTING else CheckpointUnavailableError
        raise cls(f"{problem}: {error}; {hint}") from error
