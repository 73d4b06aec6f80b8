from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ServiceError
from penstock.machine import java as java_module
from penstock.machine.java import find_java
from penstock_testing.services import KafkaCluster


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '    java.home = {folder}\\n    java.version = {version}\\n' >&2\n")
    program.chmod(0o755)
    return program


def test_finds_the_java_of_this_machine() -> None:
    java = find_java()
    assert java.major >= 17
    assert (java.home / "bin").is_dir()


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path/bin"))
    fake_java(tmp_path / "path", "18.0.1")
    fake_java(tmp_path / "home", "21-ea")
    found = find_java()
    assert (found.major, found.origin) == (21, "JAVA_HOME")
    monkeypatch.delenv("JAVA_HOME")
    assert (find_java().major, find_java().origin) == (18, "PATH")


def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError, match=r"no Java.*apt-get install openjdk-17-jre-headless.*JAVA_HOME"):
        KafkaCluster().start()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_an_old_java_is_named(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServiceError, match=rf"{tmp_path}.*is Java {version}, Java 17 or newer is needed"):
        find_java()


def test_where_more_is_needed_the_newest_that_is_installed_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_module, "_SHELVES", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    fake_java(tmp_path / "home", "17.0.1")
    with pytest.raises(ServiceError, match=r"is Java 17\.0\.1, Java 21 or newer.*apt-get install openjdk-21-jre"):
        find_java(21)
    fake_java(tmp_path / "jvm/broken", "23").write_text("#!/bin/sh\nexit 3\n")
    for version in ("11.0.1", "25.0.3", "21.0.2"):
        fake_java(tmp_path / "jvm" / version, version)
    assert find_java(21).home == tmp_path / "jvm/25.0.3"
    assert find_java().major == 17


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(ServiceError, match=rf"JAVA_HOME is {tmp_path}/gone"):
        find_java()


def test_a_java_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "17").write_text("#!/bin/sh\nexit 3\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServiceError, match=r"cannot be run.*status 3"):
        find_java()
