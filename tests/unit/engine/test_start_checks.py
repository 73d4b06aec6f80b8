"""What ends a start before Spark is asked for. Here Spark would refuse: the environment asks for Spark Connect."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock import engine
from penstock.engine.checkpoint import job_location, read_location
from penstock.errors import CheckpointError, ExecutionError, UnsupportedError
from penstock.sql import parse_script

DATAGEN = "CREATE TABLE s (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');\n"
PRINT = "CREATE TABLE p (id INT) WITH ('connector' = 'print');\n"
INSERT = "INSERT INTO p SELECT id FROM s;"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch):
    """A session is refused, so that any other error has come before."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


@pytest.fixture
def job(tmp_path):
    """The job of a script, with its checkpoint below the test's folder."""

    def make(text=DATAGEN + PRINT + INSERT, **settings):
        (found,) = parse_script(text, file="a.sql", default_name="a").jobs
        given = {"checkpoint_dir": str(tmp_path / "checkpoints"), **settings}
        return replace(found, settings=replace(found.settings, **given))

    return make


def started_before(job, *, name="a", sources=("s",), source=None):
    """Write the checkpoint of a job that was started before."""
    checkpoint = read_location(job_location(job.settings.checkpoint_dir, job.name))
    known = {"job": name, "query_id": "q", "secret": "s", "sinks": [], "sources": list(sources)}
    checkpoint.write("job", known)
    if source is not None:
        checkpoint.write("source-0", source)


def test_a_job_without_mistakes_asks_for_spark(job):
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        engine.start(job())


def test_a_checkpoint_that_is_a_file(job, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(CheckpointError, match=rf"in the checkpoint '{file}/a' cannot be read: .*Not a directory"):
        engine.start(job(checkpoint_dir=str(file)))
    assert file.read_text() == "mine"


def test_a_checkpoint_that_cannot_be_written(job):
    with pytest.raises(CheckpointError, match=r"cannot write to the checkpoint '/proc/checkpoints/a': "):
        engine.start(job(checkpoint_dir="/proc/checkpoints"))


def test_looking_leaves_no_file_behind(job, tmp_path):
    with pytest.raises(UnsupportedError):
        engine.start(job())
    left = [each.name for each in (tmp_path / "checkpoints").rglob("*") if each.is_file()]
    assert sorted(left) == ["owner.1.json", "owner.lock"]  # which says that the job does not run any more


def test_the_checkpoint_of_another_job(job):
    mine = job()
    started_before(mine, name="other")
    with pytest.raises(CheckpointError, match="belongs to job 'other'"):
        engine.start(mine)


def test_a_damaged_checkpoint(job, tmp_path):
    offsets = tmp_path / "checkpoints" / "a" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n{}")
    with pytest.raises(CheckpointError, match=r"'metadata' in the checkpoint .* cannot be read: it is missing"):
        engine.start(job())


def test_a_checkpoint_of_more_sources(job):
    mine = job()
    started_before(mine, sources=("s", "t"))
    with pytest.raises(CheckpointError, match="this one has 1, 's'"):
        engine.start(mine)


def test_a_savepoint_that_is_not_there(job, tmp_path):
    with pytest.raises(CheckpointError, match=rf"'{tmp_path}/none' is not a savepoint"):
        engine.start(job(savepoint=str(tmp_path / "none")))


def test_a_savepoint_of_other_steps(job, tmp_path):
    place = read_location(str(tmp_path / "savepoint"))
    document = {"version": 1, "job": "a", "query_id": "q", "batch": 0, "state": "", "created_ms": 0}
    place.write("savepoint", {**document, "operators": ["group"], "sources": []})
    with pytest.raises(CheckpointError, match="the state of the step 'group', which the job does not have"):
        engine.start(job(savepoint=place.location))
    with pytest.raises(UnsupportedError):
        engine.start(job(savepoint=place.location, ignore_unclaimed_state=True))


class _NoRights(BaseHTTPRequestHandler):
    """A store that gives nothing to those without Spark's keys."""

    def do_HEAD(self):
        self.send_error(403)

    do_GET = do_HEAD


@pytest.fixture
def store(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), _NoRights) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "none")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield "s3://bucket/checkpoints"
        server.shutdown()


def test_a_checkpoint_to_which_only_spark_has_rights(job, store):
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        engine.start(job(checkpoint_dir=store))


@pytest.mark.parametrize("place", ["s3a://bucket/checkpoints", "store"])
def test_a_savepoint_that_is_gone_where_spark_alone_sees_whether_it_is_needed(job, request, place, tmp_path):
    if place == "store":
        place = request.getfixturevalue("store")
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        engine.start(job(checkpoint_dir=place, savepoint=str(tmp_path / "gone")))


def test_a_savepoint_that_is_gone_without_checkpoints(job, tmp_path):
    with pytest.raises(CheckpointError, match="is not a savepoint"):
        engine.start(job(checkpointing=False, savepoint=str(tmp_path / "gone")))


FILES = "CREATE TABLE s (id INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');\n"


def test_a_folder_that_is_not_there(job, tmp_path):
    with pytest.raises(ExecutionError, match=rf"path '{tmp_path}/none' cannot be read"):
        engine.start(job(FILES.format(path=tmp_path / "none") + PRINT + INSERT))


def test_a_folder_that_may_have_been_read_where_spark_alone_reads_the_checkpoint(job, tmp_path):
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        engine.start(job(FILES.format(path=tmp_path / "none") + PRINT + INSERT, checkpoint_dir="s3a://bucket/c"))


def test_another_folder_than_that_of_the_checkpoint(job, tmp_path):
    (tmp_path / "in").mkdir()
    mine = job(FILES.format(path=tmp_path / "in") + PRINT + INSERT)
    source = {"source": {"path": "local:/else"}, "files": []}
    started_before(mine, source=source)
    with pytest.raises(CheckpointError, match="belongs to another source than table 's': path was 'local:/else'"):
        engine.start(mine)
    assert json.loads((tmp_path / "checkpoints" / "a" / "penstock" / "source-0.json").read_text()) == source
