"""Debezium's connector for PostgreSQL and its engine, fetched once per user."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.folders import cache_folder
from penstock.machine.java import Java
from penstock_testing.services.downloads import Download, Progress
from penstock_testing.services.jars import fetch_jars

__all__ = ["DEBEZIUM", "fetch_classpath"]

#: The Debezium that captures changes.
DEBEZIUM = "3.6.1.Final"

#: Checksums of Debezium's own jars; those that they depend on are checked by what the repository says of them.
_SHA256 = {
    "debezium-api": "893c73a44dd05b3a102830efb53b2636c63cfdf890860411dcc4969282c9544b",
    "debezium-config": "0d4b6335aca11e8ba40aa00d39b23b863ef968e79d47ed7a133b9461f8218405",
    "debezium-connect-plugins": "712d34752f945fb4062354a9faf04424dd3660411137b3bb160b0a68d4a7ee8e",
    "debezium-connector-common": "365a695d512b085cff2cd12e28e44a7a3e733b43bfb27f3608508d7800e2de45",
    "debezium-connector-postgres": "e7bb97f00f97ec78d7c39b19e2b0797739438433b6acaa0941e18dbc2da0d854",
    "debezium-embedded": "a883a35d75aa1f393d2550a77c845226496d5886a07a77fe6f9bc118a2dddbfe",
    "debezium-openlineage-api": "7e7e0fb3c3a12b3e8bfe2d42df278ff2a9fab8c58fa12199590e35fdb88b2062",
    "debezium-util": "9501581790412207cda72b2b57874e0430e2f9e4c5e94a054f7b06e07c112e5f",
}
_NAMES = ("debezium-api", "debezium-embedded", "debezium-connector-postgres")
_NEEDED = "\n".join(
    f'    <dependency org="io.debezium" name="{name}" rev="{DEBEZIUM}" conf="default->default"/>' for name in _NAMES
)
_IVY = f"""<ivy-module version="2.0">
  <info organisation="penstock" module="capture"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{_NEEDED}
  </dependencies>
</ivy-module>
"""


def fetch_classpath(java: Java, progress: Progress = lambda line: None) -> str:
    """The class path of a capture, from the cache or else over the network. Raises ServiceError."""
    folder = cache_folder() / f"debezium-{DEBEZIUM}"
    download = Download(f"Debezium {DEBEZIUM}", folder, 38, _IVY, f"debezium-connector-postgres-{DEBEZIUM}.jar")
    download.fetch(java, _check, progress)
    logging = sorted((fetch_jars(java, progress=progress).folder / "logging").glob("*.jar"))
    return os.pathsep.join(map(str, [*logging, *sorted(folder.glob("*.jar"))]))


def _check(files: Path, ready: Path) -> None:
    for name, expected in _SHA256.items():
        jar = f"{name}-{DEBEZIUM}.jar"
        with (files / jar).open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
        if found != expected:
            raise ServiceError(f"{jar} has the checksum {found}, not {expected}; check where it was fetched from")
    files.rename(ready)
