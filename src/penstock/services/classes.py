"""The JVM's archives of loaded classes, with which a server starts in less than half the time."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.downloads import Progress
from penstock.services.folders import locked
from penstock.services.java import Java


def class_archive(
    folder: Path, java: Java, name: str, train: Callable[[Path, Sequence[str]], None], progress: Progress
) -> Path | None:
    """The archive in ``folder`` with which this Java starts a server. ``name`` is what people call the server.

    Made once: ``train`` starts and stops one, in the folder and with the options of the JVM that it is given. A
    convenience: None when it cannot be made.
    """
    archive = folder / f"java-{java.version}-{zlib.crc32(bytes(java.home)):08x}.jsa"
    if archive.exists():
        return archive
    with locked(archive.with_suffix(".lock"), lambda: progress(f"waiting for another process that prepares {name}")):
        if archive.exists():
            return archive
        progress(f"preparing {name} for quick starts (once)")
        with tempfile.TemporaryDirectory(prefix="archive-", dir=folder) as scratch:
            fresh = Path(scratch) / "fresh.jsa"
            try:
                train(Path(scratch), [f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"])
                fresh.rename(archive)
            except (ServiceError, OSError) as error:
                progress(f"quick starts cannot be prepared: {error}")
                return None
    return archive


def sharing(archive: Path | None) -> tuple[str, ...]:
    """Options of the JVM that use an archive, without its warnings: where it does not fit, the JVM does without."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if archive else ()
