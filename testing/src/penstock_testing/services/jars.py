"""Kafka's own jars, fetched once per user and version."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.folders import cache_folder
from penstock.machine.java import Java
from penstock.machine.packages import spark_jars_folder
from penstock_testing.services.downloads import Download, Progress

#: The Kafka that is started when no version is named.
DEFAULT_VERSION = "4.3.0"

_VERSION = re.compile(r"\d+\.\d+\.\d+")
# Kafka's published dependencies hold no logging back end, and without one a broker that cannot start logs nothing.
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


def cached_jars(version: str = DEFAULT_VERSION) -> KafkaJars | None:
    """The jars of ``version`` if they are in the cache, complete and undamaged."""
    download = _download(version)
    return KafkaJars(version, download.folder) if download.intact() else None


def fetch_jars(java: Java, version: str = DEFAULT_VERSION, progress: Progress = lambda line: None) -> KafkaJars:
    """The jars of ``version``, from the cache or else over the network (44 MB).

    Raises:
        ServiceError: the version is unknown, or cannot be fetched.
    """
    if not _VERSION.fullmatch(version):
        raise ServiceError(f"'{version}' is not a Kafka version; expected three numbers, for example {DEFAULT_VERSION}")
    download = _download(version)
    download.fetch(java, _with_logging, progress)
    return KafkaJars(version, download.folder)


def _with_logging(jars: Path, ready: Path) -> None:
    jars.rename(ready)
    (ready / _LOGGING).mkdir()
    for path in (found for pattern in _LOGGING_JARS for found in spark_jars_folder().glob(pattern)):
        shutil.copy2(path, ready / _LOGGING)


def _download(version: str) -> Download:
    dependency = ("-dependency", "org.apache.kafka", "kafka_2.13", version, "-confs", "default,runtime")
    folder = cache_folder() / f"kafka-{version}"
    return Download(f"Kafka {version}", folder, 44, dependency, f"kafka_2.13-{version}.jar")
