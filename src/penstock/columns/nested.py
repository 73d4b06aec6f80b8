"""Nested columns as flat buffers for compiled loops: one node per column, field, element, key and value.

The nodes are in the order of the types, with a row, array or map before its contents. Node 0 is the row itself. A node
has as many values as its parent has rows or elements, so a null row has a null for each of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import (
    LARGEST,
    Gather,
    binary_parts,
    build_batch,
    cast,
    decimal_pairs,
    fixed_column,
    from_buffers,
    gather_spans,
    validity,
    validity_buffer,
    words,
)
from penstock.errors import RecordError
from penstock.loops import type_roots
from penstock.loops.strings import gather_strings
from penstock.loops.type_roots import describe_root, nested_root
from penstock.types import ArrayType, DataType, MapType, RowType, arrow_schema, arrow_type

#: The columns of ``nodes``, whose row ``n`` describes node ``n``: its type root; the words of a value; the start of its
#: words and of its validity; the number of values that it has room for.
ROOT, WIDTH, BASE, VALID_BASE, CAPACITY = 0, 1, 2, 3, 4

#: The validity of an explicit null, for loops that distinguish it from a missing value.
GIVEN_NULL = 2

_WIDTHS = {type_roots.ROW: 0, type_roots.STRING: 2, type_roots.BYTES: 2, type_roots.DECIMAL: 2}
_LEAST_CAPACITY = 64

#: The arrays of the columns as a loop takes them: ``nodes``, ``words``, ``valid`` and, to fill them, ``counts``.
Vectors: TypeAlias = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True)
class ColumnNode:
    """One node: its type, its child nodes, and whether an array or map contains it."""

    name: str
    type: DataType
    children: tuple[int, ...]
    repeated: bool

    @cached_property
    def root(self) -> int:
        """The type root of the node."""
        return nested_root(self.type)


@dataclass(frozen=True)
class Shape:
    """The nodes of a table's columns."""

    row: RowType
    nodes: tuple[ColumnNode, ...]

    @classmethod
    def from_row_type(cls, row: RowType) -> Shape:
        """The shape of a row's columns."""
        nodes: list[ColumnNode] = []
        _add(nodes, "", row, False)
        return cls(row, tuple(nodes))

    @cached_property
    def digits(self) -> npt.NDArray[np.int64]:
        """Precision and scale of each column."""
        return np.array([describe_root(field.type)[1:] for field in self.row.fields], np.int64).reshape(-1, 2)

    @cached_property
    def padding(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The nodes that get a null along with node ``n``: ``padded[starts[n]:starts[n + 1]]``."""
        found = [list(self._find_padded_nodes(index)) for index in range(len(self.nodes))]
        starts = np.zeros(len(found) + 1, np.int64)
        starts[1:] = np.cumsum([len(each) for each in found])
        return np.array([node for each in found for node in each], np.int64), starts

    def _find_padded_nodes(self, index: int) -> Iterator[int]:
        yield index
        if self.nodes[index].root == type_roots.ROW:
            for child in self.nodes[index].children:
                yield from self._find_padded_nodes(child)


def _add(nodes: list[ColumnNode], name: str, data_type: DataType, repeated: bool) -> int:
    index = len(nodes)
    nodes.append(ColumnNode(name, data_type, (), repeated))
    match data_type:
        case RowType(fields=fields):
            children = tuple(_add(nodes, each.name, each.type, repeated) for each in fields)
        case ArrayType(element=element):
            children = (_add(nodes, "element", element, True),)
        case MapType(key=key, value=value):
            children = (_add(nodes, "key", key, True), _add(nodes, "value", value, True))
        case _:
            children = ()
    nodes[index] = ColumnNode(name, data_type, children, repeated)
    return index


def _build_table(shape: Shape, capacities: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    table = np.zeros((len(shape.nodes), 5), np.int64)
    table[:, ROOT] = [node.root for node in shape.nodes]
    table[:, WIDTH] = [_WIDTHS.get(node.root, 1) for node in shape.nodes]
    table[:, CAPACITY] = capacities
    table[1:, BASE] = np.cumsum(table[:-1, CAPACITY] * table[:-1, WIDTH])
    table[1:, VALID_BASE] = np.cumsum(table[:-1, CAPACITY])
    return table


@dataclass
class NestedColumns:
    """The columns that a loop fills. Value ``i`` of node ``n`` is at ``words[nodes[n, BASE] + i * nodes[n, WIDTH]]``.

    The words of a value are: for a number, its 64 bits as :func:`penstock.columns.buffers.fixed_column` takes
    them; for a decimal, its low and high 64 bits; for a string or bytes, start and size; for an array or map, the
    number of elements up to its end. A row has no words. ``counts[n]`` is the number of values of node ``n``.
    """

    shape: Shape
    rows: int
    nodes: npt.NDArray[np.int64] = field(init=False)
    words: npt.NDArray[np.int64] = field(init=False)
    valid: npt.NDArray[np.uint8] = field(init=False)
    counts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.shape.nodes), np.int64)
        room = [max(self.rows, _LEAST_CAPACITY) if node.repeated else self.rows for node in self.shape.nodes]
        self._allocate(np.array(room, np.int64))

    def _allocate(self, capacities: npt.NDArray[np.int64]) -> None:
        self.nodes = _build_table(self.shape, capacities)
        self.words = np.empty(int((self.nodes[:, CAPACITY] * self.nodes[:, WIDTH]).sum()), np.int64)
        self.valid = np.empty(int(capacities.sum()), np.uint8)

    def clear(self) -> None:
        """Make all values null, and all arrays and maps empty."""
        self.words[:], self.valid[:] = 0, 0
        self.counts[:] = [0 if node.repeated else self.rows for node in self.shape.nodes]

    @property
    def vectors(self) -> Vectors:
        """The arrays as a loop takes them."""
        return self.nodes, self.words, self.valid, self.counts

    def fill(self, read: Callable[[Vectors, int], tuple[int, int]]) -> None:
        """Let ``read`` fill the columns from a row on. It returns the row where it stopped and -1, or the node that ran
        out of room, which grows."""
        row = 0
        while row < self.rows:
            row, full = read(self.vectors, row)
            if full >= 0:
                self.grow(full)

    def grow(self, node: int) -> None:
        """Double the room of a node inside an array or map, and of its dependent nodes."""
        nodes, words, valid = self.nodes, self.words, self.valid
        capacities = nodes[:, CAPACITY].copy()
        padded, starts = self.shape.padding
        capacities[padded[starts[node] : starts[node + 1]]] *= 2
        self._allocate(capacities)
        for index, count in enumerate(self.counts.tolist()):
            width = int(nodes[index, WIDTH])
            to, start = int(self.nodes[index, BASE]), int(nodes[index, BASE])
            self.words[to : to + count * width] = words[start : start + count * width]
            to, start = int(self.nodes[index, VALID_BASE]), int(nodes[index, VALID_BASE])
            self.valid[to : to + count] = valid[start : start + count]

    def given_values(self, index: int) -> npt.NDArray[np.bool_]:
        """Whether each value of a node was given, possibly as null."""
        start = int(self.nodes[index, VALID_BASE])
        found: npt.NDArray[np.bool_] = self.valid[start : start + int(self.counts[index])] != 0
        return found

    def ends(self, index: int) -> npt.NDArray[np.int64]:
        """The number of elements up to the end of each value of an array or map."""
        start = int(self.nodes[index, BASE])
        return self.words[start : start + int(self.counts[index])]

    def batch(
        self, text: npt.NDArray[np.uint8], strings: Gather = gather_strings, binaries: Gather = gather_strings
    ) -> pa.RecordBatch:
        """All columns. ``strings`` and ``binaries`` copy strings and bytes from ``text``.

        Raises RecordError if a column would exceed 2 GiB of text or 2**31 elements.
        """
        root, schema = self.shape.nodes[0], arrow_schema(self.shape.row)
        copy = {type_roots.STRING: strings, type_roots.BYTES: binaries}
        columns = [self._build_column(child, text, copy) for child in root.children]
        return build_batch(columns, schema, int(self.counts[0]))

    def _build_column(self, index: int, text: npt.NDArray[np.uint8], copy: Mapping[int, Gather]) -> pa.Array:
        node, count = self.shape.nodes[index], int(self.counts[index])
        arrow, root, width = arrow_type(node.type), node.root, int(self.nodes[index, WIDTH])
        start = int(self.nodes[index, VALID_BASE])
        valid = self.valid[start : start + count] & np.uint8(1)
        start = int(self.nodes[index, BASE])
        values = self.words[start : start + count * width]
        if root in copy:
            return gather_spans(arrow, text, values.reshape(-1, 2), valid, copy[root])
        if root == type_roots.DECIMAL:
            return from_buffers(arrow, valid, values)
        children = [self._build_column(child, text, copy) for child in node.children]
        if root == type_roots.ROW:
            return pa.Array.from_buffers(arrow, count, [validity_buffer(valid)], children=children)
        if root not in (type_roots.ARRAY, type_roots.MAP):
            return fixed_column(arrow, root, values, valid)
        if count and values[-1] > LARGEST:
            raise RecordError("the elements of one column exceed 2**31", hint="use smaller batches")
        ends = np.zeros(count + 1, np.int32)
        ends[1:] = values
        if root == type_roots.MAP:
            children = [pa.StructArray.from_arrays(children, fields=[arrow.key_field, arrow.item_field])]
        return pa.Array.from_buffers(arrow, count, [validity_buffer(valid), pa.py_buffer(ends)], children=children)


class NestedInputs:
    """The columns of a batch, cast to the types of a shape, as input of a loop.

    ``vectors`` are ``nodes``, ``words``, ``valid`` and ``text``. ``counts[n]`` is the number of values of node ``n``.
    Value ``i`` of node ``n`` is at ``words[nodes[n, BASE] + i]``. It is 64 bits of a number (32 of a FLOAT), or the
    start of a string in ``text`` or of an array's or map's elements, which end where the next value starts. A decimal
    is at twice ``i``, low 64 bits first.
    """

    def __init__(self, shape: Shape, rows: pa.RecordBatch):
        self.nodes = np.zeros((len(shape.nodes), 5), np.int64)
        self.counts = np.zeros(len(shape.nodes), np.int64)
        self._shape = shape
        self._words: list[npt.NDArray[np.int64]] = []
        self._valid: list[npt.NDArray[np.uint8]] = []
        self._texts: list[npt.NDArray[np.uint8]] = []
        self._taken = self._validities = self._text_size = 0
        self._mark(0, np.ones(rows.num_rows, np.uint8))
        for child, column in zip(shape.nodes[0].children, cast(rows, shape.row).columns, strict=True):
            self._put(child, column)
        self.words = _concat(self._words, np.int64)
        self.valid = _concat(self._valid, np.uint8)
        self.text = _concat(self._texts, np.uint8)
        self.vectors: Vectors = self.nodes, self.words, self.valid, self.text

    def _mark(self, index: int, valid: npt.NDArray[np.uint8]) -> None:
        self.counts[index] = len(valid)
        self.nodes[index, ROOT] = self._shape.nodes[index].root
        self.nodes[index, BASE], self.nodes[index, VALID_BASE] = self._taken, self._validities
        self._valid.append(valid)
        self._validities += len(valid)

    def _keep(self, values: npt.NDArray[np.int64]) -> None:
        self._words.append(values)
        self._taken += len(values)

    def _put(self, index: int, column: pa.Array) -> None:
        node = self._shape.nodes[index]
        self._mark(index, validity(column))
        if node.root == type_roots.ROW:
            for position, child in enumerate(node.children):
                self._put(child, column.field(position))
        elif node.root in (type_roots.ARRAY, type_roots.MAP):
            starts = column.offsets.to_numpy().astype(np.int64) if len(column) else np.zeros(1, np.int64)
            first, size = int(starts[0]), int(starts[-1] - starts[0])
            self._keep(starts - first)
            parts = (column.values,) if node.root == type_roots.ARRAY else (column.keys, column.items)
            for child, part in zip(node.children, parts, strict=True):
                self._put(child, part.slice(first, size))
        elif node.root in (type_roots.STRING, type_roots.BYTES):
            data, starts = binary_parts(column)
            self._keep(starts - starts[0] + self._text_size)
            self._texts.append(data[starts[0] : starts[-1]])
            self._text_size += int(starts[-1] - starts[0])
        elif node.root == type_roots.DECIMAL:
            self._keep(decimal_pairs(column).reshape(-1))
        else:
            self._keep(words(node.root, column))


def _concat(parts: list[npt.NDArray[Any]], root: Any) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, root)
