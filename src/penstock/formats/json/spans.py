"""Parts of JSON messages as spans of their text, for what looks at them without decoding them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes, binary_parts, validity
from penstock.formats.json.span_kernel import find_elements, find_members
from penstock.loops import chars
from penstock.loops.record_status import EXACT, READ


@dataclass(frozen=True)
class TextSpans:
    """Values in a ``text``: value ``i`` of message ``message[i]`` is ``text[starts[i]:ends[i]]``. ``unread`` are the
    messages in which one could not be found, because they are not JSON, or nested too deeply."""

    text: Bytes
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    message: npt.NDArray[np.int64]
    unread: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def from_messages(cls, messages: pa.BinaryArray) -> Self:
        """The whole of each message, but NULL and empty ones."""
        text, offsets = binary_parts(messages)
        (given,) = np.nonzero((validity(messages) != 0) & (np.diff(offsets) > 0))
        return cls(text, offsets[given], offsets[given + 1], given)

    @property
    def status(self) -> npt.NDArray[np.uint8]:
        """READ for every value, as loops take it."""
        return np.full(len(self), READ, np.uint8)

    def members(self, *path: str) -> TextSpans:
        """The values at a path of member names, where they are not null."""
        spans = self
        for name in path:
            status, found = spans.status, np.empty((len(spans), 2), np.int64)
            key = np.frombuffer(name.encode(), np.uint8)
            find_members(spans.text, spans.starts, spans.ends, key, status, found)
            rows = np.flatnonzero(found[:, 0] >= 0)
            spans = spans._narrow(status, rows, found[rows])
        return spans

    def objects(self) -> TextSpans:
        """Those that are objects."""
        chosen = np.flatnonzero(self.text[self.starts] == chars.BRACE_OPEN)
        return TextSpans(self.text, self.starts[chosen], self.ends[chosen], self.message[chosen], self.unread)

    def elements(self) -> TextSpans:
        """The elements of arrays, where they are not null, one after the other."""
        status = self.status
        count = find_elements(self.text, self.starts, self.ends, status.copy(), np.empty((0, 3), np.int64))
        found = np.empty((count, 3), np.int64)
        find_elements(self.text, self.starts, self.ends, status, found)
        return self._narrow(status, found[:, 0], found[:, 1:])

    def _narrow(
        self, status: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], found: npt.NDArray[np.int64]
    ) -> TextSpans:
        """The spans ``found``, one in each of the values ``rows``."""
        unread = self.unread.union(self.message[status == EXACT].tolist())
        starts, ends = np.ascontiguousarray(found.T)
        return TextSpans(self.text, starts, ends, self.message[rows], unread)
