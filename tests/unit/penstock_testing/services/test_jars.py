from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from penstock.errors import ServiceError
from penstock.machine.folders import cache_folder, state_folder
from penstock.machine.java import Java
from penstock_testing.services.jars import cached_jars, fetch_jars
from penstock_testing.services.locks import lock_file

VERSION = "4.3.0"

# Stands for `java -jar ivy.jar ...`: fills the -retrieve folder, and counts how often it ran.
IVY = """#!/usr/bin/env python3
import pathlib, sys
arguments = sys.argv[1:]
pattern = arguments[arguments.index("-retrieve") + 1]
folder = pathlib.Path(pattern).parent
counter = pathlib.Path(__file__).with_name("runs")
counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
if pathlib.Path(__file__).with_name("offline").exists():
    print("WARN: module not found: org.apache.kafka#kafka_2.13;4.3.0")
    sys.exit(1)
folder.mkdir(parents=True)
for name in ("kafka_2.13-4.3.0", "kafka-clients-4.3.0"):
    (folder / f"{name}.jar").write_bytes(name.encode() * 100)
    print(f"[SUCCESSFUL ] org.apache.kafka#{name}!{name}.jar (1ms)", flush=True)
"""


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A stand-in for Java and the network behind it, with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "ivy" / "java"
    program.parent.mkdir()
    program.write_text(IVY)
    program.chmod(0o755)
    return Java(program, "17.0.1", tmp_path, "PATH")


def runs(java: Java) -> int:
    counter = java.executable.with_name("runs")
    return len(counter.read_text()) if counter.exists() else 0


def test_fetches_once_and_tells_its_progress(ivy: Java) -> None:
    lines: list[str] = []
    assert cached_jars(VERSION) is None
    jars = fetch_jars(ivy, VERSION, lines.append)
    assert lines[-1] == "fetched Kafka 4.3.0: 2 files"
    assert cached_jars(VERSION) == jars == fetch_jars(ivy, VERSION)
    assert runs(ivy) == 1
    names = [Path(entry).name for entry in jars.classpath().split(":")]
    assert names[-2:] == ["kafka-clients-4.3.0.jar", "kafka_2.13-4.3.0.jar"]
    assert any(name.startswith("log4j-slf4j2-impl") for name in names[:-2])
    assert [path.name for path in cache_folder().iterdir() if path.is_dir()] == ["kafka-4.3.0"]


@pytest.mark.parametrize("damage", ["shorter", "changed", "missing", "more", "no manifest", "bad manifest"])
def test_a_damaged_cache_is_never_used(ivy: Java, damage: str) -> None:
    folder = fetch_jars(ivy, VERSION).folder
    jar, manifest = folder / "kafka-clients-4.3.0.jar", folder / "manifest.json"
    content = jar.read_bytes()
    match damage:
        case "shorter":
            jar.write_bytes(content[:-1])
        case "changed":
            jar.write_bytes(b"?" + content[1:])
        case "missing":
            jar.unlink()
        case "more":
            (folder / "other.jar").write_bytes(b"")
        case "no manifest":
            manifest.unlink()
        case "bad manifest":
            manifest.write_text(json.dumps([1]))
    assert cached_jars(VERSION) is None
    lines: list[str] = []
    fetch_jars(ivy, VERSION, lines.append)
    assert "damaged" in lines[0]
    assert jar.read_bytes() == content
    assert runs(ivy) == 2


def test_a_failure_says_why_and_leaves_nothing(ivy: Java) -> None:
    ivy.executable.with_name("offline").touch()
    with pytest.raises(ServiceError, match=r"(?s)could not be fetched.*not found: org\.apache\.kafka.*Maven Central"):
        fetch_jars(ivy, VERSION)
    assert [path.name for path in cache_folder().iterdir()] == ["kafka-4.3.0.lock"]


@pytest.mark.parametrize("version", ["latest", "4.3", "../4.3.0", ""])
def test_a_version_is_three_numbers(ivy: Java, version: str) -> None:
    with pytest.raises(ServiceError, match="is not a Kafka version"):
        fetch_jars(ivy, version)
    assert runs(ivy) == 0


def _fetch(java: Java) -> None:
    fetch_jars(java, VERSION)


def test_two_processes_at_once_fetch_once(ivy: Java) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fetch, args=(ivy,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert runs(ivy) == 1


def test_waiting_for_a_lock_is_told(tmp_path: Path) -> None:
    class Told(Exception):
        pass

    def told() -> None:
        raise Told

    with lock_file(tmp_path / "lock", told), pytest.raises(Told), lock_file(tmp_path / "lock", told):
        pass
    with lock_file(tmp_path / "lock", told):
        pass


def test_folders_follow_the_xdg_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cache_folder() == Path.home() / ".cache/penstock"
    assert state_folder() == tmp_path / "penstock"
