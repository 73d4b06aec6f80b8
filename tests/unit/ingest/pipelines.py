"""Runs a pipeline on messages without Spark and without a broker: as its tasks and its driver do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from penstock.flow.kernels.session import Session
from penstock.flow.rows.table_rows import Evolution, TableRows, TablesWork
from penstock.ingest import copy_table, lower, parse_pipeline
from penstock.plan.nodes import Job
from penstock.plan.planning import plan_job
from penstock.schemas import Schemas, SchemaVersion
from penstock.spi import HIDDEN, KIND
from penstock.sql import parse_script
from penstock.types import RowKind
from tests.json_schemas import find_schema_errors

SINK = """
sink:
  type: kafka
  properties.bootstrap.servers: localhost:9092
"""
#: The timestamp of all messages.
TIME = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


@dataclass(frozen=True)
class Message:
    """A message of a topic."""

    value: Any
    topic: str = "orders"
    partition: int = 0
    key: Any = None

    @property
    def data(self) -> bytes | None:
        """The value as it is written."""
        return _write(self.value)


def _write(part: Any) -> bytes | None:
    return part if isinstance(part, bytes | None) else json.dumps(part).encode()


@dataclass
class Pipeline:
    """A pipeline, and what it has made so far. ``tasks`` share each batch, a partition each."""

    text: str
    tasks: int = 1
    schemas: Schemas = field(default_factory=Schemas)
    history: list[SchemaVersion] = field(default_factory=list)
    rows: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    batches: list[TableRows] = field(default_factory=list)
    passes: int = 0
    refused: int = 0
    #: Whether tables of the sink cannot be altered.
    refuses: bool = False
    _offsets: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.warnings: list[str] = []
        job = plan_job(self._parse())
        self.job = job
        self.work: TablesWork = job.sinks[0].input.tables_work

    @property
    def _is_script(self) -> bool:
        return self.text.lstrip().startswith("CREATE ")

    def _parse(self) -> Job:
        """The job of the pipeline, or of a script with CREATE TABLE .. AS TABLE."""
        if not self._is_script:
            return lower(parse_pipeline(self.text, file="p.yaml"), "p", warn=self.warnings.append)
        script = parse_script(self.text, file="p.sql", copies=copy_table)
        self.warnings += script.warnings
        (job,) = script.jobs
        return job

    def run(self, *messages: Message | Mapping[str, Any] | bytes) -> Pipeline:
        """Run one batch."""
        given = [each if isinstance(each, Message) else Message(each) for each in messages]
        parts = self.divide(given)
        while True:
            self.passes += 1
            batches, reports, counts = self.pass_over(parts)
            if not reports:
                counts = [each for each in counts if each]
                found_counts = self.work.count(counts, self.refused, self.passes, "partition {}, offset {}".format)
                self.refused = found_counts.refused
                self.batches = batches
                self.rows += [row for each in batches for row in show_rows(each.version, each.rows)]
                if not self._is_script:
                    assert find_schema_errors(self.text) == []  # what runs, editors accept
                return self
            evolutions = self.work.evolve(self.schemas, reports)
            assert evolutions
            self._follow(evolutions)

    def pass_over(self, parts: Sequence[Sequence[pa.RecordBatch]]) -> tuple[list[TableRows], list[bytes], list[bytes]]:
        """The rows that tasks make of their parts of a batch, and their reports of schemas and of rows."""
        batches: list[TableRows] = []
        reports, counts = [], []
        for part in parts:
            task = self.work.open(self.schemas, Session("UTC"))
            for batch in part:
                batches += task.process(batch)
            if report := task.report_schemas():
                reports.append(report)
            counts.append(task.report_rows())
        return batches, reports, counts

    def restart(self) -> Pipeline:
        """What the driver does at the start of another run."""
        self._follow(self.work.evolve(self.schemas, ()))
        return self

    def _follow(self, evolutions: Sequence[Evolution]) -> None:
        versions = []
        for each in evolutions:
            version = each.version
            if version.output >= 0:
                self.work.output(version)
                if self.refuses and each.fallback:
                    version = replace(each.fallback, outcome="no right to alter it")
            versions.append(version)
        self.schemas = self.schemas.add_versions(versions)
        self.history += versions

    def look_ahead(self, *messages: Mapping[str, Any]) -> Pipeline:
        """What the driver does before the first batch, with the newest messages."""
        ((batch,),) = self.divide([Message(each) for each in messages])
        self._offsets.clear()
        self._follow(self.work.evolve(self.schemas, self.work.survey([batch], Session("UTC"))))
        return self

    def read(self, *messages: Message | Mapping[str, Any] | bytes) -> list[pa.RecordBatch]:
        """The batches of the scan that has read these messages."""
        given = [each if isinstance(each, Message) else Message(each) for each in messages]
        return [batch for part in self.divide(given) for batch in part]

    def divide(self, messages: Sequence[Message]) -> list[list[pa.RecordBatch]]:
        """The batches of each task: a partition's messages are in one."""
        found: dict[tuple[str, int], list[tuple[Message, int]]] = {}
        for each in messages:
            at = each.topic, each.partition
            offset = self._offsets.get(at, 0)
            self._offsets[at] = offset + 1
            found.setdefault(at, []).append((each, offset))
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(self.tasks)]
        for number, key in enumerate(sorted(found)):
            topic, partition = key
            members = found[key]
            size = len(members)
            values = pa.array([each.data for each, _ in members], pa.binary())
            offsets = pa.array([offset for _, offset in members], pa.int64())
            columns = {
                "value": values,
                "topic": pa.array([topic] * size, pa.string()),
                "partition": pa.array([partition] * size, pa.int32()),
                "offset": offsets,
                "timestamp": pa.array([TIME] * size, pa.timestamp("us", "UTC")),
                "timestamp-type": pa.array(["CreateTime"] * size, pa.string()),
                "headers": pa.array([[("origin", b"shop")]] * size, pa.map_(pa.string(), pa.binary())),
                "leader-epoch": pa.array([0] * size, pa.int32()),
                "__raw_key__": pa.array([_write(each.key) for each, _ in members], pa.binary()),
                "__raw_value__": values,
                HIDDEN.names[0]: pa.array([partition] * size, pa.int32()),
                HIDDEN.names[1]: offsets,
            }
            columns |= {each.name: columns[each.key] for each in self.job.sinks[0].input.input.spec.metadata}
            batch = pa.RecordBatch.from_pydict(columns)
            parts[number % self.tasks].append(batch)
        return parts

    def columns(self, table: str) -> str:
        """The columns of a table of the sink."""
        return ", ".join(map(str, self.schemas.sinks[table].schema.row.fields)).replace("`", "")

    def changes(self, side: str = "sink") -> list[str]:
        """What has changed, in order."""
        return [
            f"{each.table}: {change}" for each in self.history if each.side.value == side for change in each.changes
        ]

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows that went to a table of the sink."""
        return [row for table, _, row in self.rows if table == name]


def show_rows(version: SchemaVersion, rows: pa.RecordBatch) -> list[tuple[str, str, dict[str, Any]]]:
    names = version.schema.row.names
    kinds = rows.column(KIND).to_pylist() if KIND in rows.schema.names else [0] * rows.num_rows
    found = rows.select(list(names)).to_pylist()
    return [(version.table, RowKind(kind or 0).short, row) for kind, row in zip(kinds, found, strict=True)]
