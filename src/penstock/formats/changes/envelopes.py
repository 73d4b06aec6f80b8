"""Change data messages as columns: the fields around the row images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import binary_parts, validity
from penstock.formats.json.decode import Given, JsonDecoder
from penstock.spi import BadRecord

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Envelopes:
    """Messages that are JSON objects, one row each, and the other messages in ``bad``.

    ``columns`` are the requested fields by name. ``message[i]`` is the index of the message of row ``i``. ``given``
    says, if requested, which fields of one column the messages have.
    """

    columns: dict[str, pa.Array]
    message: npt.NDArray[np.int64]
    bad: tuple[BadRecord, ...]
    given: Given | None = None

    def __len__(self) -> int:
        return len(self.message)


def read_envelopes(decoder: JsonDecoder, messages: pa.BinaryArray, column: str = "") -> Envelopes:
    """Read ``messages``, and find which fields their objects in ``column`` have, if a column is named.

    An array with a single object counts as that object, as in Flink; other arrays are refused.
    """
    decoded, given = decoder.decode_with_fields(messages, column) if column else (decoder.decode(messages), None)
    rows, origin = decoded.rows, decoded.origin
    if origin is None:
        origin = np.arange(rows.num_rows)
        if not decoded.bad:
            return Envelopes(_by_name(rows), origin, (), given)
    counts = np.bincount(origin, minlength=len(messages))
    refused = [each.index for each in decoded.bad]
    counts[refused] = 0  # With errors ignored, an array gives rows although some of its elements are not objects
    _, offsets = binary_parts(messages)
    filled = (validity(messages) != 0) & (np.diff(offsets) > 0)
    filled[refused] = False
    arrays = [
        BadRecord(index, f"expected a JSON object, not an array of {counts[index]}")
        for index in np.flatnonzero(filled & (counts != 1)).tolist()
    ]
    single = counts[origin] == 1
    if not single.all():
        rows = rows.filter(pa.array(single))
    return Envelopes(_by_name(rows), origin[single], (*decoded.bad, *arrays), given)


def _by_name(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


class Faults:
    """The first fault of each of ``count`` envelopes or changes."""

    def __init__(self, count: int):
        self._codes = np.zeros(count, np.int16)
        self._explanations: list[Callable[[int], tuple[str, str]]] = []

    def add(self, where: Mask, explain: Callable[[int], tuple[str, str]]) -> None:
        """Add a fault for each of ``where`` that has none; ``tell`` returns the field and the reason for an index."""
        if where.any():
            self._explanations.append(explain)
            self._codes[where & (self._codes == 0)] = len(self._explanations)

    @property
    def is_faulty(self) -> Mask:
        """Which have a fault."""
        found: Mask = self._codes != 0
        return found

    def explain(self, index: int) -> tuple[str, str]:
        """The field and the reason of the fault at ``index``."""
        return self._explanations[int(self._codes[index]) - 1](index)


def is_null(column: pa.Array) -> Mask:
    """Which values are null."""
    null: Mask = validity(column) == 0
    return null


def positions(values: pa.Array, known: list[str]) -> npt.NDArray[np.int64]:
    """The index of each text in ``known``, -1 for others and null."""
    found = pc.index_in(values, value_set=pa.array(known, values.type)).fill_null(-1)
    places: npt.NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def always(field: str, reason: str) -> Callable[[int], tuple[str, str]]:
    """An explanation with one field and reason for every index."""
    return lambda _: (field, reason)
