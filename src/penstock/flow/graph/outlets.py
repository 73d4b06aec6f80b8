"""The outputs of a task: their rows go to the writers of their targets, whose results go to the driver, or what they
pass on to owners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.flow.graph.exchange import EdgeId, EdgeKind, Sender
from penstock.flow.rows.envelope import ARRIVED, arrivals_of
from penstock.flow.rows.table_rows import TableRows, TablesWork
from penstock.spi import HIDDEN, KIND, Output, OutputRows, Task, Writer, WriterFactory


@dataclass(frozen=True)
class Target:
    """The outputs that are committed together, by their numbers, and what writes their rows in tasks."""

    outputs: tuple[int, ...]
    writers: WriterFactory


@dataclass
class Outlets:
    """The writers of one task, each of which is opened when it has rows. ``instructions`` are those of the targets;
    None: the writers pass rows on."""

    targets: Sequence[Target]
    outputs: Sequence[Output]
    task: Task
    instructions: Sequence[str | None]
    sender: Sender
    _writers: dict[int, Writer] = field(default_factory=dict)
    _opened: ExitStack = field(default_factory=ExitStack)
    #: The tables that writers know, by the target and the number of their output.
    _tables: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._places = {
            output: (target, number)
            for target, each in enumerate(self.targets)
            for number, output in enumerate(each.outputs)
        }

    def __enter__(self) -> Outlets:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def write(self, results: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
        """Write rows of outputs, by their numbers; those of an output that came from one scan in several ways in the
        order of arrival."""
        parts: dict[int, list[OutputRows]] = {}
        for output, batches in results.items():
            target, number = self._places[output]
            for rows, hidden in _arrange_rows(self.outputs[output].schema.names, batches):
                if rows.num_rows:
                    parts.setdefault(target, []).append((number, rows, hidden))
        for target, written in parts.items():
            self._send(target, self._writer(target).write_outputs(written))

    def write_tables(self, output: int, work: TablesWork, parts: Iterable[TableRows]) -> None:
        """Write rows of tables that belong to an output, which the writer gets to know when they have rows first."""
        target, _ = self._places[output]
        found: list[OutputRows] = []
        for each in parts:
            if not each.rows.num_rows:
                continue
            number = len(self.targets[target].outputs) + each.version.output
            if (target, number) not in self._tables:
                self._tables.add((target, number))
                self._writer(target).add_output(number, work.output(each.version))
            names = each.version.schema.row.names
            found.append((number, each.rows.select(list(names)), _hide(each.rows)))
        if found:
            self._send(target, self._writer(target).write_outputs(found))

    def finish(self) -> None:
        """Write what is left."""
        for target, writer in self._writers.items():
            self._send(target, writer.finish())

    def _writer(self, target: int) -> Writer:
        if target not in self._writers:
            task = replace(self.task, instructions=self.instructions[target] or "")
            self._writers[target] = writer = self.targets[target].writers.open(task)
            self._opened.callback(writer.close)
        return self._writers[target]

    def _send(self, target: int, results: Iterable[pa.RecordBatch]) -> None:
        passes = self.instructions[target] is None
        for each in results:
            send_written(self.sender, self.targets[target].writers, each, self.task, passes=passes, target=target)


def send_written(
    sender: Sender, writers: WriterFactory, rows: pa.RecordBatch, task: Task, *, passes: bool, target: int = 0
) -> None:
    """Send what a writer of a task yields to the driver, or if it ``passes`` rows on, to their owners."""
    if not passes:
        sender.send_batch(EdgeId(EdgeKind.RESULTS, target), 0, rows, inline=True)
        return
    edge, owners = EdgeId(EdgeKind.ENCODED, target), writers.owners
    if not writers.owner or owners == 1:
        sender.send_output(edge, task.number * owners // task.of, rows)
        return
    owner_of_row = rows.column(writers.owner).to_numpy() % owners
    for owner in np.unique(owner_of_row):
        sender.send_output(edge, int(owner), rows.take(pa.array(np.flatnonzero(owner_of_row == owner))))


def _arrange_rows(
    names: Sequence[str], batches: Sequence[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The columns of these ``names``, and the hidden ones, of each batch; or of all rows, if they came in several ways,
    in the order of their arrival."""
    if len(batches) < 2 or ARRIVED not in batches[0].schema.names:
        for each in batches:
            yield each.select(list(names)), _hide(each)
        return
    order = pa.array(np.argsort(np.concatenate([arrivals_of(each) for each in batches]), kind="stable"))
    rows = pa.concat_batches([each.select(list(names)) for each in batches])
    yield rows.take(order), pa.concat_batches([_hide(each, kinds=True) for each in batches]).take(order)


def _hide(rows: pa.RecordBatch, *, kinds: bool = False) -> pa.RecordBatch:
    """The columns of rows that writers get beside those of the output: HIDDEN, and KIND if they have it, or in any
    case."""
    count = rows.num_rows
    columns = {
        name: rows.column(name) if name in rows.schema.names else pa.array(np.full(count, -1), kind)
        for name, kind in zip(HIDDEN.names, (pa.int32(), pa.int64()), strict=True)
    }
    if KIND in rows.schema.names:
        columns[KIND] = rows.column(KIND)
    elif kinds:
        columns[KIND] = pa.array(np.zeros(count, np.int8))
    return pa.RecordBatch.from_pydict(columns)
