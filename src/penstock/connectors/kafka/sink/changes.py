"""The changes of an upsert table: which of them become messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.types import RowKind


@dataclass(frozen=True)
class KeyedChanges:
    """Changes of rows, in order, with the columns that the engine keeps beside them, their keys as messages have them,
    and their kinds (RowKind as int8)."""

    rows: pa.RecordBatch
    hidden: pa.RecordBatch
    keys: pa.BinaryArray
    kinds: NDArray[np.int8]

    @classmethod
    def from_rows(
        cls, rows: pa.RecordBatch, hidden: pa.RecordBatch, keys: pa.BinaryArray | None, kinds: NDArray[np.int8] | None
    ) -> Self:
        """Changes of these ``kinds`` (None: insertions)."""
        count = rows.num_rows
        return cls(
            rows,
            hidden,
            pa.nulls(count, pa.binary()) if keys is None else keys,
            np.zeros(count, np.int8) if kinds is None else kinds,
        )

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def select(self, mask: NDArray[np.bool_]) -> Self:
        """The changes that ``mask`` selects."""
        if mask.all():
            return self
        rows = pa.array(mask)
        return type(self)(self.rows.filter(rows), self.hidden.filter(rows), self.keys.filter(rows), self.kinds[mask])

    @classmethod
    def concat(cls, parts: Sequence[KeyedChanges]) -> KeyedChanges:
        """The changes of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            pa.concat_batches([each.rows for each in parts]),
            pa.concat_batches([each.hidden for each in parts]),
            pa.concat_arrays([each.keys for each in parts]),
            np.concatenate([each.kinds for each in parts]),
        )

    def effective(self) -> Self:
        """The changes without the rows before an update that another change of their key follows. One that no other
        follows means that the row is gone: its update has another key, or was filtered out."""
        before = self.kinds == RowKind.UPDATE_BEFORE
        return self.select(~before | _last_of_keys(self.keys)) if before.any() else self

    def last(self) -> Self:
        """The last change of each key."""
        return self.select(_last_of_keys(self.keys))

    @property
    def deletes(self) -> NDArray[np.bool_]:
        """Which of them delete the row of their key."""
        mask: NDArray[np.bool_] = np.isin(self.kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE))
        return mask


def _last_of_keys(keys: pa.BinaryArray) -> NDArray[np.bool_]:
    """Which items are the last ones with their value."""
    encoded = pc.dictionary_encode(keys, null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    last = np.zeros(len(encoded.dictionary), np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    mask = np.zeros(len(codes), bool)
    mask[last] = True
    return mask


class ChangeBuffer:
    """Holds back the last change of up to ``most`` keys, by topic."""

    def __init__(self, most: int):
        self._most = most
        self._held: dict[str, _Held] = {}

    def add(self, topic: str, changes: KeyedChanges) -> KeyedChanges | None:
        """Hold changes of a topic back. When there are enough, returns and releases all held changes of the topic."""
        held = self._held.setdefault(topic, _Held())
        held.parts.append(changes)
        held.rows += len(changes)
        # Not after every few changes, since each time all held changes are scanned.
        if held.rows < self._most + held.keys // 2:
            return None
        last = KeyedChanges.concat(held.parts).last()
        if len(last) >= self._most:
            del self._held[topic]
            return last
        self._held[topic] = _Held([last], len(last), len(last))
        return None

    def take(self) -> dict[str, KeyedChanges]:
        """Returns and releases the last change of each held key, by topic."""
        held, self._held = self._held, {}
        return {topic: KeyedChanges.concat(each.parts).last() for topic, each in held.items()}


@dataclass
class _Held:
    """Changes of a topic, the number of their rows, and the number of keys when they were last counted."""

    parts: list[KeyedChanges] = field(default_factory=list)
    rows: int = 0
    keys: int = 0
