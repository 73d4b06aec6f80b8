"""The names of a row's fields, as the compiled loop looks them up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.columns.nested import Shape, Vectors
from penstock.loops import type_roots
from penstock.loops.type_roots import describe_root

#: The columns of ``table``, whose row ``n`` describes node ``n``: the first and the number of its fields; precision and
#: scale of a number or time.
FIRST, ARITY, PRECISION, SCALE = 0, 1, 2, 3


@dataclass(frozen=True)
class FieldNames:
    """The names of the fields of all rows, joined. Each is as in a message, without the first quote and with a colon.

    Field ``f`` is node ``fields[f]``, and its name is ``keys[starts[f]:starts[f + 1]]``. ``repeated`` are the nodes of
    elements, keys and values of arrays and maps, which may have any number of values.
    """

    table: npt.NDArray[np.int64]
    fields: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    repeated: npt.NDArray[np.int64]
    plain: bool

    @property
    def vectors(self) -> Vectors:
        """The arrays as the loop takes them."""
        return self.table, self.fields, self.keys, self.starts, self.repeated

    @classmethod
    def from_shape(cls, shape: Shape) -> FieldNames:
        """The names in a shape. They are ``plain`` if none needs an escape, so that bytes can be compared."""
        table = np.zeros((len(shape.nodes), 4), np.int64)
        fields: list[int] = []
        repeated: list[int] = []
        for index, node in enumerate(shape.nodes):
            table[index, PRECISION:] = describe_root(node.type)[1:]
            if node.root == type_roots.ROW:
                table[index, FIRST], table[index, ARITY] = len(fields), len(node.children)
                fields += node.children
            else:
                repeated += node.children
        names = [shape.nodes[index].name for index in fields]
        keys = [f'{name}":'.encode() for name in names]
        starts = np.zeros(len(keys) + 1, np.int64)
        starts[1:] = np.cumsum([len(key) for key in keys])
        plain = not any('"' in name or "\\" in name for name in names)
        return cls(
            table,
            np.array(fields, np.int64),
            np.frombuffer(b"".join(keys), np.uint8),
            starts,
            np.array(repeated, np.int64),
            plain,
        )
