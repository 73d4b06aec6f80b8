"""The archive of Spark's classes: when it is made, used, and done without. Programs stand in the place of Java."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from penstock.engine.session.class_archive import shared_classes
from tests.waiting import eventually


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Puts a shell script in the place of Java; a cache of the test's own is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.delenv("PENSTOCK_CLASS_SHARING", raising=False)
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"')

    def put(text):
        path = tmp_path / "jdk" / "bin" / "java"
        path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
        path.chmod(0o755)

    put(DUMP)
    return put


#: Writes its arguments where the archive goes.
DUMP = """
for each in "$@"; do
  case $each in -XX:SharedArchiveFile=*) archive=${each#*=} ;; esac
done
echo "$@" > "$archive"
"""


def made(shared, class_path="a.jar:b.jar"):
    """Has the archive made, and returns it."""
    shared.loaded.write_text("java/lang/Object id: 0\n")
    shared.make(class_path)
    return eventually(lambda: shared.archive.exists() and shared.archive.read_text())


def test_the_first_jvm_lists_its_classes_and_later_ones_use_the_archive(java):
    first = shared_classes()
    assert first.options == (f"-XX:DumpLoadedClassList={first.loaded}",)
    dump = made(first)
    assert "-Xshare:dump" in dump
    assert "-cp a.jar:b.jar" in dump
    first.discard()

    later = shared_classes()
    assert f"-XX:SharedArchiveFile={first.archive}" in later.options
    assert not any("DumpLoadedClassList" in each for each in later.options)
    eventually(lambda: os.listdir(first.archive.parent) == [first.archive.name])  # what it was made of is gone


def test_an_archive_that_cannot_be_made_leaves_nothing(java):
    java("exit 1")
    shared = shared_classes()
    shared.loaded.write_text("java/lang/Object id: 0\n")
    shared.make("a.jar")
    shared.discard()
    eventually(lambda: os.listdir(shared.archive.parent) == [])
    assert shared_classes().options == (f"-XX:DumpLoadedClassList={shared_classes().loaded}",)


def test_two_processes_do_not_make_it_at_once(java, tmp_path):
    java(f"echo $$ >> {tmp_path}/makers; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done" + DUMP)
    shared = shared_classes()
    shared.loaded.write_text("java/lang/Object id: 0\n")
    shared.make("a.jar")
    eventually((tmp_path / "makers").exists)
    shared.make("a.jar")
    (tmp_path / "go").touch()
    eventually(shared.archive.exists)
    assert len((tmp_path / "makers").read_text().splitlines()) == 1


def test_a_line_that_the_jvm_is_writing_is_left_out(java):
    java(DUMP + 'for each in "$@"; do case $each in *ListFile=*) cat "${each#*=}" > "$archive" ;; esac; done')
    shared = shared_classes()
    shared.loaded.write_text("java/lang/Object id: 0\njava/la")
    shared.make("a.jar")
    assert eventually(lambda: shared.archive.exists() and shared.archive.read_text()) == "java/lang/Object id: 0\n"


def test_no_classes_no_archive(java):
    """The JVM may have ended before it listed any."""
    shared = shared_classes()
    shared.make("a.jar")
    assert os.listdir(shared.archive.parent) == []


def test_a_list_that_no_archive_was_made_of_is_deleted(java):
    shared = shared_classes()
    shared.loaded.write_text("java/lang/Object id: 0\n")
    shared.discard()
    shared.discard()
    assert os.listdir(shared.archive.parent) == []


def test_another_java_or_class_path_has_an_archive_of_its_own(java, tmp_path, monkeypatch):
    before = shared_classes().archive
    assert shared_classes().archive == before
    os.utime(tmp_path / "jdk" / "release", (1, 1))  # as an update of Java does
    updated = shared_classes().archive
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/opt/hadoop/*")
    assert len({before, updated, shared_classes().archive}) == 3


def test_old_archives_are_deleted(java, monkeypatch):
    archives = []
    for number in range(5):
        monkeypatch.setenv("SPARK_CONF_DIR", str(number))
        shared = shared_classes()
        made(shared)
        os.utime(shared.archive, (number, number))
        archives.append(shared.archive)
    monkeypatch.setenv("SPARK_CONF_DIR", "3")
    shared_classes()  # it is used, so that it stays longer than one that is newer
    assert [each.exists() for each in archives] == [False, False, False, True, True]
    monkeypatch.setenv("SPARK_CONF_DIR", "5")
    made(shared_classes())
    shared_classes()
    assert [each.exists() for each in archives] == [False, False, False, True, False]


def test_a_file_that_another_process_deletes_meanwhile_is_no_failure(java, monkeypatch):
    folder = shared_classes().archive.parent
    gone = folder / "archive.jsa.1"
    monkeypatch.setattr(Path, "iterdir", lambda _: iter([gone]))
    assert shared_classes().archive.parent == folder


@pytest.mark.parametrize("value", ["off", "OFF", "0", "false"])
def test_it_can_be_turned_off(java, monkeypatch, value):
    monkeypatch.setenv("PENSTOCK_CLASS_SHARING", value)
    assert shared_classes() is None


def test_no_java_and_no_cache_fail_nothing(java, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("in the way")
    assert shared_classes() is None
    (tmp_path / "cache").unlink()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert shared_classes() is None
