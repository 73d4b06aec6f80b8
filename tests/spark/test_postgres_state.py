"""The state of a job in PostgreSQL's progress, and two databases that get one attempt at each batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.delivery import deliver
from penstock.errors import CheckpointError, DatabaseError, FencedError
from penstock.spi import Batch, CommitStatus
from tests.spark.conftest import Db
from tests.spark.failpoints import before_insertion_is_committed, failures
from tests.spark.test_postgres import Runs, batch

pytestmark = [pytest.mark.rule("state commits with the output"), pytest.mark.rule("the first commit binds the attempt")]


@pytest.fixture
def databases(server) -> list[Db]:
    return [Db.create(server) for _ in range(2)]


@dataclass(frozen=True)
class Made:
    state: str
    rows: list[int]

    def tasks(self, target: int) -> Made:
        return self


@dataclass
class Numbered:
    """Operators whose rows are the numbers of their attempts."""

    begun: list[tuple[int, str]] = field(default_factory=list)
    keeps_rows = True

    def run(self, batch: Batch, state: str) -> Made:
        self.begun.append((batch.id, state))
        return self.kept(batch, f"attempt-{len(self.begun)}")

    def kept(self, batch: Batch, state: str) -> Made:
        return Made(state, [int(state.removeprefix("attempt-"))])


class Both:
    """Runs of one job that writes two databases."""

    def __init__(self, databases: list[Db]):
        self.runs = [Runs(each, "t") for each in databases]
        self.operators = Numbered()

    def start(self, next_batch: int = 0) -> list:
        return [target for runs in self.runs for target in runs.start(("t", None), next_batch=next_batch)]

    def deliver(self, targets: list, number: int) -> str:
        return deliver(batch(number), targets, self.operators).state


def test_a_row_refers_to_the_state_after_its_batch(databases):
    runs, operators = Runs(databases[0], "t"), Numbered()
    (target,) = runs.start(("t", None))
    assert target.commit_status(batch(0)) == CommitStatus(False, "")
    assert deliver(batch(0), [target], operators).state == "attempt-1"
    assert target.commit_status(batch(0)) == CommitStatus(True, "attempt-1")

    (again,) = runs.start(("t", None), next_batch=1)
    assert again.state(1) == "attempt-1"
    assert again.state(2) == "", "files of that state may be gone"
    assert again.commit_status(batch(1)) == CommitStatus(False, "attempt-1")
    assert deliver(batch(1), [again], operators).state == "attempt-2"
    assert operators.begun == [(0, ""), (1, "attempt-1")]
    assert databases[0].ids() == [1, 2]
    with pytest.raises(CheckpointError, match="had state in batch 1 and has none now"):
        again.publish(batch(2), [3])


def test_a_database_that_has_not_committed_gets_the_attempt_of_the_other(databases, monkeypatch):
    both = Both(databases)
    targets = both.start()
    assert both.deliver(targets, 0) == "attempt-1"
    committed = []

    def fail_second(*_):
        committed.append(1)
        if len(committed) == 2:
            raise DatabaseError("between the two commits")

    before_insertion_is_committed(monkeypatch, fail_second)
    with pytest.raises(DatabaseError, match="between"):
        both.deliver(targets, 1)
    assert [each.ids() for each in databases] == [[1, 2], [1]]

    again = both.start(next_batch=1)
    assert both.deliver(again, 1) == "attempt-2"
    assert both.deliver(again, 2) == "attempt-3"
    assert [each.ids() for each in databases] == [[1, 2, 3], [1, 2, 3]]
    assert both.operators.begun == [(0, ""), (1, "attempt-1"), (2, "attempt-2")]


def test_a_rolled_back_batch_is_attempted_anew(databases, monkeypatch):
    both = Both(databases)
    before_insertion_is_committed(monkeypatch, failures(1, lambda: DatabaseError("before the first commit")))
    with pytest.raises(DatabaseError, match="before the first"):
        both.deliver(both.start(), 0)
    assert both.deliver(both.start(), 0) == "attempt-2"
    assert [each.ids() for each in databases] == [[2], [2]]
    assert both.operators.begun == [(0, ""), (0, "")]


def test_a_run_that_was_taken_over_commits_nothing_more(databases):
    both = Both(databases)
    former, now = both.start(), both.start()
    with pytest.raises(FencedError):
        both.deliver(former, 0)
    assert both.deliver(now, 0) == "attempt-2"
    assert [each.ids() for each in databases] == [[2], [2]]


def test_a_progress_table_of_before_gets_the_column(databases):
    (db, _) = databases
    runs = Runs(db, "t")
    runs.start(("t", None))
    db.rows("ALTER TABLE penstock_progress DROP COLUMN state")
    (target,) = runs.start(("t", None))
    assert deliver(batch(0), [target], Numbered()).state == "attempt-1"
    assert db.rows("SELECT state FROM penstock_progress") == [("attempt-1",)]


def test_rows_of_former_tables_tell_the_state_too(databases):
    runs = Runs(databases[0], "t", "u")
    (target,) = runs.start(("t", None))
    assert deliver(batch(0), [target], Numbered()).state == "attempt-1"
    (other,) = runs.start(("u", None), next_batch=1, adopt_progress=True)
    assert other.state(1) == "attempt-1"
    assert other.state(2) == ""
    assert other.commit_status(batch(1)) == CommitStatus(False, "attempt-1")
