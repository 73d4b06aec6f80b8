"""Manifests: the segments that hold the state of a job after a batch, in one immutable file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.delivery import canonical
from penstock.errors import CheckpointError
from penstock.flow.segments import SegmentRef, Storage

VERSION = 1

#: The segments of an operator's tables, by table.
Tables = Mapping[str, tuple[SegmentRef, ...]]


@dataclass(frozen=True)
class Manifest:
    """The state after batch number ``batch`` (-1: before the first): for each operator, by uid, its tables."""

    batch: int = -1
    operators: Mapping[str, Tables] = field(default_factory=dict)

    def files(self) -> frozenset[str]:
        """The names of the files that hold the state."""
        return frozenset(ref.file for ref in self._refs())

    def _refs(self) -> Iterator[SegmentRef]:
        for tables in self.operators.values():
            for refs in tables.values():
                yield from refs

    @property
    def bytes(self) -> int:
        """The bytes of all segments."""
        return sum({ref.file: ref.bytes for ref in self._refs()}.values())

    def write(self, storage: Storage, name: str) -> str:
        """Write the manifest as ``name`` and return the reference to it: the name, ``#`` and the SHA-256 of the
        file."""
        operators = {
            uid: {table: [ref.to_json() for ref in refs] for table, refs in tables.items()}
            for uid, tables in self.operators.items()
        }
        data = canonical({"version": VERSION, "batch": self.batch, "operators": operators}).encode()
        storage.write(name, data)
        return f"{name}#{hashlib.sha256(data).hexdigest()}"

    @classmethod
    def read(cls, storage: Storage, reference: str) -> Manifest:
        """The manifest of a reference of :meth:`write`; of an empty reference, the state before the first batch. Raises
        CheckpointError if the file is missing, or is not the one that was committed."""
        if not reference:
            return cls()
        name, _, digest = reference.partition("#")
        where = f"the state's manifest '{name}' in '{storage.location}'"
        hint = "restore the checkpoint with all its files, or start the job with a new one"
        try:
            data = storage.read(name)
        except FileNotFoundError:
            raise CheckpointError(f"{where} is missing; {hint}") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise CheckpointError(f"{where} is not the one that was committed: its content has changed; {hint}")
        found = json.loads(data)
        if found["version"] != VERSION:
            raise CheckpointError(
                f"{where} has version {found['version']}, and this penstock reads version {VERSION}; run the version "
                "that wrote it"
            )
        operators = {
            uid: {table: tuple(SegmentRef.from_json(ref) for ref in refs) for table, refs in tables.items()}
            for uid, tables in found["operators"].items()
        }
        return cls(found["batch"], operators)
