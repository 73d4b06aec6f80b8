"""Options of JVMs that map an archive of loaded classes: Java's class-data sharing."""

from __future__ import annotations

from pathlib import Path

#: The JVM does not warn of an archive that does not fit.
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def sharing_options(archive: Path) -> tuple[str, ...]:
    """Options of a JVM that use an archive. Where it does not fit, the JVM does without, and does not warn."""
    return (f"-XX:SharedArchiveFile={archive}", *SILENT)
