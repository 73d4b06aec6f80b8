"""The program of the loop that reads: tables with one row per message, field and initial value.

A message is in the tables once for every node that it is read into, and once for all fields in which it is only
checked. In the latter case it may contain itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.loops.program import Constants

#: The columns of ``messages``. Field numbers below DENSE are looked up from LOOKUP on; other fields are between FIRST
#: and LAST, sorted by number. INIT to INIT_END are the initial values of a new message. MASK has a bit for each
#: required field. ENTRY: the message is the entry of a map that is a column.
LOOKUP, DENSE, FIRST, LAST, INIT, INIT_END, MASK, ENTRY = range(8)
#: The columns of ``fields``. NODE is the node that is filled, or SKIP; CHILD is the node of a list's elements or a
#: map's keys; INNER is the message of a message field. A and B are for strings and enums, see below. RIVALS to
#: RIVALS_END are the values to which the other members of its oneof are set. BIT is its bit in its message's mask.
NUMBER, TYPE, REPEATED, NODE, CHILD, INNER, A, B, RIVALS, RIVALS_END, BIT = range(11)
#: The columns of ``inits``: a node, its validity, its words, and the form of the words.
INIT_NODE, INIT_VALID, INIT_LOW, INIT_HIGH, INIT_FORM = range(5)
#: No words; a number; text among the constants; the end of a list whose elements are in node INIT_LOW.
NOTHING, NUMERIC, TEXTUAL, LISTED = range(4)
SKIP = -1
#: For strings, ``A`` is the consequence of bytes that are not UTF-8: none, the message is refused, or it is left to the
#: exact reader.
ANYTHING, REFUSED_UNLESS_TEXT, LEFT_UNLESS_TEXT = range(3)
#: For enums, ``A`` is a position in the table, which has: the count of numbers, whether other numbers are unknown
#: fields, the sorted numbers; and for each number, and for all others, the position and size of its name among the
#: constants. ``B`` is AS_TEXT, or the largest number that the column holds.
AS_TEXT = -1

#: The most field numbers that are looked up; fields with larger numbers are searched for.
MOST_DENSE = 256
#: The message without fields, as which an unknown group is read.
UNKNOWN = 0


@dataclass(frozen=True)
class ProtobufReadProgram:
    """The tables, the bytes that they use, and for errors the path of each field and then of each message.

    ``maps`` has, for every map, its node, the node of its keys, and whether the keys are text. ``blank`` is the part of
    ``inits`` that makes a row of nulls. ``root`` is the number of the top-level message.
    """

    messages: npt.NDArray[np.int64]
    fields: npt.NDArray[np.int64]
    lookup: npt.NDArray[np.int64]
    inits: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    maps: npt.NDArray[np.int64]
    constants: npt.NDArray[np.uint8]
    paths: tuple[str, ...]
    root: int
    blank: tuple[int, int]

    @property
    def vectors(self) -> tuple[Any, ...]:
        """The tables, ``root`` and ``blank`` as the loop takes them."""
        return self.messages, self.fields, self.lookup, self.inits, self.table, self.maps, self.root, self.blank


@dataclass
class ProtobufReadProgramBuilder(Constants):
    """Builds a program table by table."""

    messages: list[list[int]] = field(default_factory=list)
    fields: list[list[int]] = field(default_factory=list)
    lookup: list[int] = field(default_factory=list)
    inits: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    field_paths: list[str] = field(default_factory=list)
    message_paths: list[str] = field(default_factory=list)

    def reserve(self, path: str) -> int:
        """Reserve the number of a message whose row is set later."""
        self.messages.append([])
        self.message_paths.append(path)
        return len(self.messages) - 1

    def set_message(
        self, message: int, fields: list[tuple[str, list[int]]], begin: tuple[int, int], mask: int, entry: bool
    ) -> None:
        """Set the row of a message. Its fields, each with its path, are in the order of their numbers."""
        dense = min(MOST_DENSE, fields[-1][1][NUMBER] + 1) if fields else 0
        at, first = len(self.lookup), len(self.fields)
        self.lookup += [-1] * dense
        sparse = first
        for path, row in fields:
            if row[NUMBER] < dense:
                self.lookup[at + row[NUMBER]] = len(self.fields)
                sparse += 1
            self.fields.append(row)
            self.field_paths.append(path)
        self.messages[message] = [at, dense, sparse, len(self.fields), *begin, mask, int(entry)]

    def begin_with(self, values: Iterable[tuple[int, int, int, int, int]]) -> tuple[int, int]:
        """Append values to ``inits``; returns their first and last position."""
        first = len(self.inits)
        self.inits += values
        return first, len(self.inits)

    def program(self, root: int, blank: tuple[int, int], maps: list[tuple[int, int, int]]) -> ProtobufReadProgram:
        """The finished program."""
        return ProtobufReadProgram(
            np.array(self.messages, np.int64).reshape(-1, ENTRY + 1),
            np.array(self.fields, np.int64).reshape(-1, BIT + 1),
            np.array(self.lookup or [0], np.int64),
            np.array(self.inits, np.int64).reshape(-1, INIT_FORM + 1),
            np.array(self.table or [0], np.int64),
            np.array(maps, np.int64).reshape(-1, 3),
            np.frombuffer(bytes(self.constants), np.uint8),
            (*self.field_paths, *self.message_paths),
            root,
            blank,
        )
