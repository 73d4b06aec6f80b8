"""Records that are left out: what tasks report of them, how many may be, and where they are kept."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import ExecutionError

_log = logging.getLogger("penstock.dirty-data")
#: The most records of a batch that are logged one by one, and the most bytes of each that are shown.
_LOGGED_RECORDS, _SHOWN_BYTES = 100, 1000
#: The most records that a task reports with their contents.
MOST_REPORTED = 10_000


@dataclass(frozen=True)
class RefusedRecord:
    """A record that was left out: the number of its partition in the source, its offset, the table if it is known, the
    reason, the field that causes it, if one does, and its value."""

    partition: int
    offset: int
    table: str
    reason: str
    field: str
    value: bytes | None

    def to_json(self) -> list[Any]:
        """The record in a report."""
        value = None if self.value is None else base64.b64encode(self.value).decode()
        return [self.partition, self.offset, self.table, self.reason, self.field, value]

    @classmethod
    def from_json(cls, found: Sequence[Any]) -> RefusedRecord:
        """The record of :meth:`to_json`."""
        partition, offset, table, reason, name, value = found
        return cls(partition, offset, table, reason, name, None if value is None else base64.b64decode(value))


@dataclass(frozen=True)
class TaskCounts:
    """What a task has read of each table, and the records that it has left out, which are counted by table in
    ``refused``; the name is empty where it is not known."""

    rows: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    records: Sequence[RefusedRecord] = ()

    def to_bytes(self) -> bytes:
        """The report; empty if there is nothing in it."""
        if not self.rows and not self.refused:
            return b""
        return json.dumps([self.rows, self.refused, [each.to_json() for each in self.records]]).encode()

    @classmethod
    def merge_reports(cls, reports: Sequence[bytes]) -> TaskCounts:
        """The sum of the reports of tasks, with the records in the order of their places."""
        rows: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        records: list[RefusedRecord] = []
        for report in reports:
            own, counts, found = json.loads(report)
            rows.update(own)
            refused.update(counts)
            records += map(RefusedRecord.from_json, found)
        records.sort(key=lambda each: (each.partition, each.offset))
        return cls(rows, refused, records)


@dataclass(frozen=True)
class ErrorPolicy:
    """Whether records that cannot be read are left out (``ignores``), and how many in all before the job ends: ``most``
    of them, -1 for any number. They are logged, and with a ``folder`` kept there: a file of JSON lines for each batch
    that has any."""

    ignores: bool = False
    most: int = -1
    folder: str = ""

    def collect(self, counts: TaskCounts, before: int, batch: int, find_place: Callable[[int, int], str]) -> int:
        """Keep what was left out of a batch, after ``before`` records in all. The number of all such records then.
        ``find_place`` gives the place of a record by the number of its partition and its offset. Raises ExecutionError
        if it is too many, or if they cannot be kept."""
        new = sum(counts.refused.values())
        total = before + new
        if not new:
            return total
        places = [find_place(each.partition, each.offset) for each in counts.records]
        if self.folder:
            self._write(batch, zip(places, counts.records, strict=True))
        for place, each in zip(places[:_LOGGED_RECORDS], counts.records, strict=False):
            _log.warning("%s", _describe(place, each))
        left = new - min(len(places), _LOGGED_RECORDS)
        if left:
            _log.warning("batch %d: %d more records were left out", batch, left)
        if 0 <= self.most < total:
            first = _describe(places[0], counts.records[0])
            raise TooManyErrors(
                f"{total} records could not be read, and 'ingestion.error-tolerance.max-count' is {self.most}. The "
                f"first one of batch {batch}: {first}. Mend the producer, or raise the limit"
            )
        return total

    def _write(self, batch: int, records: Iterator[tuple[str, RefusedRecord]]) -> None:
        """Write the file of a batch, in place of that of an attempt that failed."""
        name = Path(self.folder, f"batch-{batch:09d}.jsonl")
        lines = (
            json.dumps(
                {
                    "table": each.table,
                    "place": place,
                    "reason": each.reason,
                    "field": each.field,
                    **_show_value(each.value),
                },
                ensure_ascii=False,
            )
            for place, each in records
        )
        try:
            name.parent.mkdir(parents=True, exist_ok=True)
            part = name.with_suffix(".part")
            with part.open("w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
            part.replace(name)
        except OSError as error:
            raise ExecutionError(
                f"records that were left out cannot be written to '{self.folder}': {error}; check the folder that "
                "'dirty-data.collector' names"
            ) from error


class TooManyErrors(ExecutionError):
    """More records could not be read than the pipeline allows. A restart would fail at the same batch again."""

    restartable = False


def _show_value(value: bytes | None) -> dict[str, str | None]:
    """The value as a text, or as base64 if it is not one."""
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value-base64": base64.b64encode(value).decode()}


def _describe(place: str, record: RefusedRecord) -> str:
    """A line about a record."""
    table = f"table '{record.table}': " if record.table else ""
    field_ = f"field '{record.field}': " if record.field else ""
    value = "null" if record.value is None else record.value[:_SHOWN_BYTES].decode(errors="replace")
    return f"record left out: {table}{place}: {field_}{record.reason}: {value}"
