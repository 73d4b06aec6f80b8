"""The Java that Spark and development servers run on."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ServiceError

#: Spark 4 and Kafka 4 both need it.
MINIMUM_JAVA = 17

#: Where packages, installers and version managers put Java runtimes, one folder each.
_SHELVES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


def _suggest_install(minimum: int) -> str:
    return (
        f"install Java {minimum} or newer (`apt-get install openjdk-{minimum}-jre-headless`, "
        f"`brew install openjdk@{minimum}`) and put `java` on PATH, or point JAVA_HOME at it"
    )


@dataclass(frozen=True)
class Java:
    """A Java runtime: its ``java`` program, full version and folder. ``origin`` is JAVA_HOME, PATH, or a folder."""

    executable: Path
    version: str
    home: Path
    origin: str

    @property
    def major(self) -> int:
        """17 for ``17.0.15``, 8 for ``1.8.0_402``."""
        return _parse_major(self.version)


def find_java(minimum: int = MINIMUM_JAVA) -> Java:
    """The Java of JAVA_HOME, else the first on PATH, as Spark's launcher chooses it.

    If it is older than ``minimum`` but fits Spark, the newest one in the usual places is taken.

    Raises:
        ServiceError: there is none, it does not run, or all are older than ``minimum``.
    """
    java = _choose(minimum)
    if java.major >= minimum:
        return java
    if minimum > MINIMUM_JAVA:
        found = max(_find_others(), key=lambda each: each.major, default=java)
        if found.major >= minimum:
            return found
    remedy = _suggest_install(minimum)
    if java.major >= MINIMUM_JAVA:
        remedy = (
            f"install one beside it (`apt-get install openjdk-{minimum}-jre-headless`, "
            f"`brew install openjdk@{minimum}`, or unpack one from https://adoptium.net in ~/.jdks): it is found "
            "there, and Spark keeps this one"
        )
    raise ServiceError(
        f"{java.executable} (from {java.origin}) is Java {java.version}, Java {minimum} or newer is needed; {remedy}"
    )


def _choose(minimum: int) -> Java:
    home = os.environ.get("JAVA_HOME")
    if home:
        executable, origin = Path(home) / "bin" / "java", "JAVA_HOME"
        if not executable.exists():
            raise ServiceError(
                f"JAVA_HOME is {home}, which has no bin/java; correct or unset it, or {_suggest_install(minimum)}"
            )
    else:
        found = shutil.which("java")
        if found is None:
            raise ServiceError(
                f"no Java: JAVA_HOME is not set and there is no `java` on PATH; {_suggest_install(minimum)}"
            )
        executable, origin = Path(found), "PATH"
    return _inspect(executable, origin)


def _find_others() -> Iterator[Java]:
    """The runtimes in the usual places."""
    for pattern in _SHELVES:
        for executable in sorted(glob.glob(os.path.expanduser(f"{pattern}/bin/java"))):
            with suppress(ServiceError):
                yield _inspect(Path(executable), str(Path(executable).parents[1]))


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
        raise ServiceError(
            f"{executable} (from {origin}) cannot be run: {error}; {_suggest_install(MINIMUM_JAVA)}"
        ) from error
    settings = dict(re.findall(r"^\s+(java\.version|java\.home) = (.+?)\s*$", shown, re.MULTILINE))
    if len(settings) != 2 or not _parse_major(settings["java.version"]):
        raise ServiceError(
            f"{executable} (from {origin}) does not say which Java it is; {_suggest_install(MINIMUM_JAVA)}"
        )
    return Java(executable, settings["java.version"], Path(settings["java.home"]), origin)


def _parse_major(version: str) -> int:
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0
