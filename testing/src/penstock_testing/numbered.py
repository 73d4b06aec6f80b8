"""Numbered records, which show afterwards whether each arrived once and in order.

A record has two headers, ``p`` (the partition it is written to) and ``n`` (counting from 0 in that partition). A job
under test must copy them: declare ``MAP<STRING, BYTES> METADATA FROM 'headers'`` in both of its tables.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.clock import now_ms
from penstock.errors import KafkaError
from penstock.kafka.columns import HEADERS_TYPE
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode
from penstock.kafka.session import Session, session_for

#: The number of different keys of a partition.
KEYS = 16
_AT_A_TIME = 50_000


class NumberedRecords:
    """Writes numbered records to a topic, at the end of each partition.

    Key: ``<p>-<n modulo 16>``. Value: ``{"k": "<key>", "n": <n>}`` as JSON.

    Attributes:
        written: how many records each partition has got, which is the next ``n`` of each.
    """

    def __init__(self, bootstrap: str, topic: str):
        """``bootstrap`` is ``host:port,...`` in plain text. Brokers that create missing topics create this one."""
        self.topic = topic
        self.session: Session = session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))
        self.written = {each.partition: 0 for each in self.session.topic(topic, create=True).partitions}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def total(self) -> int:
        """How many records have been written."""
        return sum(self.written.values())

    def write(self, records: int, *, partition: int | None = None) -> None:
        """Writes records evenly to all partitions, or to one. Returns when they are acknowledged."""
        partitions = sorted(self.written) if partition is None else [partition]
        with Producer(self.session) as producer:
            for index, each in enumerate(partitions):
                count = records // len(partitions) + (index < records % len(partitions))
                for first in range(0, count, _AT_A_TIME):
                    self._submit(producer, each, min(_AT_A_TIME, count - first))
            producer.flush()

    def write_on(self, records: int, *, every: float = 0.05) -> None:
        """Writes ``records`` again and again, ``every`` seconds, in a thread, until :meth:`stop`."""

        def run() -> None:
            try:
                while not self._stopping.is_set():
                    self.write(records)
                    self._stopping.wait(every)
            except BaseException as error:  # noqa: BLE001 - stop() raises it
                self._failure = error

        self._stopping.clear()
        self._thread = threading.Thread(target=run, name="numbered-records", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends :meth:`write_on`. Raises KafkaError if it has failed."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise KafkaError(f"writing to topic '{self.topic}' failed: {self._failure}") from self._failure

    def add_partitions(self, partitions: Mapping[int, int]) -> None:
        """Notes partitions that were added to the topic, with the number of their first record."""
        self.written.update(partitions)

    def _submit(self, producer: Producer, partition: int, count: int) -> None:
        first = self.written[partition]
        numbers = np.arange(first, first + count)
        keys = pc.binary_join_element_wise(f"{partition}-", pa.array(numbers % KEYS).cast(pa.string()), "")
        values = pc.binary_join_element_wise('{"k":"', keys, '","n":', pa.array(numbers).cast(pa.string()), "}", "")
        for batch in encode(
            keys=keys,
            values=values,
            timestamps=np.full(count, now_ms(), np.int64),
            partitions=np.full(count, partition, np.int32),
            headers=_headers(partition, numbers),
        ):
            producer.submit(self.topic, batch.partition, batch.data, batch.count)
        self.written[partition] = first + count


def _headers(partition: int, numbers: NDArray[Any]) -> pa.ListArray:
    """Two headers for each row, ``p`` and ``n``."""
    both = np.stack([np.full_like(numbers, partition), numbers], axis=1).ravel()
    names, values = pa.array(np.tile(["p", "n"], len(numbers))), pa.array(both).cast(pa.string()).cast(pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    offsets = pa.array(np.arange(0, len(both) + 1, 2), pa.int32())
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS_TYPE)


def numbers_of(headers: pa.ListArray, where: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """``p`` and ``n`` of each record. Raises KafkaError when a record does not have exactly one of each."""
    flat = headers.flatten()
    keys, values = flat.field("key"), flat.field("value")
    found = []
    for name in ("p", "n"):
        chosen = values.filter(pc.equal(keys, name))
        if len(chosen) != len(headers):
            raise KafkaError(
                f"{where}: {len(headers)} records have {len(chosen)} headers '{name}'; the job under test has to copy "
                "the headers of the records that it reads to those that it writes"
            )
        found.append(chosen.cast(pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False))
    return found[0], found[1]
