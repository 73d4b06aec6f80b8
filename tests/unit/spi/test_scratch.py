"""What tasks keep in files while a batch runs, and what they say when the disk is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ExecutionError, from_wire, to_wire
from penstock.flow.graph.exchange import EdgeId, EdgeKind, Origin, Sender, Spill


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process takes a byte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def numbers(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


def send(folder: Path, rows: int) -> None:
    with Sender(Origin(0, 0), str(folder)) as sender:
        sender.send_batch(EdgeId(EdgeKind.ROWS, 1), 0, numbers(rows))


def spill(folder: Path, rows: int) -> None:
    sender = Sender(Origin(0, 0))
    sender.send_batch(EdgeId(EdgeKind.ROWS, 1), 0, numbers(rows))
    with Spill(str(folder), 0) as kept:
        kept.keep(sender.take_rows())


@pytest.mark.parametrize("rows", [10, 100_000])
@pytest.mark.parametrize("work", [send, spill])
def test_a_task_on_a_full_disk_says_which_folder_and_what_to_do(tmp_path: Path, work: Any, rows: int) -> None:
    """Few bytes reach the disk when the file is closed."""
    expected = (
        rf"^cannot write to '{tmp_path}', where .*too large.* free space .*'spark\.local\.dir'.* SPARK_LOCAL_DIRS$"
    )
    with full_disk(), pytest.raises(ExecutionError, match=expected) as raised:
        work(tmp_path, rows)
    assert str(from_wire(to_wire(raised.value))) == str(raised.value)
    assert list(tmp_path.glob("*.spill")) == []
    work(tmp_path, rows)


def test_a_folder_that_is_gone_is_named_too(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match=f"cannot write to '{tmp_path / 'gone'}'"):
        send(tmp_path / "gone", 1)
