"""Functions of Arrow arrays in place of functions of values. PyFlink has no counterpart for streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ArrowFunction:
    """A function that takes many values at a time."""

    function: Callable[[Any], Any]


def call_arrow(function: Callable[[Any], Any]) -> ArrowFunction:
    """``function`` for ``DataStream.map`` and ``DataStream.filter``.

    It gets a ``pyarrow.Array`` of a stream of single values, a ``pyarrow.RecordBatch`` of a stream of rows, and returns
    as many values: for ``map`` an array or a record batch of the output type, for ``filter`` an array of booleans.
    """
    return ArrowFunction(function)
