"""Partitioners of a table: the named ones, and user-defined classes that choose the partition of each row."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.common import Row
from penstock.errors import RecordError
from penstock.spi import Task
from penstock.types.arrow import python_values

#: The values of 'sink.partitioner' that are names; ``all-to-zero`` is for YAML's 'partition.strategy'.
BUILT_IN = ("default", "fixed", "round-robin", "all-to-zero")


class Partitioner(Protocol):
    """Chooses partitions, as Flink's ``FlinkKafkaPartitioner`` does. Each writing task makes its own, without
    arguments, and calls ``open(task, tasks)`` if there is such a method: the task's number and the number of tasks."""

    def partition(
        self, record: Row, key: bytes | None, value: bytes | None, target_topic: str, partitions: Sequence[int]
    ) -> int:
        """One of the topic's ``partitions`` for a row, whose message has this key and value."""
        ...


def load(path: str) -> type[Partitioner]:
    """The class that ``path`` names, as ``package.module.Class`` or ``package.module:Class``. Raises ValueError with
    the reason why there is none."""
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None) if module else None
    except Exception as error:  # the module is the user's
        raise ValueError(f"cannot import '{module}': {type(error).__name__}: {error}") from error
    if not isinstance(found, type):
        raise ValueError(f"there is no class '{name}' in '{module}'" if module else f"'{path}' names no Python class")
    if not callable(getattr(found, "partition", None)):
        raise ValueError(f"'{path}' is not a partitioner: it has no method 'partition'")
    return cast("type[Partitioner]", found)


class RowPartitions:
    """The partitions of rows by the class that ``path`` names, or by the object ``given``, in one task. Raises
    RecordError, without a row, when the class cannot be created in this process."""

    def __init__(self, path: str, task: Task, given: Any = None):
        self._path = path if given is None else str(given)
        path = self._path
        try:
            made: Any = load(path)() if given is None else given
            if callable(getattr(made, "open", None)):
                made.open(task.number, task.of)
            self._chooser: Partitioner = made
        except Exception as error:  # the class is the user's
            hint = "tasks import it too: install its module, or name its folder in PYTHONPATH"
            raise RecordError(f"the partitioner '{path}' cannot be created in a task: {error}", hint=hint) from error

    def choose_partitions(
        self,
        rows: pa.RecordBatch,
        keys: pa.BinaryArray | None,
        values: pa.BinaryArray | None,
        topic: str,
        partitions: int,
    ) -> NDArray[np.int32]:
        """The partitions of ``rows``. Raises RecordError with the index of a row for which the class fails or chooses
        no partition of the topic."""
        count, choice = rows.num_rows, range(partitions)
        names = tuple(rows.schema.names)
        columns = list(map(python_values, rows.columns))
        messages = [[None] * count if each is None else each.to_pylist() for each in (keys, values)]
        out = np.empty(count, np.int32)
        for index, (record, key, value) in enumerate(zip(zip(*columns, strict=True), *messages, strict=True)):
            try:
                chosen = self._chooser.partition(Row.named(names, record), key, value, topic, choice)
                known = chosen in choice
            except Exception as error:  # the class is the user's
                reason = f"the partitioner '{self._path}' failed: {type(error).__name__}: {error}"
                raise RecordError(reason, "", -1, index) from error
            if not known:
                reason = f"the partitioner '{self._path}' chose {chosen!r}"
                raise RecordError(
                    f"{reason}, and topic '{topic}' has the partitions 0 to {partitions - 1}", "", -1, index
                )
            out[index] = chosen
        return out
