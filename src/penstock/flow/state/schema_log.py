"""The versions of the schemas of a job's tables, in files of its state.

Each change adds a file with newer versions; all files together are the history. Many files become one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from functools import lru_cache

from penstock.flow.state.storage import Storage
from penstock.schemas import Schemas, SchemaVersion

#: The number of files that become one.
_MOST_FILES = 16


@lru_cache(maxsize=4)
def read_schemas(uri: str, files: tuple[str, ...]) -> Schemas:
    """The present schemas by the ``files`` of a storage, in their order. Raises CheckpointError if one is missing."""
    if not files:
        return Schemas()
    return read_schemas(uri, files[:-1]).add_versions(_read_file(Storage.from_uri(uri), files[-1]))


def read_history(storage: Storage, files: Sequence[str]) -> list[SchemaVersion]:
    """All versions in these files, the oldest first. Raises CheckpointError if one is missing."""
    return [version for name in files for version in _read_file(storage, name)]


def append_versions(
    storage: Storage, files: tuple[str, ...], versions: Sequence[SchemaVersion], batch: int
) -> tuple[str, ...]:
    """Write newer versions of a ``batch``; the files that hold the history then. Raises CheckpointError."""
    name = f"{batch:09d}-{uuid.uuid4().hex[:12]}.schemas"
    if len(files) + 1 < _MOST_FILES:
        _write_file(storage, name, versions)
        return (*files, name)
    _write_file(storage, name, [*read_history(storage, files), *versions])
    return (name,)


def _write_file(storage: Storage, name: str, versions: Sequence[SchemaVersion]) -> None:
    lines = (json.dumps(each.to_json(), ensure_ascii=False, separators=(",", ":")) + "\n" for each in versions)
    storage.write(name, ["".join(lines).encode()])


def _read_file(storage: Storage, name: str) -> list[SchemaVersion]:
    text = storage.open(name).to_pybytes().decode()
    return [SchemaVersion.from_json(json.loads(line)) for line in text.splitlines()]
