"""Checkpoints on file systems that Hadoop's client reaches; here the local one, by its way."""

from __future__ import annotations

import pytest

from penstock.engine.checkpoint import JobCheckpoint, open_checkpoint
from penstock.engine.checkpoint.hadoop import HadoopFiles
from penstock.engine.session import spark_session
from penstock.errors import CheckpointError
from penstock.settings import Settings


@pytest.fixture
def spark():
    return spark_session(Settings(), "tests")


@pytest.fixture
def checkpoint(spark, tmp_path):
    return JobCheckpoint(str(tmp_path), HadoopFiles(spark, tmp_path.as_uri()))


def test_a_document_is_read_as_it_was_written(checkpoint, tmp_path):
    assert checkpoint.read("job") is None
    checkpoint.write("job", {"a": 1})
    checkpoint.write("job", {"a": "\N{SNOWMAN}"})
    assert checkpoint.read("job") == {"a": "\N{SNOWMAN}"}
    assert [path.name for path in (tmp_path / "penstock").glob("[!.]*")] == ["job.json"]


def test_a_document_that_is_there_is_not_created_again(checkpoint, tmp_path):
    assert checkpoint.create("job", {"query_id": 1}) == {"query_id": 1}
    assert checkpoint.create("job", {"query_id": 2}) == {"query_id": 1}
    assert [each.name for each in (tmp_path / "penstock").iterdir()] == ["job.json"]


@pytest.fixture
def store(spark, tmp_path):
    """The files as they are written to an object store, where a rename would be a copy and a deletion."""
    files = HadoopFiles(spark, tmp_path.as_uri())
    assert not files._whole
    files._whole, files._context = True, None  # nothing is renamed
    return JobCheckpoint(str(tmp_path), files)


def test_a_store_whose_files_appear_whole_renames_nothing(store, tmp_path):
    store.write("job", {"a": 1})
    store.write("job", {"a": "\N{SNOWMAN}"})
    assert store.read("job") == {"a": "\N{SNOWMAN}"}
    assert store.create("job", {"a": 2}) == {"a": "\N{SNOWMAN}"}
    assert store.create("seal", {"a": 3}) == {"a": 3}
    assert sorted(path.name for path in (tmp_path / "penstock").glob("[!.]*")) == ["job.json", "seal.json"]


def test_of_numbered_documents_two_are_kept(checkpoint, tmp_path):
    for number in range(4):
        checkpoint.advance("at", number, {"at": number})
        assert checkpoint.latest("at") == {"at": number}
    checkpoint.advance("at", 3, {"at": "another"})
    assert checkpoint.latest("at") == {"at": 3}
    names = [path.name for path in (tmp_path / "penstock").glob("[!.]*")]
    assert sorted(names) == ["at.2.json", "at.3.json"]


def test_logs_are_listed(checkpoint, tmp_path):
    assert checkpoint.first_batch() == 0
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"a": 1}')
    assert checkpoint.first_batch() == 0
    assert checkpoint.offsets(0) == ({"a": 1},)


def test_what_cannot_be_read_or_written_is_a_checkpoint_error(checkpoint, tmp_path):
    (tmp_path / "penstock" / "job.json").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"'penstock/job.json' in the checkpoint '.*' cannot be read: "):
        checkpoint.read("job")
    (tmp_path / "penstock" / "job.json" / "inside").touch()
    with pytest.raises(CheckpointError, match=r"cannot write to the checkpoint '.*': .*check the path"):
        checkpoint.write("job", {})


def test_a_file_system_that_is_not_there_is_named(spark):
    with pytest.raises(
        CheckpointError, match=r"the checkpoint 'nowhere://x/y/job' cannot be opened: .*nowhere"
    ) as raised:
        open_checkpoint(spark, "nowhere://x/y", "job")
    assert "Traceback" not in str(raised.value)
    assert "\n" not in str(raised.value)
