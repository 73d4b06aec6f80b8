"""The program of the loop that writes JSON: a table of steps in the order in which an object is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.columns.nested import Shape
from penstock.formats.json.quoting import quote_in_bytes
from penstock.loops import type_roots
from penstock.loops.type_roots import describe_root

#: The columns of a step: its operation, node and type root; the name of a field; precision and scale of a number or
#: time; the next step if it is null; the column of the table that it belongs to.
STEP, NODE, ROOT, NAME, NAME_STOP, PRECISION, SCALE, NEXT, COLUMN = 0, 1, 2, 3, 4, 5, 6, 7, 8
_COLUMNS = 9

#: VALUE is a single value. STRUCT and CLOSE start and end a row; LIST starts an array or map. KEY is a map's key. ITEM
#: ends an element or a map's value; its NEXT is the first step of the next one. END ends the program.
VALUE, STRUCT, LIST, CLOSE, KEY, ITEM, END = 0, 1, 2, 3, 4, 5, 6

_PADDING = b"\0" * 8  # names are copied eight bytes at a time
_MARKS = 8  # At least the size of null or of a value's quotes, brackets and comma, and eight for the end of a name


@dataclass
class JsonWriteProgram:
    """The steps for a shape. The columns in ``finished`` hold text that is already JSON."""

    shape: Shape
    finished: frozenset[int] = frozenset()
    table: npt.NDArray[np.int64] = field(init=False)
    names: npt.NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self._steps: list[list[int]] = []
        self._names = b""
        self._add(STRUCT, 0)
        for column, child in enumerate(self.shape.nodes[0].children):
            self._write(child, column, self.shape.nodes[child].name)
        self._add(CLOSE, 0)
        self._add(END, 0)
        self.table = np.array(self._steps, np.int64).reshape(-1, _COLUMNS)
        self.names = np.frombuffer(self._names + _PADDING, np.uint8)

    @cached_property
    def _lengths(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Of each step the bytes that it writes beside its value, and whether the value is a number or a time."""
        root = self.table[:, ROOT]
        fixed = (self.table[:, STEP] == VALUE) & ~np.isin(root, (type_roots.STRING, type_roots.BYTES, type_roots.OTHER))
        return self.table[:, NAME_STOP] - self.table[:, NAME] + np.where(fixed, 0, _MARKS), fixed

    def size(self, counts: npt.NDArray[np.int64], widest: int) -> int:
        """The most bytes of all values without their text, if a number or time takes ``widest``."""
        lengths, fixed = self._lengths
        return int((counts[self.table[:, NODE]] * (lengths + fixed * widest)).sum())

    def _add(self, step: int, node: int, column: int = 0, name: str | None = None) -> int:
        root, precision, scale = describe_root(self.shape.nodes[node].type)
        if root == type_roots.OTHER:
            root = self.shape.nodes[node].root
        if step == VALUE and column in self.finished:
            root = type_roots.OTHER
        start = len(self._names)
        if name is not None:
            self._names += f",{quote_in_bytes(name)}:".encode()
        self._steps.append([step, node, root, start, len(self._names), precision, scale, 0, column])
        return len(self._steps) - 1

    def _write(self, node: int, column: int, name: str | None = None) -> None:
        """Add the steps of a value, with its name before it if it is a field."""
        root, children = self.shape.nodes[node].root, self.shape.nodes[node].children
        step = STRUCT if root == type_roots.ROW else LIST if children else VALUE
        begun = self._add(step, node, column, name)
        if step == STRUCT:
            for child in children:
                self._write(child, column, self.shape.nodes[child].name)
            self._add(CLOSE, node, column)
        elif step == LIST:
            if root == type_roots.MAP:
                self._add(KEY, children[0], column)
            self._write(children[-1], column)
            self._steps[self._add(ITEM, node, column)][NEXT] = begun + 1
        self._steps[begun][NEXT] = len(self._steps)
