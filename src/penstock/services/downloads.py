"""Files of Maven repositories, fetched once per user by the Ivy that PySpark carries.

A folder in the cache is made under another name and renamed when it is complete, and it holds the checksum of every
file: a folder that was half filled or damaged is never used.
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
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.folders import locked
from penstock.services.java import Java

#: Told what is going on while something takes long: one short line.
Progress = Callable[[str], None]

_MANIFEST = "manifest.json"
#: What checksums are kept of. Other files in such a folder are made on the machine, as archives of classes are.
_SUMMED = ("*.jar", "*.dat")


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
    raise ServiceError("no PySpark with its jars is installed, which fetches servers; check with `pip install pyspark`")


def intact(folder: Path) -> bool:
    """Whether ``folder`` was filled by :func:`fetched`, and nothing in it has changed since."""
    try:
        expected = json.loads((folder / _MANIFEST).read_text())
        return bool(expected) and expected == _checksums(folder)
    except (OSError, ValueError):
        return False


def fetched(folder: Path, name: str, fill: Callable[[Path, Path], None], progress: Progress) -> None:
    """Has ``folder`` filled, unless it is intact; one process at a time does.

    ``fill`` is given the folder to make and fill, and one for what is only needed meanwhile. ``name`` is what people
    call what is fetched.
    """
    if intact(folder):
        return
    with locked(
        folder.with_name(f"{folder.name}.lock"), lambda: progress(f"waiting for another process that fetches {name}")
    ):
        if intact(folder):
            return
        if folder.exists():
            progress(f"{folder} is damaged and is fetched again")
            shutil.rmtree(folder)
        scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        try:
            ready = scratch / "ready"
            fill(ready, scratch)
            (ready / _MANIFEST).write_text(json.dumps(_checksums(ready), indent=1))
            ready.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _checksums(folder: Path) -> dict[str, str]:
    sums = {}
    for path in sorted(found for pattern in _SUMMED for found in folder.rglob(pattern)):
        with path.open("rb") as handle:
            sums[str(path.relative_to(folder))] = hashlib.file_digest(handle, "sha256").hexdigest()
    return sums


def run_ivy(
    java: Java,
    arguments: Sequence[str],
    target: Path,
    wanted: str,
    *,
    scratch: Path,
    name: str,
    otherwise: Path,
    progress: Progress,
) -> None:
    """Retrieves files into ``target``; ``wanted`` has to be among them.

    The settings file of Ivy may be named by PENSTOCK_IVY_SETTINGS, for a mirror of Maven Central.

    Raises:
        ServiceError: they could not be fetched; what Ivy said is quoted. ``otherwise`` is the folder to copy from
            another machine instead.
    """
    ivy = next(spark_jars_folder().glob("ivy-*.jar"))
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    command = [
        str(java.executable), "-jar", str(ivy), *(["-settings", settings] if settings else []), *arguments,
        "-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]", "-cache", str(scratch / "ivy"),
    ]  # fmt: skip
    said: deque[str] = deque(maxlen=400)
    files = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                said.append(line.rstrip())
                if "[SUCCESSFUL ]" in line and re.search(r"\.(jar|tar\.gz)\b", line):
                    files += 1
                    progress(f"fetching {name}: {files} files")
        except BaseException:
            process.kill()
            raise
    if process.returncode or not (target / wanted).exists():
        told = [line for line in said if "::" not in line and re.search(r"WARN|ERROR|not found|rror:|xception", line)]
        raise ServiceError(
            f"{name} could not be fetched:\n" + "\n".join(told[-8:] or list(said)[-8:]) + "\n"
            "check that this version exists and that Maven Central can be reached (for a mirror, PENSTOCK_IVY_SETTINGS "
            f"names an Ivy settings file), or copy {otherwise} from a machine that has it"
        )
    progress(f"fetched {name}: {len(list(target.iterdir()))} files")
