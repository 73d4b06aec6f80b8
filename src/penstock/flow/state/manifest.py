"""Manifests: the segments that hold the state of a job after a batch, in one immutable file."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.delivery import to_canonical_json
from penstock.errors import CheckpointError
from penstock.flow.state.compaction import join_neighbours
from penstock.flow.state.kept_output import KeptOutput, content_changed_error
from penstock.flow.state.parts import part_of
from penstock.flow.state.segments import END, SegmentRef
from penstock.flow.state.storage import Storage, missing_error
from penstock.flow.state.table_totals import TableTotals
from penstock.flow.time.watermarks import OperatorTime, WatermarkProgress

VERSION = 1

#: The segments of an operator's tables, by table.
Tables = Mapping[str, tuple[SegmentRef, ...]]


@dataclass(frozen=True)
class Sinks:
    """The tables that a batch was computed for: those ``keeping`` the state, and those ``repeating`` batches, which
    write the batch before one of the others commits it."""

    keeping: tuple[str, ...] = ()
    repeating: tuple[str, ...] = ()

    def find_lacking(self, had: Sinks, *, everywhere: bool) -> list[str]:
        """The repeating tables that may lack a batch which was computed for the tables ``had``, and which one of them
        has; ``everywhere``: all of them have it."""
        sure = Counter(had.repeating) + Counter(had.keeping if everywhere else ())
        return sorted((Counter(self.repeating) - sure).elements())


@dataclass(frozen=True)
class Manifest:
    """The state after batch number ``batch`` (-1: before the first): for each operator, by uid, its tables.

    ``time_ms`` is the time of the batch, in milliseconds since the epoch: no batch has an earlier one than the batch
    before it. ``times`` says how far event time has come, by the names of generators, and ``operator_times`` what
    operators have seen of it, by uid. ``output`` is that of the batch, if the job has several targets that commit the
    state. ``sinks`` are the tables of the job; None in the manifests of former versions. ``final``: a batch job wrote
    it; no batch may follow. ``identities`` say what the meaning of the state of each step depends on, by uid, as
    :mod:`penstock.plan.step_identity` has it; former versions wrote none. ``measures`` say the same of ``times``: what
    is measured, by the names of generators. ``schemas`` are the files with the schemas of tables that the job has
    found, in their order (:mod:`penstock.flow.state.schema_log`), ``refused`` is the number of records that it has left
    out, and ``totals`` has the rows that it has read of each table.
    """

    batch: int = -1
    operators: Mapping[str, Tables] = field(default_factory=dict)
    time_ms: int = 0
    times: Mapping[str, WatermarkProgress] = field(default_factory=dict)
    output: KeptOutput | None = None
    sinks: Sinks | None = Sinks()
    operator_times: Mapping[str, OperatorTime] = field(default_factory=dict)
    final: bool = False
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measures: Mapping[str, str] = field(default_factory=dict)
    schemas: tuple[str, ...] = ()
    refused: int = 0
    totals: TableTotals = field(default_factory=TableTotals)

    @property
    def keeps_nothing(self) -> bool:
        """Whether it holds neither the state of a step nor anything of tables that the job has found."""
        return not (self.operators or self.schemas or self.refused)

    def files(self) -> frozenset[str]:
        """The names of the files that hold the state."""
        totals = (each.name for each in self.totals.files)
        return frozenset((*(ref.file for ref in self._walk_refs()), *self.schemas, *totals))

    def _walk_refs(self) -> Iterator[SegmentRef]:
        for tables in self.operators.values():
            for refs in tables.values():
                yield from refs

    @property
    def bytes(self) -> int:
        """The bytes of all segments."""
        return sum({(ref.file, ref.offset): ref.bytes for ref in self._walk_refs()}.values())

    def write(self, storage: Storage, name: str) -> str:
        """Write the manifest as ``name`` and return the reference to it: the name, ``#`` and the SHA-256 of the
        file."""
        operators = {
            uid: {table: [ref.to_json() for ref in refs] for table, refs in tables.items()}
            for uid, tables in self.operators.items()
        }
        times = {
            name: {"watermark": each.watermark, "partitions": each.partitions} for name, each in self.times.items()
        }
        document = {"version": VERSION, "batch": self.batch, "time_ms": self.time_ms, "operators": operators}
        kept = {} if self.output is None else {"output": asdict(self.output)}
        sinks = {} if self.sinks is None else {"sinks": asdict(self.sinks)}
        seen = {uid: asdict(each) for uid, each in self.operator_times.items()}
        operator_times = {"operator_times": seen} if seen else {}
        final = {"final": True} if self.final else {}
        about = {
            "identities": self.identities,
            "measures": self.measures,
            "schemas": list(self.schemas),
            "refused": self.refused,
            "totals": self.totals.to_json(),
        }
        said = {name: each for name, each in about.items() if each}
        data = to_canonical_json(
            document | ({"times": times} if times else {}) | operator_times | kept | sinks | final | said
        ).encode()
        storage.write(name, [data])
        return f"{name}#{hashlib.sha256(data).hexdigest()}"

    @classmethod
    def read(cls, storage: Storage, reference: str) -> Manifest:
        """The manifest of a reference of :meth:`write`; of an empty reference, the state before the first batch. Raises
        CheckpointError if the file is missing, or is not the one that was committed."""
        if not reference:
            return cls()
        name, _, digest = reference.partition("#")
        where = f"'{name}', which names the files of the job's state,"
        data = storage.open(name).to_pybytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise content_changed_error(where)
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
        times = {
            name: WatermarkProgress(each["watermark"], each["partitions"])
            for name, each in found.get("times", {}).items()
        }
        kept = found.get("output")
        output = KeptOutput.from_json(kept) if kept else None
        written = found.get("sinks")
        sinks = Sinks(tuple(written["keeping"]), tuple(written["repeating"])) if written else None
        seen = {
            uid: OperatorTime(each["watermark"], each["late"]) for uid, each in found.get("operator_times", {}).items()
        }
        return cls(
            found["batch"],
            operators,
            found.get("time_ms", 0),
            times,
            output,
            sinks,
            seen,
            found.get("final", False),
            found.get("identities", {}),
            found.get("measures", {}),
            tuple(found.get("schemas", ())),
            found.get("refused", 0),
            TableTotals.from_json(found.get("totals", {})),
        )


def check_state(storage: Storage, reference: str) -> Manifest:
    """The manifest of a reference, all of whose files exist. Raises CheckpointError, which names a missing file."""
    manifest = Manifest.read(storage, reference)
    named = manifest.files()
    lost = named - {each.name for each in storage.files()} if named else frozenset()
    if lost:
        raise missing_error(min(lost), storage.place)
    return manifest


def merge_reports(
    before: Manifest,
    batch: int,
    reports: Sequence[bytes],
    time_ms: int = 0,
    times: Mapping[str, WatermarkProgress] | None = None,
) -> Manifest:
    """The state after a batch at ``time_ms``, from the state before it and the reports of the owners (:data:`STATE`),
    with ``times``, if event time is measured. A range of hashes whose owner reports nothing stays as it was."""
    changed: dict[str, list[tuple[int, int, Tables]]] = {}
    for report in map(json.loads, reports):
        tables = {name: tuple(map(SegmentRef.from_json, refs)) for name, refs in report["tables"].items()}
        changed.setdefault(report["uid"], []).append((report["low"], report["high"], tables))
    operators = dict(before.operators)
    for uid, parts in changed.items():
        former = before.operators.get(uid, {})
        names = dict.fromkeys([*former, *(name for *_, tables in parts for name in tables)])
        tables = {name: _merge_table(former.get(name, ()), name, parts) for name in names}
        operators[uid] = {name: refs for name, refs in tables.items() if refs or part_of(name) is None}
    return Manifest(
        batch,
        operators,
        max(before.time_ms, time_ms),
        before.times if times is None else times,
        identities=before.identities,
        measures=before.measures,
        schemas=before.schemas,
        refused=before.refused,
        totals=before.totals,
    )


def _merge_table(
    former: Sequence[SegmentRef], name: str, parts: Sequence[tuple[int, int, Tables]]
) -> tuple[SegmentRef, ...]:
    left = list(former)
    for low, high, _ in parts:
        pieces = ((each.clip(0, low), each.clip(high, END)) for each in left)
        left = [piece for both in pieces for piece in both if piece]
    refs = [*left, *(ref for *_, tables in parts for ref in tables.get(name, ()))]
    return tuple(join_neighbours(refs))
