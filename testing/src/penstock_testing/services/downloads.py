"""Programs from Maven repositories, fetched once per user by the Ivy that PySpark carries.

A program's folder in the cache is filled under another name and renamed when it is complete. It holds the checksums of
its files: a folder that is half filled or damaged is never used.
"""

from __future__ import annotations

import hashlib
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
from penstock.machine.java import Java
from penstock.machine.packages import spark_jars_folder
from penstock_testing.services.locks import lock_file

#: Called with a short line at each step that takes long.
Progress = Callable[[str], None]

_MANIFEST = "manifest.json"
#: Files with a checksum. Others in a program's folder, as archives of classes, are made on the machine.
_SUMMED = ("*.jar", "*.dat")


@dataclass(frozen=True)
class Download:
    """A program that is fetched into ``folder``.

    Args:
        name: what people call it.
        size: the megabytes to fetch.
        dependency: Ivy's arguments, or a whole Ivy file, that say what to fetch.
        file: the name of a file that must be among those fetched.
    """

    name: str
    folder: Path
    size: int
    dependency: tuple[str, ...] | str
    file: str

    def intact(self) -> bool:
        """Whether the folder is complete, and nothing in it has changed since."""
        try:
            expected = json.loads((self.folder / _MANIFEST).read_text())
            return bool(expected) and expected == _checksums(self.folder)
        except (OSError, ValueError):
            return False

    def fetch(self, java: Java, install: Callable[[Path, Path], None], progress: Progress) -> None:
        """Fills the folder unless it is intact. One process at a time does.

        ``install`` gets the folder of the files that were fetched, and the path of the folder to make of them.

        Raises:
            ServiceError: the files cannot be fetched; Ivy's output is quoted.
        """
        if self.intact():
            return
        folder = self.folder
        with lock_file(
            folder.with_name(f"{folder.name}.lock"),
            lambda: progress(f"waiting for another process that fetches {self.name}"),
        ):
            if self.intact():
                return
            if folder.exists():
                progress(f"{folder} is damaged and is fetched again")
                shutil.rmtree(folder)
            with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as scratch:
                files, ready = Path(scratch) / "files", Path(scratch) / "ready"
                self._run_ivy(java, files, progress)
                install(files, ready)
                (ready / _MANIFEST).write_text(json.dumps(_checksums(ready), indent=1))
                ready.rename(folder)

    def _run_ivy(self, java: Java, files: Path, progress: Progress) -> None:
        """Retrieves into ``files``. The environment variable PENSTOCK_IVY_SETTINGS may name a settings file of Ivy."""
        progress(f"fetching {self.name} (about {self.size} MB, once)")
        ivy = next(spark_jars_folder().glob("ivy-*.jar"))
        settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
        dependency = self.dependency
        if isinstance(dependency, str):
            file = files.with_name("ivy.xml")
            file.write_text(dependency)
            dependency = ("-ivy", str(file), "-confs", "default")
        command = [
            str(java.executable), "-jar", str(ivy), *(["-settings", settings] if settings else []), *dependency,
            "-retrieve", f"{files}/[artifact]-[revision](-[classifier]).[ext]", "-cache", str(files.with_name("ivy")),
        ]  # fmt: skip
        output: deque[str] = deque(maxlen=400)
        count = 0
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            try:
                for line in process.stdout or ():
                    output.append(line.rstrip())
                    if "[SUCCESSFUL ]" in line and re.search(r"\.(jar|tar\.gz)\b", line):
                        count += 1
                        progress(f"fetching {self.name}: {count} files")
            except BaseException:
                process.kill()
                raise
        if process.returncode or not (files / self.file).exists():
            errors = r"WARN|ERROR|not found|rror:|xception"
            telling = [line for line in output if "::" not in line and re.search(errors, line)] or list(output)
            raise ServiceError(
                f"{self.name} could not be fetched:\n" + "\n".join(telling[-8:]) + "\n"
                "check that this version exists and that Maven Central can be reached (for a mirror, "
                "PENSTOCK_IVY_SETTINGS names an Ivy settings file), or copy the folder "
                f"{self.folder} from a machine that has it"
            )
        progress(f"fetched {self.name}: {len(list(files.iterdir()))} files")


def _checksums(folder: Path) -> dict[str, str]:
    sums = {}
    for path in sorted(found for pattern in _SUMMED for found in folder.rglob(pattern)):
        with path.open("rb") as handle:
            sums[str(path.relative_to(folder))] = hashlib.file_digest(handle, "sha256").hexdigest()
    return sums
