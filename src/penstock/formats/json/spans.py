"""Parts of JSON messages as spans of their text, for what looks at them without decoding them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes, binary_parts, gather_spans, validity
from penstock.formats.json.span_kernel import find_elements, find_fields, find_members
from penstock.formats.json.syntax import copy_unescaped
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

    def fields(self, names: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Where the values of members start and end in the text, for each value and name: (-1, -1) where there is none,
        or null; and the status of each value: EXACT if it is no object, or one that the compiled loop cannot read."""
        keys = [f'{name}"'.encode() for name in names]
        key_starts = np.cumsum([0, *map(len, keys)])
        status, found = self.status, np.empty((len(self), len(keys), 2), np.int64)
        given = np.frombuffer(b"".join(keys), np.uint8), key_starts
        find_fields(self.text, self.starts, self.ends, given, status, found)
        return found, status

    def objects(self) -> TextSpans:
        """Those that are objects."""
        return self._choose(self.text[self.starts] == chars.BRACE_OPEN)

    def split_arrays(self) -> tuple[TextSpans, TextSpans]:
        """Those that are arrays, and the others."""
        arrays = self.text[self.starts] == chars.BRACKET_OPEN
        return self._choose(arrays), self._choose(~arrays)

    def _choose(self, which: npt.NDArray[np.bool_]) -> TextSpans:
        return TextSpans(self.text, self.starts[which], self.ends[which], self.message[which], self.unread)

    def join(self, other: TextSpans) -> TextSpans:
        """These values and others of the same messages, in the order of the messages."""
        message = np.concatenate([self.message, other.message])
        order = np.argsort(message, kind="stable")
        starts, ends = (np.concatenate(pair)[order] for pair in ((self.starts, other.starts), (self.ends, other.ends)))
        return TextSpans(self.text, starts, ends, message[order], self.unread | other.unread)

    def texts(self) -> pa.BinaryArray:
        """The values as they are written. Raises RecordError if they exceed the size of a column."""
        spans = np.column_stack([self.starts, self.ends - self.starts])
        return gather_spans(pa.binary(), self.text, spans, np.ones(len(self), np.uint8), copy_unescaped)

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
