"""A job with state on a Spark cluster: two workers, whose executors are killed while they write a batch's state."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock_testing.services import SparkCluster
from tests.faults.executors import kill_executor_of
from tests.faults.processes import JobProcess
from tests.faults.steps import RESTARTING
from tests.jvm import UNOPTIMISED

PATIENCE = 400
WORKERS = (2, 3)
POINTS = Path(__file__).parents[1] / "faults" / "points"
#: So many changes in one batch are read by two tasks, one on each worker.
ENOUGH_FOR_TWO_TASKS = 50_000
CHANGES = "id BIGINT, customer STRING, amount BIGINT, PRIMARY KEY (id) NOT ENFORCED"

#: Seven JVMs, and Python processes that are not forked from a warm one.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without which the next process that writes state puts its number there, and stands still."""
    found = tmp_path / "written"
    found.touch()
    monkeypatch.setenv("PYTHONPATH", str(POINTS))
    monkeypatch.setenv("PENSTOCK_POINT", f"after *.arrow {found}")
    return found


@pytest.fixture
def cluster(written: Path) -> Iterator[SparkCluster]:
    with SparkCluster(jvm_options=(UNOPTIMISED,)) as made:
        yield made


class Orders:
    """Random changes of orders, of which each goes to the partition of its id, and the orders that are left."""

    def __init__(self) -> None:
        self.random = random.Random(11)
        self.live: dict[int, dict[str, Any]] = {}
        self.ids = 0
        self._order: list[int] = []

    def changes(self, count: int) -> list[dict[str, Any]]:
        """So many messages in Debezium's format."""
        return [self._change() for _ in range(count)]

    def _change(self) -> dict[str, Any]:
        if self._order and self.random.random() < 0.4:
            at = self.random.randrange(len(self._order))
            self._order[at], self._order[-1] = self._order[-1], self._order[at]
            before = self.live.pop(self._order.pop())
            if self.random.random() < 0.5:
                return {"op": "d", "before": before, "after": None}
        else:
            before, self.ids = None, self.ids + 1
        number = before["id"] if before else self.ids
        self._order.append(number)
        after = {"id": number, "customer": f"c{self.random.randrange(50)}", "amount": self.random.randrange(100)}
        self.live[number] = after
        return {"op": "u" if before else "c", "before": before, "after": after}

    @property
    def totals(self) -> dict[str, tuple[int, int]]:
        """Number and amount of the orders of each customer."""
        counts, amounts = Counter[str](), Counter[str]()
        for each in self.live.values():
            counts[each["customer"]] += 1
            amounts[each["customer"]] += each["amount"]
        return {name: (counts[name], amounts[name]) for name in counts}

    def noted(self, notes: dict[int, str]) -> dict[int, tuple[int, str]]:
        """Amount and note of each order that has one."""
        return {number: (each["amount"], notes[number]) for number, each in self.live.items() if number in notes}


def table(topics: Any, topic: str, key: str, *columns: str) -> dict[Any, tuple[Any, ...]]:
    """The rows of an upsert topic, by their key."""
    found: dict[Any, tuple[Any, ...]] = {}
    for message in topics.read(topic):
        number = json.loads(message.key)[key]
        if message.value is None:
            del found[number]
        else:
            found[number] = tuple(message.json[name] for name in columns)
    return found


def upserts(bootstrap: str, topic: str) -> str:
    options = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "key.format": "json",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "cluster",
    }
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"WITH ({clause});\n"


@pytest.mark.rule("state commits with the output")
def test_groups_and_a_join_survive_two_killed_executors(
    cluster: SparkCluster, written: Path, jobs: Any, topics: Any, topic: Any, tmp_path: Path
) -> None:
    """In each of two batches, which two tasks read and two own, an executor is killed when its task has written state:
    the batch is redone with the state of the batch before.

    The job has a restart strategy, as on any cluster: Spark ends a query if a Python process of the driver takes more
    than 10 s to start, as on a busy machine."""
    source, remarks, totals, noted = topic(partitions=2), topic(), topic(partitions=2), topic(partitions=2)
    earliest = {"scan_startup_mode": "earliest-offset"}
    sql = RESTARTING + "SET 'parallelism.default' = '2';\n"
    sql += jobs.table("orders", CHANGES, source, format="debezium-json", **earliest)
    sql += "CREATE TABLE notes (id BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) "
    sql += upserts(jobs.bootstrap, remarks)
    sql += "CREATE TABLE totals (customer STRING, n BIGINT, s BIGINT, PRIMARY KEY (customer) NOT ENFORCED) "
    sql += upserts(jobs.bootstrap, totals)
    sql += "CREATE TABLE noted (id BIGINT, amount BIGINT, note STRING, PRIMARY KEY (id) NOT ENFORCED) "
    sql += upserts(jobs.bootstrap, noted)
    sql += "EXECUTE STATEMENT SET BEGIN\n"
    sql += "INSERT INTO totals SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer;\n"
    sql += "INSERT INTO noted SELECT o.id, o.amount, n.note FROM orders AS o JOIN notes AS n ON o.id = n.id;\nEND;\n"

    orders, notes = Orders(), {number: f"n{number}" for number in range(0, 3000, 2)}
    rows = [{"id": number, "note": note} for number, note in notes.items()]
    topics.write(remarks, rows, keys=[json.dumps({"id": number}).encode() for number in notes])

    def write() -> None:
        found = orders.changes(ENOUGH_FOR_TWO_TASKS)
        for partition in (0, 1):
            mine = [each for each in found if ((each["after"] or each["before"])["id"] + partition) % 2]
            topics.write(source, mine, partition=partition)

    def exact() -> bool:
        return table(topics, totals, "customer", "n", "s") == orders.totals and table(
            topics, noted, "id", "amount", "note"
        ) == orders.noted(notes)

    def idle() -> bool:
        """Whether the job has nothing to do, and two executors to do it."""
        return 0 <= job.done() == job.planned() and all(map(cluster.executors, WORKERS))

    environment = {"SPARK_MASTER": cluster.url, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    job = JobProcess(tmp_path / "driver", sql, tmp_path / "shared", name="job", environment=environment)
    try:
        write()
        job.start().until(lambda: idle() and exact(), PATIENCE)
        for _ in range(2):
            job.until(idle, PATIENCE)
            batch = job.done() + 1
            written.unlink()
            job.pause()  # so that it is one batch
            write()
            job.resume()
            job.until(lambda: written.exists() and written.read_text().count("\n") == 2, PATIENCE)
            worker, file = written.read_text().split()
            assert file.startswith(f"{batch:09d}-")
            kill_executor_of(int(worker))
            job.until(lambda batch=batch: job.done() >= batch and exact(), PATIENCE)
            assert f"batch {batch} is retried" in job.text
            assert len(owners(tmp_path / "shared" / "job" / "state", batch)) == 2
        job.stop()
    finally:
        job.kill()
    assert exact()
    assert list((tmp_path / "shared" / "job" / "state").glob("*.manifest"))


def owners(state: Path, batch: int) -> set[str]:
    """Where the ranges of keys begin that the tasks of a batch have written, in its last attempt."""
    (manifest,) = state.glob(f"{batch:09d}-*.manifest")
    return {path.name.split("-")[3] for path in state.glob(f"{manifest.stem}-*.arrow")}
