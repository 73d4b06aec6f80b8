"""A job with state, and what its tables and its state have to be: what a recomputation gives.

The job counts and sums up each key, and joins that with the first number of the key. It counts each key in tumbling
windows of event time, and keeps the keys with the three largest sums of each source partition: groups, a deduplication,
a join, windows, a Top-N over rows that change. It copies the records too, which the verifier counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from penstock.flow.state.inspection import read_rows, read_spec
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.progress import ProgressTopic, Seal, read_progress
from penstock.kafka.properties import READ_COMMITTED
from penstock.kafka.topics import create_topic
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial
from tests.faults.processes import JobProcess

__all__ = [
    "BATCHES",
    "finish",
    "identity_of",
    "manifest_of",
    "messages",
    "outcome",
    "sql_of",
    "state_of",
    "wrong_states",
]

#: Batches of a job, of which those from the third on merge segments.
BATCHES = 6
#: About so many windows are closed by a job.
_WINDOWS = 10
_BEST = 3

_FIRST = "SELECT k, n FROM (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS r FROM s) WHERE r = 1"
_JOINED = (
    "SELECT a.k, a.c, a.s, b.n FROM (SELECT k, COUNT(*) AS c, SUM(n) AS s FROM s GROUP BY k) AS a "
    f"JOIN ({_FIRST}) AS b ON a.k = b.k"
)
_SUMS = "SELECT SUBSTRING(k FROM 1 FOR 1) AS q, k, SUM(n) AS s FROM s GROUP BY k"
_TOP = (
    "SELECT q, r, k, s FROM (SELECT q, k, s, ROW_NUMBER() OVER (PARTITION BY q ORDER BY s DESC) AS r "
    f"FROM ({_SUMS})) WHERE r <= {_BEST}"
)


@dataclass(frozen=True)
class _Table:
    """A table that the job writes: its columns, how many of them, the first, are its key, and its query."""

    columns: str
    key: int
    query: str

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [each.split()[0] for each in self.columns.split(", ")]


def _tables(trial: Trial) -> dict[str, _Table]:
    """The tables that a job writes beside the copies."""
    windows = f"TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '{_width(trial) / 1000:.3f}' SECOND))"
    counted = f"SELECT k, window_start, COUNT(*), SUM(n) FROM {windows} GROUP BY k, window_start, window_end"
    return {
        "counts": _Table("k STRING, c BIGINT, s BIGINT, n BIGINT", 1, _JOINED),
        "windows": _Table("k STRING, w TIMESTAMP(3), c BIGINT, s BIGINT", 2, counted),
        "best": _Table("q STRING, r BIGINT, k STRING, s BIGINT", 2, _TOP),
    }


def _width(trial: Trial) -> int:
    """The milliseconds of a window: a record's number is its event time."""
    return max(1, trial.records // trial.source_partitions // _WINDOWS)


def sql_of(trial: Trial, *, parallelism: int = 2, batches: int = BATCHES) -> str:
    """The job."""
    head, insert, copied = trial.sql(keyed=True, batches=batches).partition("INSERT INTO")
    head = head.replace("'parallelism.default' = '2'", f"'parallelism.default' = '{parallelism}'")
    times = "p AS PROCTIME(), ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts"
    head = head.replace(") WITH (", f", {times}) WITH (", 1)
    tables = _tables(trial)
    declared = "".join(_declared(trial, name, table) for name, table in tables.items())
    inserts = "".join(f"INSERT INTO {name} {table.query};\n" for name, table in tables.items())
    return (
        f"SET 'table.local-time-zone' = 'UTC';\n{head}{declared}"
        f"EXECUTE STATEMENT SET BEGIN\n{insert}{copied}{inserts}END;\n"
    )


def _declared(trial: Trial, name: str, table: _Table) -> str:
    topic = f"{name}-{trial.tag}"
    if not trial.session.topics([topic]):
        create_topic(trial.session, topic, partitions=2)
    options = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": trial.cluster.bootstrap,
        "key.format": "json",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": trial.prefix,
    }
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    key = ", ".join(table.names[: table.key])
    return f"CREATE TABLE {name} ({table.columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH ({clause});\n"


# --- what must have come out -------------------------------------------------------------------------------------

Rows = Mapping[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class _Recomputed:
    """What the records in the input come to."""

    numbers: Mapping[str, list[int]]
    width: int

    @classmethod
    def of(cls, trial: Trial) -> _Recomputed:
        found: dict[str, list[int]] = defaultdict(list)
        for partition, count in trial.numbered.written.items():
            for number in range(count):
                found[f"{partition}-{number % 16}"].append(number)
        return cls(found, _width(trial))

    @property
    def tables(self) -> dict[str, Rows]:
        """The rows of each table, by their keys."""
        counts = {(key,): (len(each), sum(each), each[0]) for key, each in self.numbers.items()}
        windows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for key, numbers in self.numbers.items():
            for number in numbers:
                windows[key, number // self.width * self.width].append(number)
        windowed = {(key, _moment(start)): (len(each), sum(each)) for (key, start), each in windows.items()}
        best = {
            (first, rank): (key, total)
            for first, keys in self._ranked.items()
            for rank, (key, total) in enumerate(keys[:_BEST], 1)
        }
        return {"counts": counts, "windows": windowed, "best": best}

    @property
    def states(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of each table of the state, with the weights of those that have one."""
        groups = [(key, len(each), len(each), sum(each)) for key, each in self.numbers.items()]
        ranked = [(first, at < _BEST, *row) for first, keys in self._ranked.items() for at, row in enumerate(keys)]
        found = {
            "counts: group(s) groups": groups,
            "counts: deduplicate(s) seen": [(key,) for key in self.numbers],
            "counts: join(s) left": [(key, len(each), sum(each), 1) for key, each in self.numbers.items()],
            "counts: join(s) right": [(key, each[0], 1) for key, each in self.numbers.items()],
            "best: group(s) groups": groups,
            "best: rank(s) first rows": [(first, *row, 1) for first, best, *row in ranked if best],
            "best: rank(s) other rows": [(first, *row, 1) for first, best, *row in ranked if not best],
        }
        return {table: sorted(rows) for table, rows in found.items()}

    @property
    def _ranked(self) -> dict[str, list[tuple[str, int]]]:
        """Keys and their sums by source partition, those with the largest sums first."""
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for key, numbers in self.numbers.items():
            found[key[0]].append((key, sum(numbers)))
        return {first: sorted(each, key=lambda row: -row[1]) for first, each in found.items()}


def _moment(milliseconds: int) -> str:
    """As JSON has it."""
    return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(milliseconds=milliseconds))


def messages(trial: Trial, topic: str, *, keyed: bool = True) -> Iterator[tuple[Any, dict[str, Any] | None]]:
    """Keys and values of a topic, None for tombstones, in the order of each partition. Keys are JSON, if they are read
    (``keyed``)."""
    places = [(topic, each.partition) for each in trial.session.topic(topic).partitions]
    ends = list_offsets(trial.session, places, LATEST, isolation=READ_COMMITTED)
    ranges = [Range(*place, 0, end.offset) for place, end in ends.items() if end is not None and end.offset]
    for chunk in Fetcher(trial.session, ranges, isolation=READ_COMMITTED):
        for records in chunk.slices():
            for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True):
                yield json.loads(key) if keyed else key, json.loads(value or b"null")


def _written(trial: Trial) -> tuple[dict[str, Rows], int]:
    """The rows of each table that the job has written, by their keys; and how many messages tables of windows, which
    are never updated, have beyond one for each window."""
    found: dict[str, Rows] = {}
    repeated = 0
    for name, table in _tables(trial).items():
        rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for key, value in messages(trial, f"{name}-{trial.tag}"):
            place = tuple(_plain(key[each]) for each in table.names[: table.key])
            repeated += name == "windows" and place in rows
            if value is None:
                del rows[place]
            else:
                rows[place] = tuple(value[each] for each in table.names[table.key :])
        found[name] = rows
    return found, repeated


def _plain(value: Any) -> Any:
    return str(datetime.fromisoformat(value)) if isinstance(value, str) and value.startswith("19") else value


def identity_of(job: JobProcess) -> str:
    """The transactional id of a job, by its checkpoint."""
    (found,) = (job.checkpoint / job.name / "penstock").glob("identity-*.1.json")
    return str(json.loads(found.read_text())["content"]["transactional_id"])


def manifest_of(trial: Trial, job: JobProcess) -> Manifest:
    """The manifest that the job's progress refers to."""
    identity = json.loads((job.checkpoint / job.name / "penstock" / "job.json").read_text())
    partitions = len(trial.session.topic(PROGRESS).partitions)
    topic = ProgressTopic(PROGRESS, None, partitions, seal=Seal(identity["query_id"], identity["secret"]))
    progress = read_progress(trial.session, topic, identity_of(job)).progress
    assert progress is not None
    return Manifest.read(_storage(job), progress.state)


def _storage(job: JobProcess) -> Storage:
    return Storage.from_uri(str(state_of(job)))


def state_of(job: JobProcess) -> Path:
    """The folder of the job's state."""
    return job.checkpoint / job.name / "state"


def _kept(trial: Trial, job: JobProcess) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table of the state, by the operator's uid and the table's name."""
    storage, found = _storage(job), dict[str, list[tuple[Any, ...]]]()
    for uid, tables in manifest_of(trial, job).operators.items():
        for table, refs in tables.items():
            spec = read_spec(storage, refs, table, uid)
            if spec is not None:
                batches = read_rows(storage, refs, spec, uid)
                found[f"{uid} {table}"] = sorted(tuple(row.values()) for each in batches for row in each.to_pylist())
    return found


def wrong_states(trial: Trial, job: JobProcess) -> list[str]:
    """What is wrong with the state of a job that has read all records."""
    expected, states = _Recomputed.of(trial), _kept(trial, job)
    return [
        *_differences(
            "state",
            {name: dict.fromkeys(rows) for name, rows in states.items()},
            {name: dict.fromkeys(rows) for name, rows in expected.states.items()},
        ),
        *(f"the state '{name}' has a row twice" for name, rows in states.items() if len(set(rows)) < len(rows)),
    ]


def outcome(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """The verdict on the copies, and the tables and the state beside a recomputation."""
    expected = _Recomputed.of(trial)
    tables, repeated = _written(trial)
    problems = [
        *_differences("table", tables, expected.tables),
        *wrong_states(trial, job),
        *([f"{repeated} windows are written again"] if repeated else []),
    ]
    found = trial.outcome(job, stop=stop, problem="; ".join(problems))
    if problems or not found.hit:
        return found
    rows, kept = (sum(map(len, each.values())) for each in (expected.tables, expected.states))
    return replace(found, hit=f"{found.hit}; {rows} rows of tables and {kept} of the state as recomputed")


def _differences(kind: str, found: Mapping[str, Rows], expected: Mapping[str, Rows]) -> Iterator[str]:
    for name in sorted(expected.keys() | found.keys()):
        mine, right = found.get(name, {}), expected.get(name, {})
        wrong = [key for key in {**right, **mine} if key not in mine or key not in right or mine[key] != right[key]]
        if wrong:
            first = wrong[0]
            yield (
                f"{len(wrong)} rows of the {kind} '{name}' are wrong, of {len(right)}: {first} is "
                f"{mine.get(first, 'missing')}, not {right.get(first, 'there')}"
            )


def finish(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """Start the job, which has to come to its end, and look at what it has made."""
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return outcome(trial, job, stop=stop)
