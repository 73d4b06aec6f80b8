"""Rows, arrays and maps of values."""

from __future__ import annotations

from penstock.flow.kernels.collections import parts
from penstock.plan.scalar_functions import Entry, Function, Missing

GROUP = "Values"
_OBJECTS = "structured types of Java classes are not supported; use ROW(..)"

FUNCTIONS = (
    Function("ROW", "ROW(a, ..), (a, b, ..)", kernel=parts.row),
    Entry("ARRAY[]", "ARRAY[a, ..]"),
    Function("ARRAY", kernel=parts.array),
    Entry("MAP[]", "MAP[key, a, ..]", "a key that is null fails the row"),
    Function("MAP", kernel=parts.MAP),
    Missing("OBJECT_OF", "OBJECT_OF(class, key, a, ..)", reason=_OBJECTS),
    Missing("OBJECT_UPDATE", "OBJECT_UPDATE(a, key, b, ..)", reason=_OBJECTS),
)
