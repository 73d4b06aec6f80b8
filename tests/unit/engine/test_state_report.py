"""What becomes of the state of a changed job, told before Spark is asked for. Here Spark would refuse: the environment
asks for Spark Connect."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock import engine
from penstock.cli.main import main
from penstock.engine.checkpoint import job_location, read_location
from penstock.engine.checkpoint.committed import STATE, write_state
from penstock.engine.checkpoint.savepoints import origin_of, write_savepoint
from penstock.engine.checkpoint.state_report import claimed_steps, fitting_of, state_report
from penstock.errors import CheckpointError, UnsupportedError
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.segments import END, SegmentRef
from penstock.flow.state.storage import Storage
from penstock.plan.nodes import Job
from penstock.plan.planning import plan_job
from penstock.spi import Batch
from penstock.sql import parse_script

pytestmark = pytest.mark.rule("look before taking over")

SQL = """
CREATE TABLE orders (customer STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'number-of-rows' = '3', 'fields.ts.max-past' = '10 s');
CREATE TABLE per_minute (customer STRING, n BIGINT, total DECIMAL(38, 2))
  WITH ('connector' = 'print');
INSERT INTO per_minute SELECT customer, COUNT(*), SUM(amount) FROM orders
  GROUP BY customer, TUMBLE(ts, INTERVAL '1' MINUTE);
"""
STEP = "per_minute: window(orders)"
LONGER = SQL.replace("INTERVAL '1' MINUTE", "INTERVAL '2' MINUTE")
CHANGED = "the window was TUMBLE(ts, 1 min), and is TUMBLE(ts, 2 min)"


def job_of(text: str, folder: Path) -> Job:
    (found,) = parse_script(text, file="a.sql", default_name="a").jobs
    return plan_job(replace(found, settings=replace(found.settings, checkpoint_dir=str(folder))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoints of a job that has a window open."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    save(job_of(SQL, tmp_path), "groups@120000")
    return tmp_path


def save(job: Job, table: str, *, identities: bool = True) -> None:
    """Write the checkpoint of a job whose steps keep a row each."""
    place = read_location(job_location(job.settings.checkpoint_dir, job.name))
    storage = Storage.from_uri(place.folder(STATE))
    storage.write("rows", [b"rows"])
    fitting = fitting_of(job, Manifest())
    tables = {table: (SegmentRef("rows", 0, 4, 1, 0, END, 1, "keyed"),)}
    known = {"identities": fitting.identities, "measures": fitting.measures} if identities else {}
    manifest = Manifest(7, dict.fromkeys(fitting.steps, tables), **known)
    place.write("job", {"job": job.name, "query_id": "q", "secret": "s", "sinks": [], "sources": ["orders"]})
    write_state(place, Batch(7, (None,), ({},), 1), manifest.write(storage, "7.manifest"))


def checked(tmp_path: Path, text: str, *options: str, command: str = "check") -> int:
    file = tmp_path / "a.sql"
    file.write_text(text)
    return main([command, str(file), "--checkpoint-dir", str(tmp_path), *options])


def test_check_says_what_becomes_of_the_state(folder, capsys):
    assert checked(folder, SQL) == 0
    assert f"state of the checkpoint '{folder}/a', after batch 7:\n    '{STEP}' keeps its state\n" in (
        capsys.readouterr().out
    )
    assert checked(folder, LONGER) == 1
    shown = capsys.readouterr()
    assert f"    '{STEP}' is refused: {CHANGED}\n" in shown.out
    assert shown.err == (
        f"error: the checkpoint '{folder}/a': the state of '{STEP}' does not fit the job: {CHANGED}. Undo the change; "
        f"or let the step begin empty with --reset-state '{STEP}' (docs/changed-queries.md says what that means "
        "for the tables that are written); or start with another checkpoint directory\n"
    )


@pytest.mark.parametrize("option", [("--reset-state", STEP), ("-D", f"penstock.reset-state={STEP}")])
def test_check_lets_a_step_begin_empty_that_does_not_fit(folder, capsys, option):
    assert checked(folder, LONGER, *option) == 0
    assert f"    '{STEP}' starts empty: its state is dropped ({CHANGED})\n" in capsys.readouterr().out
    assert checked(folder, SQL, *option) == 0
    assert f"    '{STEP}' keeps its state\n" in capsys.readouterr().out


def test_a_name_that_is_not_that_of_a_step_is_told(folder, capsys):
    assert checked(folder, SQL, "--reset-state", "per_hour") == 0
    assert "    'per_hour' is neither a step nor a state: --reset-state has no effect\n" in capsys.readouterr().out


def test_check_finds_the_checkpoint_by_the_name_of_the_job(folder, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    (folder / "penstock" / "checkpoints").mkdir(parents=True)
    (folder / "a").rename(folder / "penstock" / "checkpoints" / "a")
    file = folder / "a.sql"
    file.write_text(LONGER)
    assert main(["check", str(file)]) == 1
    assert main(["check", str(file), "-D", "pipeline.name=b"]) == 0
    assert "does not fit" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LONGER, CHANGED),
        (
            SQL.replace("SUM(amount)", "MAX(amount)"),
            r"aggregates were COUNT\(\*\), SUM\(amount\), and are COUNT\(\*\), MAX",
        ),
        (SQL.replace("orders", "sales"), r"has state of 'per_minute: window\(orders\)', which the job does not have"),
        (
            SQL.split("INSERT", maxsplit=1)[0] + "INSERT INTO per_minute SELECT customer, 1, amount FROM orders;",
            "does not have any",
        ),
    ],
)
def test_a_start_is_refused_before_spark_is_asked_for(folder, text, message):
    with pytest.raises(CheckpointError, match=message.replace("(ts", r"\(ts").replace("min)", r"min\)")):
        engine.start(job_of(text, folder))


def test_a_job_without_steps_drops_the_state_that_there_is(folder, capsys):
    text = SQL.split("INSERT", maxsplit=1)[0] + "INSERT INTO per_minute SELECT customer, 1, amount FROM orders;"
    with pytest.raises(CheckpointError, match=rf"or begin without this state with --reset-state '{re.escape(STEP)}'"):
        engine.start(job_of(text, folder))
    assert checked(folder, text) == 1
    assert f"    '{STEP}' has state, but the job no longer has this step\n" in capsys.readouterr().out
    assert checked(folder, text, "--reset-state", STEP) == 0
    assert f"    '{STEP}' starts empty: its state is dropped (the job does not have it any more)\n" in (
        capsys.readouterr().out
    )


def test_metadata_is_known_by_its_key(tmp_path):
    """The name of the column says nothing."""
    text = """
    CREATE TABLE orders (id BIGINT, place BIGINT METADATA FROM '{}') WITH ('connector' = 'kafka', 'topic' = 'orders',
      'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
    CREATE TABLE places (id BIGINT, place BIGINT) WITH ('connector' = 'print');
    INSERT INTO places SELECT id, MAX(place) FROM orders GROUP BY id;
    """
    save(job_of(text.format("offset"), tmp_path), "groups")
    report = state_report(job_of(text.format("partition"), tmp_path))
    assert [each.fate for each in report.verdicts] == ["refused"]
    assert report.verdicts[0].changes == ("MAX(`orders`.`place` METADATA FROM 'partition') is new",)


def test_a_start_says_what_becomes_of_the_state(folder):
    said: list[str] = []
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        engine.start(job_of(SQL, folder), say=said.append)
    title = f"job 'a': state of the checkpoint '{folder}/a', after batch 7:"
    assert said[-2:] == [title, f"job 'a': step '{STEP}' keeps its state"]
    warned: list[str] = []
    job = job_of(LONGER, folder)
    job = replace(job, settings=replace(job.settings, reset_state=(STEP,)))
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        engine.start(job, warned.append)
    assert warned == [f"job 'a': step '{STEP}' starts empty: its state is dropped ({CHANGED})"]


def test_a_savepoint_is_looked_at_where_the_job_is_new(folder, capsys):
    savepoint = folder / "savepoint"
    place = read_location(str(folder / "a"))
    write_savepoint(place, read_location(str(savepoint)))
    others = folder / "others"
    others.mkdir()
    renamed = SQL.replace("orders", "sales")
    for text, options, status, said in (
        (SQL, (), 0, f"'{STEP}' keeps its state"),
        (LONGER, (), 1, f"'{STEP}' is refused: {CHANGED}"),
        (LONGER, ("--reset-state", STEP), 0, f"'{STEP}' starts empty: its state is dropped"),
        (renamed, (), 1, f"'{STEP}' has state, but the job no longer has this step"),
        (renamed, ("--allow-non-restored-state",), 0, f"'{STEP}' starts empty: its state is dropped"),
        (
            renamed,
            ("--reset-state", STEP),
            0,
            "'per_minute: window(sales)' starts empty: it is new, or has kept nothing so far",
        ),
    ):
        assert checked(others, text, "--from", str(savepoint), *options) == status
        shown = capsys.readouterr().out
        assert f"state of the savepoint '{savepoint}', after batch 7:" in shown
        assert said in shown


COUNTS = """
CREATE TABLE orders (customer STRING, n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE counts (customer STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO counts SELECT {} FROM orders GROUP BY customer;
"""
BOTH = COUNTS.format("customer, COUNT(*)").replace("INSERT", "EXECUTE STATEMENT SET BEGIN INSERT") + (
    "INSERT INTO counts SELECT customer, SUM(n) FROM orders GROUP BY customer; END;"
)


def test_a_step_of_a_savepoint_is_found_when_its_number_changes(folder, capsys):
    """The other step of its name is gone, and is left out."""
    shutil.rmtree(folder / "a")
    save(job_of(BOTH, folder), "groups")
    savepoint, new = folder / "savepoint", read_location(str(folder / "new"))
    write_savepoint(read_location(str(folder / "a")), read_location(str(savepoint)))
    sums = job_of(COUNTS.format("customer, SUM(n)"), folder / "others")
    found = claimed_steps(sums, str(savepoint))
    assert found == {"counts: group(orders) 2"}
    left = ("--from", str(savepoint), "--allow-non-restored-state")
    (folder / "others").mkdir()
    assert checked(folder / "others", COUNTS.format("customer, SUM(n)"), *left) == 0
    assert "'counts: group(orders)' keeps its state (it was called 'counts: group(orders) 2')" in (
        capsys.readouterr().out
    )
    origin = origin_of(read_location(str(savepoint)), new, found, ["orders"], allow_non_restored=True, warn=print)
    storage = Storage.from_uri(new.folder(STATE))
    begun = Manifest.read(storage, origin["state"])
    assert set(begun.operators) == set(begun.identities) == found
    verdicts = fitting_of(sums, begun).verdicts(begun, storage)
    assert [(each.uid, each.fate) for each in verdicts] == [("counts: group(orders)", "kept")]


def test_a_window_of_which_nothing_is_open_starts_empty(folder):
    job = job_of(SQL, folder)
    place = read_location(job_location(str(folder), job.name))
    storage = Storage.from_uri(place.folder(STATE))
    fitting = fitting_of(job, Manifest())
    closed = Manifest(8, {uid: {} for uid in fitting.steps}, identities=fitting.identities)
    write_state(place, Batch(8, (None,), ({},), 1), closed.write(storage, "8.manifest"))
    report = state_report(job_of(LONGER, folder))
    assert [each.fate for each in report.verdicts] == ["empty"]
    assert report.verdicts[0].describe() == f"'{STEP}' starts empty: it keeps no rows now, and has changed ({CHANGED})"
