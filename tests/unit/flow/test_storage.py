"""Files of state on this machine, and on others through pyarrow.fs."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.flow.state.storage import LocalStorage, RemoteStorage, Storage


@pytest.fixture(params=["local", "remote"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A folder of this machine, and the same read as if it were on another one."""
    place = tmp_path / "place" / "state"
    if request.param == "local":
        return Storage.from_uri(str(place))
    return RemoteStorage(place.as_uri(), str(tmp_path / "cache"))


def test_what_is_written_is_read(storage: Storage) -> None:
    storage.write("one", [b"abc", pa.py_buffer(b"def"), memoryview(bytes(8))])
    storage.write("empty", [])
    again = pickle.loads(pickle.dumps(storage))
    assert again.open("one").to_pybytes() == b"abcdef" + bytes(8)
    assert again.open("empty").size == 0
    assert {each.name: each.bytes for each in again.files()} == {"one": 14, "empty": 0}
    assert all(each.written_ms > 1_600_000_000_000 for each in again.files())
    storage.delete("one")
    storage.delete("one")
    assert [each.name for each in storage.files()] == ["empty"]


def test_a_missing_file_is_an_error_of_the_checkpoint(storage: Storage) -> None:
    with pytest.raises(
        CheckpointError, match=r"'gone' in '.*state' is missing, .* restore it from a backup"
    ) as failure:
        storage.open("gone")
    assert not isinstance(failure.value, CheckpointUnavailableError)


def test_files_that_this_machine_does_not_see_are_told(storage: Storage) -> None:
    storage.write("here", [b"1"])
    elsewhere = ["there"] if isinstance(storage, LocalStorage) else []  # a remote storage is the same for all machines
    assert storage.find_unseen({"here", "there"}) == elsewhere


def test_a_copy_has_its_name_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = RemoteStorage((tmp_path / "there").as_uri(), str(tmp_path / "cache"))
    there.write("file", [b"content"])
    here = LocalStorage(str(tmp_path / "here"))
    (tmp_path / "here").mkdir()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", failing(OSError(28, "No space left on device")))
        with pytest.raises(CheckpointUnavailableError, match="No space left"):
            here.take("file", there)
    assert list(here.files()) == []
    here.take("file", there)
    assert here.open("file").to_pybytes() == b"content"


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_storage_that_does_not_answer_may_answer_later(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for storage in (
        LocalStorage(str(tmp_path / "file")),
        RemoteStorage((tmp_path / "file").as_uri(), str(tmp_path / "cache")),
    ):
        with pytest.raises(CheckpointUnavailableError, match=r"cannot write 'a' to '.*file': .*; check the path"):
            storage.write("a", [b"x"])


def test_files_of_other_machines_are_fetched_once(tmp_path: Path) -> None:
    there = tmp_path / "there"
    LocalStorage(str(there)).write("segment", [b"content"])
    storage = RemoteStorage(there.as_uri(), str(tmp_path / "cache"))
    assert storage.open("segment").to_pybytes() == b"content"
    (there / "segment").unlink()
    assert storage.open("segment").to_pybytes() == b"content"
    storage.delete("segment")
    with pytest.raises(CheckpointError, match="is missing"):
        storage.open("segment")


def test_what_is_written_to_other_machines_is_in_the_cache_at_once(tmp_path: Path) -> None:
    storage = RemoteStorage((tmp_path / "there").as_uri(), str(tmp_path / "cache"))
    storage.write("segment", [b"content"])
    assert (tmp_path / "there" / "segment").read_bytes() == b"content"
    (tmp_path / "there" / "segment").unlink()
    assert storage.open("segment").to_pybytes() == b"content"


def test_two_storages_share_a_cache(tmp_path: Path) -> None:
    """Two jobs may have files of one name."""
    storages = {
        place: RemoteStorage((tmp_path / place).as_uri(), str(tmp_path / "cache")) for place in ("one", "other")
    }
    for place, storage in storages.items():
        storage.write("segment", [place.encode()])
    for place, storage in storages.items():
        assert storage.open("segment").to_pybytes() == place.encode()


def test_a_cached_file_that_is_deleted_when_it_is_about_to_be_read_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = RemoteStorage((tmp_path / "there").as_uri(), str(tmp_path / "cache"))
    storage.write("a", [b"rows"])

    def touched(path: Path, utime: Callable[[Path], None] = os.utime) -> None:
        """Another process has found it old a moment before, and deletes it now."""
        utime(path)
        path.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", touched)
        assert storage.open("a").to_pybytes() == b"rows"
        (tmp_path / "there" / "a").unlink()
        with pytest.raises(CheckpointError, match=r"'a' in '.*there' is missing"):
            storage.open("a")


def test_cached_files_that_nothing_reads_are_deleted(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    storage = RemoteStorage((tmp_path / "there").as_uri(), str(cache))
    for name in ("read", "unread"):
        storage.write(name, [name.encode()])
    for path in cache.iterdir():
        os.utime(path, (0, 0))
    storage.open("read")
    storage.write("new", [b"new"])
    assert sorted(path.name.rpartition("-")[2] for path in cache.iterdir()) == ["new", "read"]
    assert storage.open("unread").to_pybytes() == b"unread"


def test_cached_output_of_a_batch_is_deleted_soon(tmp_path: Path) -> None:
    """By the machines that have written or read it too, and not by the driver alone, which deletes the file."""
    cache = tmp_path / "cache"
    storage = RemoteStorage((tmp_path / "there").as_uri(), str(cache))
    for name in ("state.arrow", "output.rows"):
        storage.write(name, [name.encode()])
    for path in cache.iterdir():
        os.utime(path, (time.time() - 600,) * 2)
    storage.write("new.rows", [b"new"])
    assert sorted(path.name.rpartition("-")[2] for path in cache.iterdir()) == ["new.rows", "state.arrow"]
    assert storage.open("output.rows").to_pybytes() == b"output.rows"


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert Storage.from_uri(str(tmp_path)) == LocalStorage(str(tmp_path))
    assert Storage.from_uri("file:///some/where%20else") == LocalStorage("/some/where else")
    remote = Storage.from_uri("s3://bucket/folder?region=eu-central-1")
    assert isinstance(remote, RemoteStorage)
    assert Path(remote.cache).stat().st_mode & 0o777 == 0o700
    with pytest.raises(CheckpointError, match=r"cannot be kept at 'ftp://x/y': .*; use a path of this machine, s3://"):
        Storage.from_uri("ftp://x/y")


def test_a_cache_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    (tmp_path / f"penstock-state-{owner + 1}").mkdir()
    with pytest.raises(CheckpointUnavailableError, match="it belongs to the user"):
        Storage.from_uri("s3://bucket/folder?region=eu-central-1")
