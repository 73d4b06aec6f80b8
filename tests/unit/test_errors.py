"""The tree of errors."""

from __future__ import annotations

import re

import pytest

from penstock import errors
from penstock.errors import (
    AbortableError,
    BatchError,
    ExecutionError,
    KafkaError,
    PenstockError,
    from_wire,
)
from penstock.spi import OnDriver, failure_of

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]


def drawn() -> dict[str, tuple[str, str]]:
    """The class above each one that the docstring of ``penstock.errors`` draws, and what it says of it."""
    above: list[tuple[int, str]] = []
    found = {}
    for place, name, text in re.findall(r"^( [ │├└─]*)(\w+Error)\b *(.*)$", errors.__doc__ or "", re.MULTILINE):
        while above and above[-1][0] >= len(place):
            above.pop()
        found[name] = (above[-1][1] if above else "Exception", text)
        above.append((len(place), name))
    return found


def test_the_tree_is_drawn_as_it_is():
    assert {name: parent for name, (parent, _) in drawn().items()} == {
        each.__name__: each.__bases__[0].__name__ for each in CLASSES
    }
    also = {each.__name__: [base.__name__ for base in each.__bases__[1:]] for each in CLASSES}
    assert {name: re.findall(r"also a (\w+)", text) for name, (_, text) in drawn().items()} == also


def test_an_error_of_the_batch_does_not_blame_kafka():
    lost = failure_of(RuntimeError("org.apache.spark.SparkException: the executor was lost"))
    assert type(lost) is BatchError
    assert lost.retriable
    assert lost.restartable
    assert issubclass(BatchError, ExecutionError)
    assert not issubclass(BatchError, KafkaError)


def test_the_driver_says_so_too():
    def run(_: str) -> None:
        raise ValueError("out of range")

    with pytest.raises(BatchError, match="ValueError: out of range") as raised:
        OnDriver(run).collect()
    assert type(raised.value) is BatchError


def test_an_abort_by_kafka_is_both():
    error: PenstockError = AbortableError("the transaction expired")
    assert isinstance(error, BatchError)
    assert isinstance(error, KafkaError)
    assert error.retriable


@pytest.mark.parametrize("each", [BatchError, AbortableError], ids=lambda each: each.__name__)
def test_it_crosses_processes(each):
    found = from_wire(errors.to_wire(each("a task was lost")))
    assert type(found) is each
    assert str(found) == "a task was lost"
