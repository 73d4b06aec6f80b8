"""Random pipelines whose tables and definitions change, killed at any moment and started again: what they give is what
they give when nobody kills them."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from tests.unit.ingest.kill_mutants import MUTANTS
from tests.unit.ingest.killed_jobs import Definition, DurableJob
from tests.unit.ingest.killed_sinks import System, Tables, Topics
from tests.unit.ingest.kills import POINTS, Killed, KillPlan
from tests.unit.ingest.pipelines import Message

_SEEDS = [int(each) for each in os.environ.get("SEEDS", "50").split(":")]
_MOST_KILLS = 4
#: So many pipelines are looked through for one that reaches a point, or needs a safeguard.
_MOST_SEEDS = 40

SOURCE = """
source:
  type: kafka
  topic: t
  value.format: debezium-json
  properties.bootstrap.servers: localhost:9092
  scan.startup.mode: earliest-offset
"""
ROUTES = (
    "",
    "route:\n  - source-table: shop.(a|b)\n    sink-table: shop.both\n",
    "route:\n  - source-table: shop.\\.*\n    sink-table: all.<>\n    replace-symbol: <>\n"
    "  - source-table: shop.b\n    sink-table: shop.extra\n",
)
#: Pairs of projections, of which the second computes more.
PROJECTIONS = (
    ("\\*", "\\*, UPPER(name) AS loud"),
    ("\\*, UPPER(name) AS loud", "\\*, UPPER(name) AS loud, CHAR_LENGTH(name) AS size, id * 2 AS twice"),
    ("\\*", "\\*, CHAR_LENGTH(name) AS size, __table_name__ AS origin"),
)
BEHAVIORS = ("evolve", "try_evolve", "lenient")


def random_definitions(rng: random.Random, system: System, batches: int) -> list[Definition]:
    """A pipeline, and perhaps another definition of it, which begins with a later batch."""
    rigid = isinstance(system, Tables) and system.rigid
    first, second = rng.choice(PROJECTIONS)
    rule = f"    filter: id > {rng.choice([0, 0, 5])}\n" if rng.random() < 0.5 else ""
    rest = rng.choice(ROUTES) + f"pipeline:\n  schema.change.behavior: {rng.choice(BEHAVIORS[rigid:])}\n"
    source = SOURCE + ("  ingestion.ignore-errors: true\n" if rigid else "")  # values that do not fit are left out

    def text(projection: str) -> str:
        transform = f"transform:\n  - source-table: shop.\\.*\n    projection: {projection}\n    primary-keys: id\n"
        return source + system.text + transform + rule + rest

    changed = [Definition(rng.randrange(1, batches), text(second))] if batches > 1 and rng.random() < 0.7 else []
    return [Definition(0, text(first)), *changed]


def random_value(rng: random.Random, kind: str) -> Any:
    """A value of one kind, or null."""
    values = {
        "whole": rng.randrange(100),
        "fraction": rng.randrange(100) / 8,
        "boolean": rng.random() < 0.5,
        "date": f"2026-01-{rng.randrange(1, 29):02}",
        "text": rng.choice(["", "a", "ä"]),
    }
    return None if rng.random() < 0.1 else values[kind]


KINDS = ("whole", "whole", "fraction", "boolean", "date", "text")


def random_messages(rng: random.Random) -> list[Message]:
    """Events of tables whose columns and types change now and then."""
    columns: dict[str, dict[str, str]] = {table: {} for table in rng.sample(["a", "b", "c"], rng.randint(1, 3))}
    messages = []
    for _ in range(rng.randrange(5, 60)):
        table = rng.choice(list(columns))
        kinds = columns[table]
        while rng.random() < 0.12:
            kinds[f"c{rng.randrange(6)}"] = rng.choice(KINDS)
        if kinds and rng.random() < 0.04:
            del kinds[rng.choice(list(kinds))]

        def row(kinds: dict[str, str] = kinds) -> dict[str, Any]:
            found = {name: random_value(rng, kind) for name, kind in kinds.items()}
            return {"id": rng.randrange(20), "name": rng.choice(["ann", "bob"]), **found}

        op = rng.choice("cccurd")
        before, after = (None if op in "cr" else row()), (None if op == "d" else row())
        event = {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}}
        messages.append(Message(event, "t", rng.randrange(3)))
    return messages


def random_batches(rng: random.Random) -> list[list[Message]]:
    """Events in batches."""
    left, batches = random_messages(rng), []
    while left:
        size = rng.choice([1, 3, 8, 20])
        batches.append(left[:size])
        left = left[size:]
    return batches


def make_job(seed: int, folder: Path, kind: type[System], number: int = 0) -> DurableJob:
    """The job of a seed, before its first run. Its tasks are other ones with another ``number``."""
    rng = random.Random(seed)
    batches = random_batches(rng)
    system = kind()
    if isinstance(system, Tables):
        system.rigid = rng.random() < 0.25
    definitions = random_definitions(rng, system, len(batches))
    ahead = rng.choice([0, 0, 50])
    return DurableJob(folder, system, definitions, batches, random.Random(f"{seed}-{number}"), ahead)


def run_unharmed(seed: int, folder: Path, kind: type[System]) -> tuple[DurableJob, list[KillPlan]]:
    """The job of a seed at its end, and what each of its runs has reached."""
    job, plans = make_job(seed, folder, kind), []
    while not job.is_done:
        plans.append(KillPlan())
        job.run(plans[-1])
    assert any(job.system.rows().values())
    return job, plans


def run_killed(seed: int, folder: Path, kind: type[System], plans: Sequence[KillPlan]) -> tuple[DurableJob, list[str]]:
    """The job of a seed at its end, after runs with these plans, and where it was killed."""
    job, left, hit = make_job(seed, folder, kind, 1), list(plans), []
    while not job.is_done:
        plan = left.pop(0) if left else KillPlan()
        try:
            job.run(plan)
        except Killed as killed:
            hit.append(str(killed))
    return job, hit


def check_same(seed: int, job: DurableJob, unharmed: DurableJob, hit: Sequence[str]) -> None:
    """Raise AssertionError where a job that was killed has come to another end."""
    found, wanted = job.result(), unharmed.result()
    for name in wanted:
        assert found[name] == wanted[name], f"seed {seed}, {name} after kills at {hit}"


def random_kills(rng: random.Random, plans: Sequence[KillPlan]) -> list[KillPlan]:
    """Some kills, the first of which hits: in a run without kills, the same one has reached the point."""
    point = rng.choice([each for each in POINTS if any(plan.reached[each] for plan in plans)])
    run = rng.choice([at for at, plan in enumerate(plans) if plan.reached[point]])
    first = KillPlan(point, rng.randint(1, plans[run].reached[point]))
    more = (KillPlan(rng.choice(POINTS), rng.randint(1, 3)) for _ in range(rng.randrange(_MOST_KILLS)))
    return [*(KillPlan() for _ in range(run)), first, *more]


def kills_at(point: str, plans: Sequence[KillPlan]) -> list[KillPlan]:
    """One kill at each turn of a point, one after the other, as far as runs without kills have reached it."""
    run = next((at for at, plan in enumerate(plans) if plan.reached[point]), None)
    if run is None:
        return []
    return [*(KillPlan() for _ in range(run)), *(KillPlan(point, turn) for turn in range(1, 4))]


@pytest.mark.rule("progress decides")
@pytest.mark.rule("state commits with the output")
@pytest.mark.parametrize("seed", range(*_SEEDS))
def test_a_killed_pipeline_gives_what_it_gives_unharmed(tmp_path, seed):
    kind = (Topics, Tables)[seed % 2]
    unharmed, plans = run_unharmed(seed, tmp_path / "unharmed", kind)
    job, hit = run_killed(seed, tmp_path / "killed", kind, random_kills(random.Random(f"kills {seed}"), plans))
    assert hit, "no kill has hit"
    check_same(seed, job, unharmed, hit)


#: Topics are made one at a time.
_OF_TOPICS = [each for each in POINTS if not each.startswith("amid the DDL")]


@pytest.mark.parametrize(
    ("kind", "point"), [(Topics, each) for each in _OF_TOPICS] + [(Tables, each) for each in POINTS]
)
def test_a_pipeline_can_be_killed_at_each_point(tmp_path, point, kind):
    for seed in range(_MOST_SEEDS):
        unharmed, plans = run_unharmed(seed, tmp_path / f"unharmed-{seed}", kind)
        if kills := kills_at(point, plans):
            break
    job, hit = run_killed(seed, tmp_path / "killed", kind, kills)
    assert point in hit, f"none of {_MOST_SEEDS} pipelines has reached it"
    check_same(seed, job, unharmed, hit)
    if kind is Tables and point.startswith(("amid the DDL", "after the DDL")):
        assert job.system.repeated, "no change has come again"


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_kills_notice_when_a_safeguard_is_missing(tmp_path, name):
    mutant = MUTANTS[name]
    for seed in range(_MOST_SEEDS):
        unharmed, plans = run_unharmed(seed, tmp_path / f"unharmed-{seed}", Tables)
        if mutant.rigid and not any(each.outcome for each in unharmed.history()):
            continue
        for at, kills in enumerate([kills_at(each, plans) for each in mutant.points] or [[]]):
            with mutant.at_work():
                told = notice(seed, tmp_path / f"mutant-{seed}-{at}", kills, unharmed)
            if told:
                assert not notice(seed, tmp_path / "original", kills, unharmed), "not for want of the safeguard"
                return
    pytest.fail(f"none of {_MOST_SEEDS} pipelines has noticed")


def notice(seed: int, folder: Path, kills: Sequence[KillPlan], unharmed: DurableJob) -> str:
    """What is wrong with a job after kills."""
    try:
        job, hit = run_killed(seed, folder, type(unharmed.system), kills)
        check_same(seed, job, unharmed, hit)
    except (AssertionError, PenstockError) as error:
        return str(error)
    return ""
