"""A partition as a broker keeps it: record batches, what is known of their producers, and control markers.

The rules are those of Kafka's ``ProducerStateManager``, ``ProducerAppendInfo`` and ``UnifiedLog``.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.kafka.record_batches import encode, scan

__all__ = ["Batch", "PartitionLog", "Refusal", "record_batch"]

_HEAD = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_REMEMBERED = 5
_INVALID_EPOCH, _OUT_OF_ORDER = 47, 45


class Refusal(Exception):
    """An error code instead of an answer."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, eq=False)
class Batch:
    """A record batch in the log. ``marker``: whether it commits (True) or aborts (False); None where it is data.

    ``sender`` is the client that sent it, for the invariants alone.
    """

    base: int
    count: int
    data: bytes
    producer_id: int
    epoch: int
    transactional: bool
    marker: bool | None
    sender: str = ""

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.base + self.count

    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values."""
        found = scan(self.data, start_offset=self.base, end_offset=self.end, check_crcs=False)
        return list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True))


@dataclass
class _Producer:
    """What is known of a producer: the sequences of its last batches, and where its open transaction began."""

    epoch: int = -1
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    open_since: int | None = None

    def take(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch


class PartitionLog:
    """The log of one partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end = 0
        self.aborted: list[tuple[int, int, int]] = []  # producer id, first offset, offset of the marker
        self._producers: dict[int, _Producer] = {}

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min(
            (each.open_since for each in self._producers.values() if each.open_since is not None), default=self.end
        )

    @property
    def open(self) -> list[tuple[int, int]]:
        """Producer id and epoch of every open transaction."""
        return [(id_, each.epoch) for id_, each in self._producers.items() if each.open_since is not None]

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open in this partition."""
        known = self._producers.get(producer_id)
        return bool(known and known.epoch == epoch and known.open_since is not None)

    def append(self, data: bytes, *, strict: bool, sender: str = "") -> int:
        """Append one batch of a client; its offset, or that of the batch that it repeats.

        ``strict``: since transaction.version 2 a producer that is not known begins with sequence 0. Raises Refusal.
        """
        (_, _, _, _, _, attributes, last_delta, _, _, producer_id, epoch, first, count) = _HEAD.unpack_from(data)
        transactional = bool(attributes & _TRANSACTIONAL)
        if producer_id >= 0:
            known = self._producers.setdefault(producer_id, _Producer())
            last = first + count - 1
            for sequences in known.batches:
                if epoch == known.epoch and sequences[:2] == (first, last):
                    return sequences[2]
            self._check(known, epoch, first, strict)
            known.take(epoch)
            known.batches.append((first, last, self.end))
            if transactional and known.open_since is None:
                known.open_since = self.end
        base = self.end
        self._add(Batch(base, last_delta + 1, _placed(data, base), producer_id, epoch, transactional, None, sender))
        return base

    @staticmethod
    def _check(known: _Producer, epoch: int, first: int, strict: bool) -> None:
        if epoch < known.epoch:
            raise Refusal(_INVALID_EPOCH)
        if epoch != known.epoch:
            if first and (strict or known.epoch >= 0):
                raise Refusal(_OUT_OF_ORDER)
            return
        last = known.batches[-1][1] if known.batches else -1
        if first != last + 1:
            raise Refusal(_OUT_OF_ORDER)

    def mark(self, producer_id: int, epoch: int, commit: bool, now_ms: int) -> bool:
        """Write the end of a producer's transaction; False when a later epoch is known."""
        known = self._producers.setdefault(producer_id, _Producer())
        if epoch < known.epoch:
            return False
        if known.open_since is not None and not commit:
            self.aborted.append((producer_id, known.open_since, self.end))
        known.take(epoch)
        known.open_since = None
        data = _placed(_marker(producer_id, epoch, commit, now_ms), self.end)
        self._add(Batch(self.end, 1, data, producer_id, epoch, True, commit))
        return True

    def _add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.end = batch.end

    def forget(self) -> None:
        """Producers without an open transaction are known no more."""
        self._producers = {id_: each for id_, each in self._producers.items() if each.open_since is not None}

    def read(self, offset: int, *, committed: bool, most: int) -> tuple[bytes, list[tuple[int, int]]]:
        """Bytes of the batches from ``offset`` on, and the aborted transactions among them."""
        bound = self.stable if committed else self.end
        found = [each.data for each in self.batches if offset < each.end and each.end <= bound]
        taken: list[bytes] = []
        size = 0
        for data in found:
            if taken and size + len(data) > most:
                break
            taken.append(data)
            size += len(data)
        return b"".join(taken), [each[:2] for each in self.aborted if each[2] >= offset] if committed else []

    def of_open_transaction(self, producer_id: int) -> list[Batch]:
        """The batches of a producer's open transaction."""
        known = self._producers.get(producer_id)
        if known is None or known.open_since is None:
            return []
        since = known.open_since
        return [each for each in self.batches if each.base >= since and each.producer_id == producer_id]

    def visible(self) -> Iterator[Batch]:
        """What a consumer under read_committed is given."""
        for each in self.batches:
            if each.end > self.stable:
                return
            dropped = any(
                id_ == each.producer_id and first <= each.base < marker for id_, first, marker in self.aborted
            )
            if each.marker is None and not (each.transactional and dropped):
                yield each


def _placed(data: bytes, base: int) -> bytes:
    return struct.pack(">q", base) + data[8:12] + struct.pack(">i", 0) + data[16:]


def record_batch(records: list[tuple[bytes | None, bytes | None]], timestamp_ms: int = 0) -> Any:
    """An encoded batch of these keys and values, for rows that no sink has written."""
    (batch,) = encode(
        keys=pa.array([key for key, _ in records], pa.binary()),
        values=pa.array([value for _, value in records], pa.binary()),
        timestamps=np.full(len(records), timestamp_ms, np.int64),
        partitions=np.zeros(len(records), np.int32),
    )
    return batch


@cache
def _marker_record(commit: bool) -> bytes:
    # attributes, timestamp and offset deltas; 4 bytes of key: version, type; 6 of value: version, coordinator epoch
    body = (
        bytes([0, 0, 0, 8]) + struct.pack(">hh", 0, int(commit)) + bytes([12]) + struct.pack(">hi", 0, 0) + bytes([0])
    )
    return bytes([2 * len(body)]) + body


def _marker(producer_id: int, epoch: int, commit: bool, now_ms: int) -> bytes:
    record = _marker_record(commit)
    tail = struct.pack(">hiqqqhii", _TRANSACTIONAL | _CONTROL, 0, now_ms, now_ms, producer_id, epoch, -1, 1) + record
    crc = google_crc32c.value(tail)
    length = 4 + 1 + 4 + len(tail)
    return struct.pack(">qiibI", 0, length, 0, 2, crc) + tail
