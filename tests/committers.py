"""Targets without Spark: what the engine would give them, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.connectors.kafka.sink.writer import WRITTEN
from penstock.settings import Settings
from penstock.spi import HIDDEN, KIND, JobContext, Output, TaskResults


@dataclass
class Memory:
    """A checkpoint of no duration."""

    location: str = "memory"
    documents: dict[str, Any] = field(default_factory=dict)

    def read(self, name: str) -> Any:
        """The document."""
        return self.documents.get(name)

    def write(self, name: str, document: Any) -> None:
        """Keep the document."""
        self.documents[name] = document

    def create(self, name: str, document: Any) -> Any:
        """Keep the document, unless there is one."""
        return self.documents.setdefault(name, dict(document))

    def revise(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Keep what ``change`` makes of the document."""
        self.documents[name] = change(self.documents.get(name, {}))
        return dict(self.documents[name])


@dataclass(frozen=True)
class Computed:
    """The tasks of a batch that is computed, with these results and the state after it."""

    state: str = ""
    rows: Sequence[Mapping[str, Any]] = ()
    computed: bool = True

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """The results."""
        return TaskResults(self.rows)


def rows_of_outputs(outputs: Sequence[Output], rows: pa.RecordBatch) -> Iterator[tuple[int, Any, Any]]:
    """Rows with the columns of all outputs, and hidden ones, as writers take them."""
    hidden = rows.select([name for name in (*HIDDEN.names, KIND) if name in rows.schema.names])
    for number, output in enumerate(outputs):
        yield number, rows.select(list(output.schema.names)), hidden


def acknowledged(topic: str, **more: Any) -> dict[str, Any]:
    """An acknowledgement of one record, as a task reports it."""
    row = dict.fromkeys(WRITTEN.names) | {"topic": topic, "partition": 0, "count": 1, "attempt": 0}
    return {**row, "first_sequence": 0, "last_sequence": 0, **more}


def context_of(progress_topic: str = "__penstock_progress") -> JobContext:
    """The context of a job that knows no Spark."""
    return JobContext(
        job="job",
        query_id="query",
        run_id="run",
        checkpoint=Memory(),
        settings=Settings(progress_topic=progress_topic),
        parallelism=1,
        spark=None,
        planned=False,
        stopping=lambda: False,
        warn=lambda _: None,
    )
