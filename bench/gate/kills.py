"""A job that is killed over and over while records arrive: its tables are exact in the end."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.gate.queries import Source, script, upserts
from bench.gate.restarts import idle, reaches, running, wait_until
from bench.gate.topics import Topics, document, names

_USERS, _REGIONS = 50_000, 1_000
#: Records that are written at a time, a multiple of 8.
_SOME = 1_000
_PER_BATCH = 100_000


@dataclass(frozen=True)
class Outcome:
    """Kills, and how many of them came while Spark had a batch under way, so that it was done again. ``wrong`` says
    what differs in the tables; empty if they are exact."""

    kills: int
    amid: int
    batches: int
    records: int
    wrong: tuple[str, ...]


@dataclass
class _Producer:
    """Writes changes without end, until it is closed. ``written`` counts records."""

    topics: Topics
    topic: str
    written: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> _Producer:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.5):
            self.topics.fill(self.topic, _SOME, _changes, first=self.written)
            self.written += _SOME


def run_with_kills(topics: Topics, kills: int, seed: int, limit: float, say: Callable[[str], None]) -> Outcome:
    """Kill ``penstock run`` and all its processes ``kills`` times, at random moments up to three seconds after its
    first commit or, each fourth time, before it; then let it finish, and compare its tables with a recomputation.

    The job groups rows whose groups change, and joins them with a table, in one transaction per batch. Raises
    TimeoutError if nothing is committed for ``limit`` seconds.
    """
    moments = random.Random(seed)
    source, users, totals, joined = (topics.create() for _ in range(4))
    topics.fill(users, _REGIONS, _names)
    amid = 0
    with tempfile.TemporaryDirectory(prefix="penstock-gate-") as folder:
        file, checkpoint = Path(folder, "job.sql"), Path(folder, "checkpoints", "gate")
        file.write_text(_job(topics.bootstrap, source, users, totals, joined, f"{folder}/checkpoints"))
        with _Producer(topics, source) as producer:
            for number in range(kills):
                length = topics.length(totals)
                with running(file, folder) as process:
                    if moments.random() < 0.25:
                        _wait(moments.uniform(0, 8))
                    else:
                        wait_until(partial(reaches, topics, totals, length + 1), process, limit)
                        _wait(moments.uniform(0, 3))
                under_way = checkpoint.exists() and not idle(checkpoint)
                amid += under_way
                when = "amid a batch" if under_way else "between batches"
                say(f"kill {number + 1}: {when}, {producer.written:,} records")
        since = topics.ends(joined)
        topics.fill(source, 8, _changes, first=producer.written)
        records = producer.written + 8
        with running(file, folder) as process:
            wait_until(partial(_is_consumed, topics, joined, since, records), process, limit)
            wait_until(lambda: idle(checkpoint), process, limit)
        batches = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")) + 1
    wrong = tuple(_differences(topics, totals, joined, records))
    for topic in (source, users, totals, joined):
        topics.drop(topic)
    return Outcome(kills, amid, batches, records, wrong)


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _job(bootstrap: str, source: str, users: str, totals: str, joined: str, folder: str) -> str:
    kafka = {"connector": "kafka", "properties.bootstrap.servers": bootstrap, "scan.startup.mode": "earliest-offset"}
    some = {"scan.max-records-per-trigger": str(_PER_BATCH)}
    sink = {"properties.bootstrap.servers": bootstrap}
    rows = "id BIGINT, region BIGINT, user_id BIGINT, amount DOUBLE"
    tables = [
        Source("src", f"{rows}, PRIMARY KEY (id, region) NOT ENFORCED", source, "debezium-json").statement(
            kafka | some
        ),
        Source(
            "users", "user_id BIGINT, name STRING, PRIMARY KEY (user_id) NOT ENFORCED", users, "debezium-json"
        ).statement(kafka),
        Source("totals", "user_id BIGINT, n BIGINT, s DOUBLE, PRIMARY KEY (user_id) NOT ENFORCED", totals).statement(
            upserts(totals) | sink
        ),
        Source("joined", f"{rows}, name STRING, PRIMARY KEY (id, region) NOT ENFORCED", joined).statement(
            upserts(joined) | sink
        ),
    ]
    inserts = (
        "INSERT INTO totals SELECT user_id, COUNT(*), SUM(amount) FROM src GROUP BY user_id;\n"
        "INSERT INTO joined SELECT f.id, f.region, f.user_id, f.amount, u.name FROM src AS f "
        "JOIN users AS u ON f.region = u.user_id;\n"
    )
    settings = {"execution.checkpointing.dir": folder, "pipeline.name": "gate"}
    return script(settings, tables) + f"BEGIN STATEMENT SET;\n{inserts}END;\n"


# --- the records, and what follows from them -------------------------------------------------------------------------


def _row(numbers: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64] | npt.NDArray[np.float64]]:
    """The rows after the changes with these numbers. Four rows are added, then the same four move to other groups."""
    ids = numbers % 4 + 4 * (numbers // 8)
    return {
        "id": ids,
        "region": ids % _REGIONS,
        "user_id": numbers * 2_654_435_761 % _USERS,
        "amount": numbers % 1000 / 4,
    }


def _changes(numbers: npt.NDArray[np.int64]) -> pa.BinaryArray:
    update = numbers // 4 % 2 == 1
    before = pc.if_else(pa.array(update), document(**_row(np.where(update, numbers - 4, 0))), "null")
    kind = pc.if_else(pa.array(update), "u", "c")
    parts = ['{"before":', before, ',"after":', document(**_row(numbers)), ',"op":"', kind, '"}']
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _names(numbers: npt.NDArray[np.int64]) -> pa.BinaryArray:
    rows = names(_REGIONS)(numbers).cast(pa.string())
    return pc.binary_join_element_wise('{"before":null,"after":', rows, ',"op":"c"}', "").cast(pa.binary())


def _is_consumed(topics: Topics, joined: str, since: dict[tuple[str, int], int], records: int) -> bool:
    """Whether the last row of each partition is in the joined table, after ``since``."""
    found = topics.rows(joined, since)
    last = _expected_join(records).column("id")[-4:]
    return found.num_rows > 0 and pc.all(pc.is_in(last, found.column("id").combine_chunks())).as_py()


def _expected_join(records: int) -> pa.Table:
    numbers = np.arange(records)
    row = _row(numbers[numbers // 4 % 2 == 1])
    name = pc.binary_join_element_wise("user ", pa.array(row["region"]).cast(pa.string()), "")
    return _sort(pa.table({**row, "name": name}), "id")


def _totals(records: int) -> pa.Table:
    groups = _expected_join(records).group_by("user_id").aggregate([("id", "count"), ("amount", "sum")])
    return _sort(groups.select(["user_id", "id_count", "amount_sum"]).rename_columns(["user_id", "n", "s"]), "user_id")


def _sort(table: pa.Table, key: str) -> pa.Table:
    return table.sort_by(key).combine_chunks()


def _differences(topics: Topics, totals: str, joined: str, records: int) -> list[str]:
    wrong = []
    for name, topic, key, wanted in (
        ("totals", totals, "user_id", _totals(records)),
        ("joined", joined, "id", _expected_join(records)),
    ):
        found = _sort(topics.rows(topic), key)
        if not found.equals(wanted):
            wrong.append(f"{name}: {found.num_rows:,} rows, {wanted.num_rows:,} are right, and they are not equal")
    return wrong
