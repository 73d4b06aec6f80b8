"""The programs that the compiled loops run: a table of steps, one row per step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

#: The columns of a step. ``NODE`` is the node that it fills or writes, or SKIP. For a union of null and one type,
#: ``NULL_AT`` is the branch of null and ``VALUE_AT`` the other one; otherwise both are SKIP.
STEP, NODE, WIRE, CONVERT, A, B, NULL_AT, VALUE_AT, NEXT = 0, 1, 2, 3, 4, 5, 6, 7, 8
_COLUMNS = 9
SKIP = -1

#: VALUE is a single value. STRUCT starts a row and LIST an array or map, which may be null; NEXT of a LIST is its
#: BLOCK. BLOCK ends an item and continues with the next item or after the list. END ends the program.
VALUE, STRUCT, LIST, BLOCK, END = 0, 1, 2, 3, 4
#: Only for reading. UNION selects one of A branches with the table from B on. JUMP continues at NEXT. PAD adds a null
#: that is not in the message. DEFAULT reads the B bytes at A of the constants, until RESTORE. REFUSE refuses the
#: message with reason A.
UNION, JUMP, PAD, DEFAULT, RESTORE, REFUSE = 5, 6, 7, 8, 9, 10
#: Only for writing: the B bytes at A of the constants, once for each value of NODE.
CONSTANT = 11

#: The encoding of a value.
WIRE_BOOLEAN, WIRE_INT, WIRE_LONG, WIRE_FLOAT, WIRE_DOUBLE, WIRE_BYTES, WIRE_FIXED, WIRE_ENUM = 0, 1, 2, 3, 4, 5, 6, 7

#: The conversion between the encoded value and the column's. KEEP: none. SCALE_UP and SCALE_DOWN: multiply or divide by
#: A, rounding down. TO_TIME: a time of day, multiplied or divided by A. TO_FLOAT, TO_DOUBLE: round. TEXT and RAW: a
#: string or bytes. TO_DECIMAL: a decimal of A digits. SYMBOL: an enum's symbol from the table.
KEEP, SCALE_UP, SCALE_DOWN, TO_TIME, TO_FLOAT, TO_DOUBLE, TEXT, RAW, TO_DECIMAL, SYMBOL = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

#: Limits: the depth of arrays and maps, the branches of a written union, and the steps. A named type adds its steps
#: wherever it is used.
DEEPEST = 64
WIDEST_UNION = 64
MOST_STEPS = 20_000


@dataclass(frozen=True)
class AvroProgram:
    """Steps, the lookup table and the bytes that they use, and the field of each step for errors."""

    steps: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    constants: npt.NDArray[np.uint8]
    paths: tuple[str, ...]

    @property
    def written_sizes(self) -> npt.NDArray[np.int64]:
        """The number of bytes that each step writes but does not take from the columns: fixed sizes and constants."""
        fixed = (self.steps[:, STEP] == VALUE) & (self.steps[:, WIRE] == WIRE_FIXED)
        return np.where(fixed | (self.steps[:, STEP] == CONSTANT), self.steps[:, B], 0)


@dataclass
class AvroProgramBuilder:
    """Builds a program step by step."""

    steps: list[list[int]] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    paths: list[str] = field(default_factory=list)

    def add(
        self,
        step: int,
        path: str,
        node: int = SKIP,
        *,
        wire: int = 0,
        convert: int = 0,
        a: int = 0,
        b: int = 0,
        null_at: int = SKIP,
        value_at: int = SKIP,
        next: int = 0,
    ) -> int:
        """Add a step; returns its number."""
        self.steps.append([step, node, wire, convert, a, b, null_at, value_at, next])
        self.paths.append(path)
        return len(self.steps) - 1

    def point(self, step: int, to: int | None = None) -> None:
        """Set the next step of ``step``: ``to``, or the step that is added next."""
        self.steps[step][NEXT] = len(self.steps) if to is None else to

    def forget(self, count: int) -> None:
        """Remove all steps but the first ``count``."""
        del self.steps[count:], self.paths[count:]

    def keep(self, data: bytes) -> int:
        """Append bytes to the constants; returns their position."""
        at = len(self.constants)
        self.constants += data
        return at

    def look_up(self, values: Iterable[int]) -> int:
        """Append numbers to the lookup table; returns their position."""
        at = len(self.table)
        self.table += values
        return at

    def program(self) -> AvroProgram:
        """The finished program."""
        return AvroProgram(
            np.array(self.steps, np.int64).reshape(-1, _COLUMNS),
            np.array(self.table or [0], np.int64),
            np.frombuffer(bytes(self.constants), np.uint8),
            tuple(self.paths),
        )
