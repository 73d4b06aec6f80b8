"""Kafka's own jars, fetched once per user and version by the Ivy that PySpark carries.

A version's folder in the cache is made under another name and renamed when it is complete, and it holds the
checksum of every file: a folder that was half filled or damaged is never used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.folders import cache_folder, locked
from penstock.services.java import Java

__all__ = ["DEFAULT_VERSION", "KafkaJars", "Progress", "cached_jars", "fetch_jars", "spark_jars_folder"]

#: The Kafka that is started when no version is named.
DEFAULT_VERSION = "4.3.0"

#: Told what is going on while something takes long: one short line.
Progress = Callable[[str], None]

_MANIFEST = "manifest.json"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# Kafka's published dependencies hold no logging back end, and without one a broker that cannot start is mute.
# PySpark's is copied, so that the class path stays the same for every Python environment of the user.
_LOGGING = "logging"
_LOGGING_JARS = (
    "slf4j-api-2*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-1.2-api-*.jar",
)


@dataclass(frozen=True)
class KafkaJars:
    """The complete jars of one Kafka version in ``folder``."""

    version: str
    folder: Path

    def classpath(self) -> str:
        """A Java class path: the logging back end first, which replaces the older interface that Kafka names."""
        paths = [*sorted((self.folder / _LOGGING).glob("*.jar")), *sorted(self.folder.glob("*.jar"))]
        return os.pathsep.join(str(path) for path in paths)


def spark_jars_folder() -> Path:
    """PySpark's ``jars`` folder, found without importing PySpark.

    Raises:
        ServiceError: PySpark is not installed, or has no jars.
    """
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "jars"
        if any(folder.glob("ivy-*.jar")):
            return folder
    raise ServiceError("no PySpark with its jars is installed, which fetches Kafka; check with `pip install pyspark`")


def cached_jars(version: str = DEFAULT_VERSION) -> KafkaJars | None:
    """The jars of ``version`` when they are in the cache, complete and undamaged, else None."""
    folder = _version_folder(version)
    try:
        expected = json.loads((folder / _MANIFEST).read_text())
        intact = bool(expected) and expected == _checksums(folder)
    except (OSError, ValueError):
        return None
    return KafkaJars(version, folder) if intact else None


def fetch_jars(java: Java, version: str = DEFAULT_VERSION, progress: Progress = lambda line: None) -> KafkaJars:
    """The jars of ``version``, from the cache or else over the network (44 MB).

    Raises:
        ServiceError: the version is unknown, or cannot be fetched.
    """
    if not _VERSION.fullmatch(version):
        raise ServiceError(f"'{version}' is no Kafka version; expected three numbers, for example {DEFAULT_VERSION}")
    found = cached_jars(version)
    if found:
        return found
    folder = _version_folder(version)
    with locked(
        folder.with_name(f"{folder.name}.lock"), lambda: progress("waiting for another process that fetches Kafka")
    ):
        found = cached_jars(version)
        if found:
            return found
        if folder.exists():
            progress(f"{folder} is damaged and is fetched again")
            shutil.rmtree(folder)
        scratch = Path(tempfile.mkdtemp(prefix=f"kafka-{version}-", dir=folder.parent))
        try:
            ready = scratch / "jars"
            _retrieve(java, version, ready, scratch / "ivy", progress)
            (ready / _LOGGING).mkdir()
            for path in (found for pattern in _LOGGING_JARS for found in spark_jars_folder().glob(pattern)):
                shutil.copy2(path, ready / _LOGGING)
            (ready / _MANIFEST).write_text(json.dumps(_checksums(ready), indent=1))
            ready.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return KafkaJars(version, folder)


def _version_folder(version: str) -> Path:
    return cache_folder() / f"kafka-{version}"


def _checksums(folder: Path) -> dict[str, str]:
    sums = {}
    for path in sorted(folder.rglob("*.jar")):
        with path.open("rb") as handle:
            sums[str(path.relative_to(folder))] = hashlib.file_digest(handle, "sha256").hexdigest()
    return sums


def _retrieve(java: Java, version: str, target: Path, ivy_cache: Path, progress: Progress) -> None:
    """Runs Ivy; its settings file may be named by PENSTOCK_IVY_SETTINGS, for a mirror of Maven Central."""
    ivy = next(spark_jars_folder().glob("ivy-*.jar"))
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    command = [
        str(java.executable), "-jar", str(ivy), *(["-settings", settings] if settings else []),
        "-dependency", "org.apache.kafka", "kafka_2.13", version, "-confs", "default,runtime",
        "-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]", "-cache", str(ivy_cache),
    ]  # fmt: skip
    progress(f"fetching Kafka {version} (about 44 MB, once)")
    said: deque[str] = deque(maxlen=400)
    files = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                said.append(line.rstrip())
                if "[SUCCESSFUL ]" in line and ".jar" in line:
                    files += 1
                    progress(f"fetching Kafka {version}: {files} files")
        except BaseException:
            process.kill()
            raise
    if process.returncode or not any(target.glob(f"kafka_2.13-{version}.jar")):
        told = [line for line in said if "::" not in line and re.search(r"WARN|ERROR|not found|rror:|xception", line)]
        raise ServiceError(
            f"Kafka {version} could not be fetched:\n" + "\n".join(told[-8:] or list(said)[-8:]) + "\n"
            "check that this version exists and that Maven Central can be reached (for a mirror, PENSTOCK_IVY_SETTINGS "
            f"names an Ivy settings file), or copy {_version_folder(version)} from a machine that has it"
        )
    progress(f"fetched Kafka {version}: {len(list(target.glob('*.jar')))} files")
