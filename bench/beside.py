"""This penstock beside another checkout of it: the same jobs on both, in turn, in one run on one broker.

Each side is a process that stays, in its own virtual environment. A round runs a job once on each side, and the next
round begins with the other one, so that a machine whose speed drifts is the same for both. The first round warms up.
Above 1 this penstock is faster: the median over rounds of the other's seconds by ours, and of processor seconds.

Usage: ``python -m bench.beside CHECKOUT [--only TEXT,TEXT] [--rounds N]``; ``CHECKOUT`` is a folder with ``.venv``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.batch import QUERIES, batch_script, write_tables
from bench.gate.queries import BOUNDED, Query, changed_groups, groups, join, script
from bench.gate.sides import Run, Side
from bench.gate.topics import Documents, Topics, changes, facts, names
from bench.nexmark.events import SHARES, Events
from bench.nexmark.queries import TABLES
from bench.outputs import outputs_script
from bench.peers.works import PLAIN, Work
from penstock_testing.services import KafkaCluster

NEXMARK = ("q0", "q4", "q5", "q8", "q9", "q20")
#: Numbers of INSERTs of one statement set.
OUTPUTS = (1, 10, 100)
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Case:
    """A job: ``sql`` makes its text from a new topic and a new folder."""

    name: str
    records: int
    sql: Callable[[str, str], str]


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    sides = {name: _side(path.resolve()) for name, path in (("this", _ROOT), ("other", arguments.checkout))}
    found: dict[str, tuple[int, list[tuple[Run, Run]]]] = {}
    with (
        KafkaCluster(brokers=1, properties={"file.delete.delay.ms": "1000"}) as cluster,
        tempfile.TemporaryDirectory(prefix="penstock-beside-") as folder,
    ):
        topics = Topics.of(cluster.bootstrap)
        try:
            for case in Cases(topics, arguments, Path(folder)).select():
                found[case.name] = case.records, list(_rounds(case, sides, topics, arguments))
                print(_line(case.name, *found[case.name]), flush=True)
        finally:
            for side in sides.values():
                side.close()
        if arguments.latency:
            _latency(cluster.bootstrap, arguments)
    if arguments.json:
        document = {
            name: {"records": records, "seconds": [(a.seconds, b.seconds) for a, b in runs]}
            for name, (records, runs) in found.items()
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.beside", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="the folder of the other penstock, with its .venv")
    parser.add_argument("--records", type=int, default=1_000_000, help="of each job from topics, a multiple of 8")
    parser.add_argument("--events", type=int, default=1_000_000, help="of Nexmark, a multiple of 50")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of jobs in batch mode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warmups", type=int, default=1, help="rounds before these: first jobs pay the JVM's compiler")
    parser.add_argument("--only", help="comma-separated parts of names of jobs")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs, and end")
    parser.add_argument("--latency", action="store_true", help="the delay of records at 1,000 records/s, too")
    parser.add_argument("--seconds", type=float, default=30.0, help="of --latency, after a warm-up")
    parser.add_argument("--json", type=Path, help="write the seconds to this file")
    return parser.parse_args()


def _side(checkout: Path) -> Side:
    python = checkout / ".venv/bin/python"
    if not python.exists():
        sys.exit(f"{checkout} has no .venv: run 'make setup' there")
    return Side(str(checkout), ["env", "-C", str(checkout), str(python), "-m", "bench.gate.penstock_side"])


def _rounds(
    case: Case, sides: Mapping[str, Side], topics: Topics, given: argparse.Namespace
) -> Iterator[tuple[Run, Run]]:
    """The runs of this penstock and of the other, in pairs."""
    for number in range(given.warmups + given.rounds):
        runs: dict[str, Run] = {}
        for name in sorted(sides, reverse=number % 2 == 0):
            target = topics.create()
            with tempfile.TemporaryDirectory(prefix="penstock-beside-") as folder:
                runs[name] = sides[name].run({"sql": case.sql(target, folder)})
            topics.drop(target)
        if number >= given.warmups:
            yield runs["this"], runs["other"]


def _line(name: str, records: int, runs: Sequence[tuple[Run, Run]]) -> str:
    ratios = [other.seconds / this.seconds for this, other in runs]
    cpu = statistics.median(other.cpu for _, other in runs) / statistics.median(this.cpu for this, _ in runs)
    this, other = (statistics.median(run[side].seconds for run in runs) for side in (0, 1))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return (
        f"{name:<34} {statistics.median(ratios):5.2f} ({spread}), CPU {cpu:4.2f}: "
        f"{this:.2f} s and {other:.2f} s, {records / this:,.0f} records/s"
    )


def _latency(bootstrap: str, arguments: argparse.Namespace) -> None:
    for checkout in (_ROOT, arguments.checkout.resolve()):
        command = [".venv/bin/python", "-m", "bench.latency", "--bootstrap", bootstrap]
        command += ["--seconds", str(arguments.seconds)]
        said = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout
        print(f"{checkout.name}: {''.join(re.findall('p50.*', said))}", flush=True)


@dataclass
class Cases:
    """The jobs, whose records are written when they are wanted."""

    topics: Topics
    arguments: argparse.Namespace
    folder: Path

    def __post_init__(self) -> None:
        self._plain: str | None = None
        self._events: dict[str, str] = {}

    def select(self) -> Iterator[Case]:
        """Those that are chosen, in their order."""
        makers: dict[str, Callable[[str], Case]] = {
            **dict.fromkeys(PLAIN, self._work),
            **dict.fromkeys(self._queries, self._query),
            **{f"nexmark_{query}": self._nexmark for query in NEXMARK},
            **{f"batch: {query}": self._batch for query in QUERIES},
            **{f"outputs: {count}": self._outputs for count in OUTPUTS},
        }
        parts = self.arguments.only.split(",") if self.arguments.only else [""]
        for name, make in makers.items():
            if any(part in name for part in parts):
                if self.arguments.list:
                    print(name)
                else:
                    yield make(name)

    # --- from topics ---

    def _plain_records(self) -> str:
        self._plain = self._plain or self.topics.make_plain(self.arguments.records)
        return self._plain

    def _work(self, name: str) -> Case:
        return self._case(Work(name, self.arguments.records, {"src": self._plain_records()}))

    def _nexmark(self, name: str) -> Case:
        events = self.arguments.events
        for table in TABLES if not self._events else ():
            self._events[table] = self.topics.create()
            count = events * SHARES[table] // sum(SHARES.values())
            self.topics.fill(self._events[table], count, lambda at, table=table: Events().documents(table, at))
        return self._case(Work(name, events, self._events))

    def _case(self, work: Work) -> Case:
        return Case(
            work.name,
            work.records,
            lambda target, folder: _text(folder, work.statements(self.topics.bootstrap, target, {})),
        )

    @property
    def _queries(self) -> Mapping[str, Callable[[str], Query]]:
        records = self.arguments.records
        half = records // 2

        def write_topic(count: int, documents: Documents) -> str:
            name = self.topics.create()
            self.topics.fill(name, count, documents)
            return name

        return {
            "GROUP BY, a million keys": lambda name: groups(name, self._plain_records(), "user_id", records),
            "GROUP BY, 1,000 keys": lambda name: groups(name, self._plain_records(), "category_id", records),
            "GROUP BY over changes": lambda name: changed_groups(
                name, write_topic(records, changes(records, max(1, half))), records
            ),
            "regular join": lambda name: join(
                name, write_topic(half, facts(half, half)), write_topic(half, names(half)), records
            ),
        }

    def _query(self, name: str) -> Case:
        query = self._queries[name](name)
        return Case(
            name,
            query.records,
            lambda target, folder: _text(folder, query.statements(self.topics.bootstrap, target, BOUNDED, {})),
        )

    def _outputs(self, name: str) -> Case:
        """One statement set that spreads the records over so many tables."""
        count, source = int(name.rsplit(maxsplit=1)[-1]), self._plain_records()

        def sql(target: str, folder: str) -> str:
            return outputs_script(self.topics.bootstrap, source, [target] * count, folder)

        return Case(name, self.arguments.records, sql)

    # --- from files ---

    def _batch(self, name: str) -> Case:
        if not (self.folder / "given").exists():
            write_tables(self.folder, self.arguments.rows)

        def sql(_: str, folder: str) -> str:
            for each in ("out", "checkpoint"):
                shutil.rmtree(self.folder / each, ignore_errors=True)
            return batch_script(self.folder, QUERIES[name.removeprefix("batch: ")])

        return Case(name, self.arguments.rows, sql)


def _text(folder: str, statements: Sequence[str]) -> str:
    return script({"execution.checkpointing.dir": folder}, statements)


if __name__ == "__main__":
    sys.exit(main())
