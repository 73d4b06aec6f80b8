"""The outputs of a task: their rows go to the writers of their targets, whose results go to the driver, or what they
pass on to owners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.flow.graph.exchange import ENCODED, RESULTS, Sender, edge_of_target
from penstock.flow.rows.envelope import ARRIVED, arrivals_of
from penstock.plan.nodes import Sink
from penstock.spi import HIDDEN, KIND, Output, Task, Writer, WriterFactory


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

    def __post_init__(self) -> None:
        self._target_of = {output: number for number, each in enumerate(self.targets) for output in each.outputs}

    def __enter__(self) -> Outlets:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def write(self, output: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Write rows of the output of that number; those that came from one scan in several ways in the order of
        arrival."""
        target = self._target_of[output]
        for rows in _place_in_order(self.outputs[output], batches):
            if rows.num_rows:
                self._send(target, self._writer(target).write(rows))

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
        sender.send_batch(edge_of_target(RESULTS, target), 0, rows, inline=True)
        return
    edge, owners = edge_of_target(ENCODED, target), writers.owners
    if not writers.owner or owners == 1:
        sender.send_output(edge, task.number * owners // task.of, rows)
        return
    owner_of_row = rows.column(writers.owner).to_numpy() % owners
    for owner in np.unique(owner_of_row):
        sender.send_output(edge, int(owner), rows.take(pa.array(np.flatnonzero(owner_of_row == owner))))


def sink_outputs(sinks: Sequence[Sink]) -> tuple[Output, ...]:
    """The place of each sink's rows in batches. With one sink the columns are the sink's. With several, sink ``i`` has
    the struct column ``sink_i``."""
    if len(sinks) == 1:
        sink = sinks[0]
        return (Output(0, sink.table, sink.spec, sink.schema, None, sink.schema.names),)
    return tuple(Output(i, sink.table, sink.spec, sink.schema, f"sink_{i}") for i, sink in enumerate(sinks))


def place_rows(output: Output, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of an output where ``output`` says that they are, with the columns HIDDEN and KIND."""
    count = rows.num_rows
    hidden = [
        rows.column(name) if name in rows.schema.names else pa.array(np.full(count, -1), kind)
        for name, kind in zip(HIDDEN.names, (pa.int32(), pa.int64()), strict=True)
    ]
    kinds = rows.column(KIND) if KIND in rows.schema.names else pa.array(np.zeros(count, np.int8))
    columns = [rows.column(name) for name in output.schema.names]
    names = [*HIDDEN.names, KIND]
    if output.column is None:
        return pa.RecordBatch.from_arrays([*columns, *hidden, kinds], names=[*output.schema.names, *names])
    row = pa.StructArray.from_arrays(columns, names=list(output.schema.names))
    return pa.RecordBatch.from_arrays([row, *hidden, kinds], names=[output.column, *names])


def _place_in_order(output: Output, batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    rows = [place_rows(output, each) for each in batches]
    if len(rows) < 2 or ARRIVED not in batches[0].schema.names:
        return rows
    places = np.concatenate([arrivals_of(each) for each in batches])
    return [pa.concat_batches(rows).take(pa.array(np.argsort(places, kind="stable")))]
