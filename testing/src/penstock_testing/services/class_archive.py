"""The JVM's archives of loaded classes, with which a server starts in less than half the time."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.class_sharing import SILENT, sharing_options
from penstock.machine.java import Java
from penstock_testing.services.downloads import Progress
from penstock_testing.services.locks import lock_file

_MAKE = "-XX:ArchiveClassesAtExit="


def shared_classes(
    folder: Path,
    java: Java,
    name: str,
    server: Callable[..., AbstractContextManager[object]],
    jvm_options: Sequence[str],
    progress: Progress,
) -> tuple[str, ...]:
    """Options with which this Java starts a server quickly: they name an archive in ``folder``, which is made once.

    Making it starts and stops a ``server``, made with ``data`` and ``jvm_options``. The archive is a convenience: if it
    cannot be made, there are no options. ``name`` is what people call the server.
    """
    if any(option.startswith(_MAKE) for option in jvm_options):  # this is the server that makes it
        return ()
    archive = folder / f"java-{java.version}-{zlib.crc32(bytes(java.home)):08x}.jsa"
    if archive.exists():
        return sharing_options(archive)
    with lock_file(archive.with_suffix(".lock"), lambda: progress(f"waiting for another process that prepares {name}")):
        if archive.exists():
            return sharing_options(archive)
        progress(f"preparing {name} for quick starts (once)")
        with tempfile.TemporaryDirectory(prefix="archive-", dir=folder) as scratch:
            fresh = Path(scratch) / "fresh.jsa"
            try:
                with server(data=Path(scratch) / "data", jvm_options=[f"{_MAKE}{fresh}", *SILENT]):
                    pass
                fresh.rename(archive)
            except (ServiceError, OSError) as error:
                progress(f"quick starts cannot be prepared: {error}")
                return ()
    return sharing_options(archive)
