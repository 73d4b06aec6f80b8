"""The Java that Spark and the development broker run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ServiceError

__all__ = ["MINIMUM_JAVA", "Java", "find_java"]

#: Spark 4 and Kafka 4 both ask for it.
MINIMUM_JAVA = 17

_INSTALL = (
    f"install Java {MINIMUM_JAVA} or newer (`apt-get install openjdk-17-jre-headless`, `brew install openjdk@17`) "
    "and put `java` on PATH, or point JAVA_HOME at it"
)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its ``java`` program, full version, and where it was found (``JAVA_HOME`` or ``PATH``)."""

    executable: Path
    version: str
    home: Path
    origin: str

    @property
    def major(self) -> int:
        """17 for ``17.0.15``, 8 for ``1.8.0_402``."""
        return _major(self.version)

    def keytool(self) -> Path:
        """The certificate tool of this Java.

        Raises:
            ServiceError: this runtime was packaged without it.
        """
        tool = self.home / "bin" / "keytool"
        if not tool.exists():
            raise ServiceError(f"{self.home} has no bin/keytool, which makes the broker's certificate; {_INSTALL}")
        return tool


def find_java() -> Java:
    """The Java of JAVA_HOME, else the first on PATH: the order that Spark's own launcher keeps.

    Raises:
        ServiceError: there is none, it does not run, or it is older than :data:`MINIMUM_JAVA`.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        executable, origin = Path(home) / "bin" / "java", "JAVA_HOME"
        if not executable.exists():
            raise ServiceError(
                f"JAVA_HOME is {home}, but there is no bin/java in it; correct or unset it, or {_INSTALL}"
            )
    else:
        found = shutil.which("java")
        if found is None:
            raise ServiceError(f"no Java: JAVA_HOME is not set and there is no `java` on PATH; {_INSTALL}")
        executable, origin = Path(found), "PATH"
    java = _inspect(executable, origin)
    if java.major < MINIMUM_JAVA:
        raise ServiceError(
            f"{executable} (from {origin}) is Java {java.version}, Java {MINIMUM_JAVA} or newer is needed; {_INSTALL}"
        )
    return java


def _inspect(executable: Path, origin: str) -> Java:
    try:
        shown = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise ServiceError(f"{executable} (from {origin}) cannot be run: {error}; {_INSTALL}") from error
    settings = dict(re.findall(r"^\s+(java\.version|java\.home) = (.+?)\s*$", shown, re.MULTILINE))
    if len(settings) != 2 or not _major(settings["java.version"]):
        raise ServiceError(f"{executable} (from {origin}) does not say which Java it is; {_INSTALL}")
    return Java(executable, settings["java.version"], Path(settings["java.home"]), origin)


def _major(version: str) -> int:
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0
