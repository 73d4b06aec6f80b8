"""Output of a batch that is kept beside the state until its targets have it."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.columns.streams import ipc_stream
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.flow.state.storage import OUTPUT_SUFFIX, Storage, Write

#: The version of the rows of :class:`KeptOutput`, rows of the exchange. In version 1 they contain their bytes, in
#: versions 1 and 2 a single number names the edge.
OUTPUT_VERSION = 3
_READABLE = (1, 2, OUTPUT_VERSION)


class KeptFile:
    """A file in a storage for the output of one task, created when the task has output. ``name`` begins with
    ``prefix``; each attempt at a task has its own file. When the ``with`` block ends with an error, the file may be
    incomplete.

    All methods raise CheckpointUnavailableError if the storage does not answer.
    """

    def __init__(self, storage: Storage, prefix: str):
        self._storage = storage
        self.name = f"{prefix}-{uuid.uuid4().hex[:12]}{OUTPUT_SUFFIX}"
        self._opened = ExitStack()
        self._write: Write | None = None
        self._digest = hashlib.sha256()
        self._size = 0

    def __enter__(self) -> KeptFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def append(self, data: pa.Buffer) -> int:
        """Write bytes at the end. Returns the position at which they begin."""
        if self._write is None:
            self._write = self._opened.enter_context(self._storage.create(self.name))
        position = self._size
        self._write(data)
        self._digest.update(data)
        self._size += data.size
        return position

    def finish(self) -> bool:
        """Make the file durable. Returns whether there is one."""
        self._opened.close()
        return self._write is not None

    def to_json(self) -> bytes:
        """The name of the file and its SHA-256, as an entry of :attr:`KeptOutput.files`."""
        return json.dumps({self.name: self._digest.hexdigest()}).encode()


@dataclass(frozen=True)
class KeptOutput:
    """The output of a batch for several targets: a file with rows of :data:`penstock.flow.graph.exchange.EXCHANGE`, its
    SHA-256, and the tables of each target. ``version`` is the version of the rows in the file. ``files`` are the files
    that the rows refer to, with their SHA-256."""

    file: str
    sha256: str
    tables: tuple[tuple[str, ...], ...]
    version: int = OUTPUT_VERSION
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def write(
        cls,
        storage: Storage,
        name: str,
        rows: pa.Table,
        tables: Sequence[Sequence[str]],
        files: Mapping[str, str],
    ) -> KeptOutput:
        """Write the rows as the file ``name``."""
        data = ipc_stream(rows)
        storage.write(name, [data])
        return cls(name, hashlib.sha256(data).hexdigest(), tuple(map(tuple, tables)), files=files)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> KeptOutput:
        """The output that a manifest names."""
        tables = tuple(map(tuple, document["tables"]))
        version, files = document.get("version", 1), document.get("files", {})
        return cls(document["file"], document["sha256"], tables, version, files)

    @property
    def names(self) -> frozenset[str]:
        """The names of all its files."""
        return frozenset((self.file, *self.files))

    def read(self, storage: Storage) -> pa.Table:
        """The rows. Raises CheckpointError if a file is missing, is not the one that was written, or is of another
        version."""
        if self.version not in _READABLE:
            raise CheckpointError(
                f"'{self.file}' in '{storage.place}', which holds {self._what}, has version {self.version}, and this "
                f"penstock reads version {OUTPUT_VERSION}; start the job once with the version that wrote it, so that "
                "it finishes this batch, stop it, then start it with the new one"
            )
        for name, digest in self.files.items():
            self._open(storage, name, digest)
        with pa.ipc.open_stream(self._open(storage, self.file, self.sha256)) as reader:
            return reader.read_all()

    def _open(self, storage: Storage, name: str, digest: str) -> pa.Buffer:
        try:
            data = storage.open(name)
        except CheckpointUnavailableError:
            raise
        except CheckpointError as error:
            raise CheckpointError(
                f"'{name}' in '{storage.place}' is missing, which holds {self._what}: restore it from a backup. "
                "Without it, start with another checkpoint directory, and make sure that all targets have the same rows"
            ) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise content_changed_error(f"'{name}', which holds {self._what},")
        return data

    @property
    def _what(self) -> str:
        """What the files hold. Their names begin with the number of the batch."""
        number = int(re.split(r"\D", self.file, maxsplit=1)[0])
        return f"the output of batch {number}, which some targets of the job have and others do not"


def content_changed_error(where: str) -> CheckpointError:
    """The error for a file whose content does not have its SHA-256."""
    return CheckpointError(
        f"{where} is not the one that was committed: its content has changed; restore the checkpoint with all its "
        "files, or start the job with a new one"
    )
