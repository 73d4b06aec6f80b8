"""The records of the gate, and the tables that its jobs leave in topics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import json as pj

from bench.records import replay
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import Records, encode
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import create_topic

PARTITIONS = 4
_AT_A_TIME = 100_000
_TOPICS_AT_A_TIME = 100

#: Makes the documents of the records with these numbers.
Documents = Callable[[npt.NDArray[np.int64]], pa.BinaryArray]


@dataclass(frozen=True)
class Found:
    """What a table in a topic holds: rows by key, and the sum of their column ``n`` (or their number)."""

    rows: int
    total: int


@dataclass(frozen=True)
class Topics:
    """The topics of a broker."""

    session: Session
    bootstrap: str

    @classmethod
    def of(cls, bootstrap: str) -> Topics:
        """Those of the cluster at ``bootstrap``."""
        return cls(session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap})), bootstrap)

    def create(self) -> str:
        """A topic without records."""
        name = f"gate-{uuid.uuid4().hex[:10]}"
        create_topic(self.session, name, partitions=PARTITIONS)
        return name

    def create_many(self, count: int, partitions: int) -> list[str]:
        """So many topics without records."""
        names = [f"gate-{uuid.uuid4().hex[:10]}" for _ in range(count)]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for first in range(0, count, _TOPICS_AT_A_TIME):
            wanted = [NewTopic(name, partitions) for name in names[first : first + _TOPICS_AT_A_TIME]]
            for future in admin.create_topics(wanted).values():
                future.result()
        return names

    def drop(self, name: str) -> None:
        """Delete a topic, so that what was written does not fill the disk."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_topics([name]).values():
            future.result()

    def make_plain(self, records: int) -> str:
        """A topic with the records that ``python -m bench`` measures: a million users, 1,000 categories."""
        name = self.create()
        replay(self.session, name, records, PARTITIONS)
        return name

    def fill(self, name: str, records: int, documents: Documents, first: int = 0) -> None:
        """Write records, by their numbers over all partitions in turn."""
        with Producer(self.session) as producer:
            for begin in range(first, first + records, _AT_A_TIME):
                numbers = np.arange(begin, min(begin + _AT_A_TIME, first + records))
                batches = encode(
                    keys=None,
                    values=documents(numbers),
                    timestamps=np.full(len(numbers), time.time_ns() // 1_000_000, np.int64),
                    partitions=(numbers % PARTITIONS).astype(np.int32),
                )
                for batch in batches:
                    producer.submit(name, batch.partition, batch.data, batch.count)
            producer.flush()

    def ends(self, name: str) -> dict[tuple[str, int], int]:
        """Up to where committed readers see each partition."""
        places = [(name, partition) for partition in range(PARTITIONS)]
        found = list_offsets(self.session, places, LATEST, isolation="read_committed")
        return {place: end.offset if end else 0 for place, end in found.items()}

    def length(self, name: str) -> int:
        """Offsets that committed readers see, those of the ends of transactions among them."""
        return sum(self.ends(name).values())

    def rows(self, name: str, since: dict[tuple[str, int], int] | None = None) -> pa.Table:
        """The last value of each key, of records from ``since`` on, parsed."""
        keys, values = [], []
        for records in self._records(name, since):
            keys.append(records.keys)
            values.append(records.values)
        table = pa.table({"key": pa.chunked_array(keys, pa.binary()), "value": pa.chunked_array(values, pa.binary())})
        if not table.num_rows:
            return pa.table({})
        places = table.append_column("at", pa.array(np.arange(table.num_rows)))
        last = places.group_by("key").aggregate([("at", "max")]).column("at_max")
        live = pc.drop_null(table.column("value").take(last))
        lines = b"\n".join(live.to_pylist())
        return pj.read_json(pa.BufferReader(lines), pj.ReadOptions(block_size=64 << 20)) if lines else pa.table({})

    def read_table(self, name: str) -> Found:
        """What the table in a topic holds."""
        rows = self.rows(name)
        total = pc.sum(rows.column("n")).as_py() if "n" in rows.column_names else rows.num_rows
        return Found(rows.num_rows, int(total or 0))

    def count(self, name: str) -> int:
        """How many records a topic has for committed readers."""
        return sum(len(records) for records in self._records(name, None))

    def _records(self, name: str, since: dict[tuple[str, int], int] | None) -> Iterator[Records]:
        """Committed records: of one partition after the other, in order."""
        places = [(name, partition) for partition in range(PARTITIONS)]
        begins = list_offsets(self.session, places, EARLIEST)
        for place, end in self.ends(name).items():
            first = begins[place]
            start = since[place] if since else (first.offset if first else 0)
            for chunk in Fetcher(self.session, [Range(*place, start, end)], isolation="read_committed"):
                yield from chunk.slices()


def changes(records: int, users: int) -> Documents:
    """Envelopes of Debezium: the first half adds rows, the second half moves each to another user."""
    half = records // 2
    random = np.random.default_rng(2)
    owners, amounts = random.integers(0, users, records), random.integers(0, 100_000, records) / 4

    def image(numbers: npt.NDArray[np.int64]) -> pa.StringArray:
        return document(id=numbers % half, user_id=owners[numbers], amount=amounts[numbers])

    def documents(numbers: npt.NDArray[np.int64]) -> pa.BinaryArray:
        update = numbers >= half
        before = pc.if_else(pa.array(update), image(np.where(update, numbers - half, 0)), "null")
        kind = pc.if_else(pa.array(update), "u", "c")
        parts = ['{"before":', before, ',"after":', image(numbers), ',"op":"', kind, '"}']
        return pc.binary_join_element_wise(*parts, "").cast(pa.binary())

    return documents


def facts(records: int, users: int) -> Documents:
    """Rows with unique numbers, each of some user."""
    random = np.random.default_rng(3)
    owners, amounts = random.integers(0, users, records), random.integers(0, 100_000, records) / 4
    return lambda at: document(id=at, user_id=owners[at], amount=amounts[at]).cast(pa.binary())


def names(users: int) -> Documents:
    """Each user once, in no order."""
    order = np.random.default_rng(4).permutation(users)

    def documents(numbers: npt.NDArray[np.int64]) -> pa.BinaryArray:
        user = pa.array(order[numbers]).cast(pa.string())
        return pc.binary_join_element_wise('{"user_id":', user, ',"name":"user ', user, '"}', "").cast(pa.binary())

    return documents


def single_amounts(keys: int) -> Documents:
    """One row of each key, in no order, and then again from the first on."""
    order = np.random.default_rng(5).permutation(keys)
    return lambda at: document(user_id=order[at % keys], amount=(at % 1000) / 4).cast(pa.binary())


def document(**columns: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> pa.StringArray:
    """Rows as JSON, one column for each argument."""
    parts: list[str | pa.StringArray] = []
    for name, column in columns.items():
        parts += [f'{"," if parts else "{"}"{name}":', pa.array(column).cast(pa.string())]
    return pc.binary_join_element_wise(*parts, "}", "")
