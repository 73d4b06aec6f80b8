"""The acknowledgements of brokers that the tasks of a publishing job report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import AbortableError
from penstock.kafka.produce import SendCounts
from penstock.spi import Batch, Written


@dataclass(frozen=True)
class Acknowledged:
    """The acknowledgements of a publishing job: the number of records, and their ``topics``. By the number of the
    output, ``encoded`` counts what its tasks have encoded, and ``sends`` the requests of the tasks that wrote to it.
    ``doubt`` says why it is not certain that each task ran once, and is empty when it is. ``one_writer``: no two tasks
    wrote to one partition. ``whole``: in each partition the sequences run from 0 to the last record's."""

    records: int = 0
    topics: frozenset[str] = frozenset()
    encoded: Mapping[int, Written] = field(default_factory=dict)
    sends: Mapping[int, SendCounts] = field(default_factory=dict)
    doubt: str = ""
    one_writer: bool = True
    whole: bool = True

    @classmethod
    def from_task_reports(
        cls, rows: Iterable[Mapping[str, Any]], doubt: str = "", *, once: bool = False
    ) -> Acknowledged:
        """The sum of the tasks' rows (:data:`penstock.connectors.kafka.sink.writer.WRITTEN`). ``once``: a task may not
        have run before, with another result (rule "tasks run once")."""
        rows = list(rows)
        if once and not doubt and any(row["attempt"] for row in rows):
            doubt = "Spark ran a task of the batch twice within one transaction; look in its log for a lost executor"
        acks, encoded, sends = [], dict[int, Written](), dict[int, SendCounts]()
        for row in rows:
            if row["topic"]:
                acks.append(row)
                continue
            before = encoded.get(row["partition"], Written())
            times = [each for each in (before.send_millis, row["send_millis"]) if each is not None]
            millis = max(times, default=None)
            encoded[row["partition"]] = Written(before.records + row["count"], before.bytes + row["bytes"], millis)
            if row["sends"] is not None:
                counts = SendCounts(**json.loads(row["sends"]))
                sends[row["partition"]] = sends.get(row["partition"], SendCounts()).combine(counts)
        return cls(
            records=sum(row["count"] for row in acks),
            topics=frozenset(row["topic"] for row in acks),
            encoded=encoded,
            sends=sends,
            doubt=doubt,
            one_writer=len(acks) == len({(row["topic"], row["partition"]) for row in acks}),
            whole=all((row["first_sequence"], row["last_sequence"]) == (0, row["count"] - 1) for row in acks),
        )


def check_counts(done: Acknowledged, batch: Batch) -> None:
    """Raises AbortableError unless every encoded record was acknowledged."""
    encoded = sum(each.records for each in done.encoded.values())
    if done.records != encoded:
        raise AbortableError(
            f"batch {batch.id}: {encoded} records were encoded but {done.records} acknowledged; "
            "look for failed tasks in Spark's log"
        )
