"""An archive of Spark's classes, which the JVM maps instead of loading them from jars: Java's class-data sharing.

The first job makes it. Its JVM lists the classes that it loads, and when the job has ended a process in the background
turns the list into an archive. Later JVMs use it if the Java, PySpark and class path are the same; the JVM checks the
archive itself and does without one that does not fit. ``PENSTOCK_CLASS_SHARING=off`` turns this off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark import __version__
from pyspark.find_spark_home import _find_spark_home

from penstock.machine.class_sharing import sharing_options
from penstock.machine.folders import cache_folder

#: Environment variables that affect Spark's class path.
_PATHS = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_CLASSPATH", "SPARK_PREPEND_CLASSES", "PYSPARK_SUBMIT_ARGS")
#: Archives are about 200 MB each. Those that were used last are kept.
_KEPT = 2
#: Any other file that is older was left behind by a process that was killed.
_ABANDONED_SECONDS = 24 * 3600

#: Makes the archive at low priority. The last step publishes it.
_MAKE = """
: > "$3.$$"
nice -n 5 "$1" -Xshare:dump -Xlog:disable -XX:SharedClassListFile="$2" -XX:SharedArchiveFile="$3.$$" -cp "$4" &&
mv "$3.$$" "$3"
rm -f "$2" "$3.$$"
"""


@dataclass(frozen=True)
class SharedClasses:
    """The archive for one Java, PySpark and class path. ``loaded`` is the list of classes of this process's JVM."""

    java: Path
    archive: Path
    loaded: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Options of a JVM: use the archive, or list the classes for it."""
        return sharing_options(self.archive) if self.archive.exists() else (f"-XX:DumpLoadedClassList={self.loaded}",)

    def make(self, class_path: str) -> None:
        """Make the archive in the background from the classes that the JVM has loaded up to now, unless it exists.
        ``class_path`` is that of the JVM."""
        with contextlib.suppress(OSError):
            others = self.archive.parent.glob(f"{self.archive.name}.*")  # of another process that makes the archive
            if self.loaded.exists() and not self.archive.exists() and not any(others):
                listed = self.loaded.with_suffix(".loaded")
                lines = self.loaded.read_bytes()
                listed.write_bytes(lines[: lines.rfind(b"\n") + 1])  # the JVM may be writing the last line
                subprocess.Popen(
                    ["sh", "-c", _MAKE, "sh", self.java, listed, self.archive, class_path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def discard(self) -> None:
        """Delete the list of this process's JVM."""
        self.loaded.unlink(missing_ok=True)


def shared_classes() -> SharedClasses | None:
    """The classes that this process's JVM shares. None when that is turned off or not possible: it is a convenience."""
    if os.environ.get("PENSTOCK_CLASS_SHARING", "").lower() in {"off", "0", "false", "no"}:
        return None
    try:
        java = _java()
        folder = cache_folder() / "spark-classes"
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / f"pyspark-{__version__}-{_key(java)}.jsa"
        with contextlib.suppress(FileNotFoundError):
            os.utime(archive)  # used now: others go first
        _prune(folder)
        return SharedClasses(java, archive, archive.with_suffix(f".{os.getpid()}.list"))
    except OSError:
        return None


def _java() -> Path:
    """The Java that Spark's launcher takes."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else shutil.which("java")
    if found is None:
        raise FileNotFoundError("java")
    return Path(found).resolve(strict=True)


def _key(java: Path) -> str:
    """Changes with Java's version, Spark's jars and the class path."""
    home, jars = java.parents[1], Path(_find_spark_home()) / "jars"
    parts = [str(java), str(jars), str(jars.stat().st_mtime_ns)]
    for each in (home / "release", home / "lib" / "server" / "libjvm.so"):
        parts.append(str(each.stat().st_mtime_ns) if each.exists() else "")
    parts += [os.environ.get(name, "") for name in _PATHS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _prune(folder: Path) -> None:
    """Delete the files that no process will use again."""
    changed = {}
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process deletes what it made an archive of
            changed[path] = path.stat().st_mtime
    archives = sorted((path for path in changed if path.suffix == ".jsa"), key=changed.__getitem__)
    left = [path for path in changed if path.suffix != ".jsa" and time.time() - changed[path] > _ABANDONED_SECONDS]
    for path in archives[:-_KEPT] + left:
        path.unlink(missing_ok=True)
