"""The checkpoint's files: what is read back, what is refused, and what a crash or a full disk leaves."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from penstock.engine.checkpoint import JobCheckpoint, default_location
from penstock.engine.checkpoint.arrow import ArrowFiles
from penstock.engine.checkpoint.hadoop import hadoop_errors
from penstock.engine.checkpoint.local import LocalFiles
from penstock.errors import CheckpointError, CheckpointUnavailableError


@pytest.fixture
def checkpoint(tmp_path):
    return JobCheckpoint(str(tmp_path), LocalFiles(tmp_path))


def plan(folder, batch, *positions):
    """An offset log's entry as Spark writes it."""
    (folder / "offsets").mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps(each) for each in positions)]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def commit(folder, batch):
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


# --- what a start reads --------------------------------------------------------------------------------------


def test_a_whole_checkpoint_passes(checkpoint, tmp_path):
    checkpoint.check()  # a new one
    (tmp_path / "metadata").write_text('{"id":"5e1b"}')
    checkpoint.check()
    plan(tmp_path, 0, {"t": {}})
    commit(tmp_path, 0)
    checkpoint.check()


@pytest.mark.parametrize("content", [None, "", '{"id":"5e', "[]", "{}"])
def test_a_damaged_or_missing_metadata_file_is_named(checkpoint, tmp_path, content):
    plan(tmp_path, 0, {"t": {}})
    if content is not None:
        (tmp_path / "metadata").write_text(content)
    with pytest.raises(CheckpointError, match=r"'metadata' in the checkpoint .* cannot be read: .*; restore the file"):
        checkpoint.check()


# --- documents -----------------------------------------------------------------------------------------------


def test_a_document_is_read_as_it_was_written(checkpoint, tmp_path):
    assert checkpoint.read("job") is None
    checkpoint.write("job", {"b": [1, None], "a": "\N{SNOWMAN}"})
    checkpoint.write("job", {"b": [2]})

    assert checkpoint.read("job") == {"b": [2]}
    assert os.listdir(tmp_path / "penstock") == ["job.json"]


def test_who_reads_while_it_is_written_sees_one_or_the_other(checkpoint):
    documents = [{"text": letter * 200_000} for letter in "ab"]
    checkpoint.write("job", documents[0])
    done = threading.Event()

    def write():
        for i in range(40):
            checkpoint.write("job", documents[i % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [checkpoint.read("job")]
    while not done.is_set():
        seen.append(checkpoint.read("job"))
    writer.join()
    assert all(each in documents for each in seen)


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_two_that_create_a_document_at_once_get_the_same(checkpoint, tmp_path, monkeypatch, links):
    """Two copies of a job on one new checkpoint are one query: its id is drawn once."""
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    start, found = threading.Barrier(8), []

    def create(number):
        start.wait()
        found.append(checkpoint.create("job", {"query_id": number}))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [checkpoint.read("job")] * 8
    assert set(os.listdir(tmp_path / "penstock")) - {".lock"} == {"job.json"}


def no_links(*_):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_without_hard_links_a_document_that_could_not_be_written_is_not_there(checkpoint, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", no_links)
        patch.setattr(Path, "replace", full)
        with pytest.raises(CheckpointUnavailableError):
            checkpoint.create("job", {"query_id": 1})
    assert checkpoint.read("job") is None
    assert checkpoint.create("job", {"query_id": 2}) == {"query_id": 2}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_storage_with_neither_hard_links_nor_locks_is_refused_for_good(checkpoint, monkeypatch, number):
    def no_locks(*_):
        raise OSError(number, "No locks available")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(CheckpointError, match="has neither hard links nor locks") as raised:
        checkpoint.create("job", {"query_id": 1})
    assert not raised.value.restartable
    assert checkpoint.read("job") is None


@pytest.mark.parametrize(
    ("text", "restartable"),
    [
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=me, access=WRITE", False),
        (
            "java.nio.file.AccessDeniedException: s3a://b/c: getFileStatus: Forbidden (Service: S3, Status Code: 403)",
            False,
        ),
        ("java.net.ConnectException: Connection refused", True),
    ],
)
def test_what_a_hadoop_file_system_denies_is_no_failure_that_passes(tmp_path, text, restartable):
    class Failing(LocalFiles):
        def read(self, name):
            with hadoop_errors():
                raise PySparkException(text)

    with pytest.raises(CheckpointError, match="cannot be read") as raised:
        JobCheckpoint(str(tmp_path), Failing(tmp_path)).read("job")
    assert raised.value.restartable is restartable


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EIO, CheckpointUnavailableError),
        (errno.ETIMEDOUT, CheckpointUnavailableError),
        (errno.ESTALE, CheckpointUnavailableError),
        (None, CheckpointUnavailableError),  # of another file system's client
        (errno.EACCES, CheckpointError),
    ],
)
def test_storage_that_fails_for_a_while_is_told_from_a_wrong_path(tmp_path, number, error):
    class Failing(LocalFiles):
        def read(self, name):
            raise OSError(number, "it does not work") if number else OSError("it does not work")

        def names(self, folder):
            return []

    checkpoint = JobCheckpoint(str(tmp_path), Failing(tmp_path))
    for look in (lambda: checkpoint.read("job"), lambda: checkpoint.offsets(0), checkpoint.check):
        with pytest.raises(CheckpointError, match=r"cannot be read: .*it does not work") as raised:
            look()
        assert type(raised.value) is error
        assert "restore" not in str(raised.value)


def test_no_revision_is_lost(checkpoint, tmp_path):
    def add(number):
        checkpoint.revise("ids", lambda known: {"ids": sorted({*known.get("ids", ()), number})})

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert checkpoint.revise("ids", dict) == {"ids": list(range(8))}
    assert sorted(os.listdir(tmp_path / "penstock")) == [f"ids.{number}.json" for number in range(1, 9)]


def test_of_numbered_documents_the_highest_counts_and_two_are_kept(tmp_path):
    for files in (LocalFiles(tmp_path / "local"), ArrowFiles((tmp_path / "arrow").as_uri())):
        checkpoint = JobCheckpoint(str(tmp_path), files)
        assert checkpoint.latest("at") is None
        for number in range(9, 13):
            checkpoint.advance("at", number, {"at": number})
            assert checkpoint.latest("at") == {"at": number}
        for number, late in ((12, "another"), (5, 5)):
            checkpoint.advance("at", number, {"at": late})
            assert checkpoint.latest("at") == {"at": 12}
        assert sorted(files.names("penstock")) == ["at.11.json", "at.12.json", "at.5.json"]
        checkpoint.advance("at", 12, {"at": "another"}, replace=True)
        assert checkpoint.latest("at") == {"at": "another"}


def test_a_former_document_that_cannot_be_deleted_does_not_fail_the_next(tmp_path):
    class Busy(LocalFiles):
        def delete(self, name):
            raise OSError(16, "Device or resource busy")

    checkpoint = JobCheckpoint(str(tmp_path), Busy(tmp_path))
    for number in range(3):
        checkpoint.advance("at", number, {"at": number})
        assert checkpoint.latest("at") == {"at": number}


def test_a_numbered_document_that_is_deleted_while_it_is_looked_for_has_a_successor(checkpoint, tmp_path):
    class Late(LocalFiles):
        def names(self, folder):
            found = super().names(folder)
            if "at.1.json" in found:
                for number in (2, 3):
                    checkpoint.advance("at", number, {"at": number})
            return found

    checkpoint.advance("at", 1, {"at": 1})
    assert JobCheckpoint(str(tmp_path), Late(tmp_path)).latest("at") == {"at": 3}


def test_a_failed_write_leaves_the_former_document_and_no_draft(checkpoint, tmp_path, monkeypatch):
    checkpoint.write("job", {"a": 1})

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CheckpointUnavailableError) as raised:
        checkpoint.write("job", {"a": 2})
    monkeypatch.undo()

    assert str(tmp_path) in str(raised.value)
    assert "No space left" in str(raised.value)
    assert raised.value.restartable
    assert checkpoint.read("job") == {"a": 1}
    assert os.listdir(tmp_path / "penstock") == ["job.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(CheckpointError, match=r"cannot write to the checkpoint '.*file'.*check the path"):
        JobCheckpoint(str(in_the_way), LocalFiles(in_the_way)).write("job", {})


@pytest.mark.parametrize("content", ["", "{", '{"start": {"orders": {"id"', "[]", "null", "7"])
def test_a_damaged_document_is_named(checkpoint, tmp_path, content):
    checkpoint.write("source-0", {})
    (tmp_path / "penstock" / "source-0.json").write_text(content)
    with pytest.raises(CheckpointError) as raised:
        checkpoint.read("source-0")

    assert f"'penstock/source-0.json' in the checkpoint '{tmp_path}' cannot be read" in str(raised.value)
    assert "restore the file" in str(raised.value)


def test_a_document_that_is_no_text_is_named(checkpoint, tmp_path):
    checkpoint.write("source-0", {})
    (tmp_path / "penstock" / "source-0.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match=r"source-0\.json"):
        checkpoint.read("source-0")


# --- Spark's logs --------------------------------------------------------------------------------------------


def test_positions_are_those_that_spark_logged(checkpoint, tmp_path):
    plan(tmp_path, 3, {"a": 1}, {"b": 2})

    assert checkpoint.offsets(3) == ({"a": 1}, {"b": 2})
    assert checkpoint.offsets(4) is None


@pytest.mark.parametrize(
    "content",
    ["", "v1", 'v1\n{"batchWatermarkMs":0}', 'v1\n{}\n{"orders": {"id": ""', "v1\n{}\n-", "{}\n{}\n{}", "v1\n{}\n7"],
)
def test_a_damaged_offset_log_is_named(checkpoint, tmp_path, content):
    plan(tmp_path, 5)
    (tmp_path / "offsets" / "5").write_text(content)
    with pytest.raises(CheckpointError, match=r"'offsets/5' in the checkpoint .* cannot be read"):
        checkpoint.offsets(5)


@pytest.mark.parametrize(
    ("planned", "committed", "first"),
    [
        ([], [], 0),
        ([0], [], 0),
        ([0], [0], 1),
        ([0, 1], [0], 1),
        ([8, 9, 10], [8, 9], 10),
        ([9, 10], [9, 10], 11),
        ([99, 100], [98, 99], 100),
    ],
    ids=["new", "planned", "committed", "next planned", "two digits", "all done", "three digits"],
)
def test_the_first_batch_is_the_one_that_spark_runs(checkpoint, tmp_path, planned, committed, first):
    for batch in planned:
        plan(tmp_path, batch, {})
    for batch in committed:
        commit(tmp_path, batch)
    for log in ("offsets", "commits"):  # what lies beside the entries
        if (tmp_path / log).exists():
            (tmp_path / log / ".7000.crc").write_bytes(b"")
            (tmp_path / log / ".7000.tmp").write_bytes(b"")

    assert checkpoint.first_batch() == first


# --- places --------------------------------------------------------------------------------------------------


def test_without_a_directory_it_is_a_durable_one_of_the_user_s(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_location("orders") == str(tmp_path / "penstock" / "checkpoints" / "orders")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert Path(default_location("orders")).is_relative_to(Path.home())


@pytest.mark.parametrize("name", ["a/b", "../../etc", "..", ".", "a b", "\N{SNOWMAN}", "con:", "", "a\nb", "x" * 200])
def test_whatever_its_name_a_job_has_one_folder_of_its_own(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    root = tmp_path / "penstock" / "checkpoints"

    assert Path(os.path.normpath(default_location(name))).parent == root


@pytest.mark.parametrize(("one", "other"), [("a b", "a/b"), ("a b", "a_b"), ("é", "\N{SNOWMAN}"), ("?", "!")])
def test_jobs_of_different_names_have_different_folders(one, other):
    assert default_location(one) != default_location(other)


def test_a_log_that_is_no_folder_is_named(checkpoint, tmp_path):
    (tmp_path / "offsets").write_text("")
    with pytest.raises(CheckpointError, match=r"'offsets' in the checkpoint .* cannot be read: .*Not a directory"):
        checkpoint.check()
