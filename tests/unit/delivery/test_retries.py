"""The attempts to publish a batch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.delivery import run_with_retries
from penstock.errors import FencedError, PenstockError, RetriableError


class Batch:
    """Fails with these errors, one after the other, and is then published."""

    def __init__(self, *errors: PenstockError, stopping: bool = False):
        self.errors, self.warnings = list(errors), list[str]()
        self.context = SimpleNamespace(stopping=lambda: stopping, warn=self.warnings.append)

    def publish(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "published"

    def attempted(self) -> str:
        return run_with_retries(self.publish, 7, self.context)


def test_a_batch_is_published_at_the_third_attempt() -> None:
    batch = Batch(RetriableError("one"), RetriableError("two"))
    assert batch.attempted() == "published"
    assert batch.warnings == ["batch 7 is retried: one", "batch 7 is retried: two"]


def test_the_error_of_the_third_attempt_is_raised() -> None:
    batch = Batch(*map(RetriableError, ("one", "two", "three")))
    with pytest.raises(RetriableError, match="three"):
        batch.attempted()


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(Batch(FencedError("no")), id="an error that is not retriable"),
        pytest.param(Batch(PenstockError("no")), id="an error of another class"),
        pytest.param(Batch(RetriableError("no"), stopping=True), id="a job that is being stopped"),
    ],
)
def test_what_is_not_retried(batch: Batch) -> None:
    with pytest.raises(PenstockError, match="no"):
        batch.attempted()
    assert batch.warnings == []
