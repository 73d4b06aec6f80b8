"""How a ``filesystem`` table is read and written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.connectors.filesystem.options import FilesystemOptions
from penstock.connectors.filesystem.partitions import Partitions
from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import (
    INSERTIONS,
    AnySettings,
    FormatSpec,
    Guarantee,
    ScanCapabilities,
    SinkCapabilities,
    SinkSpec,
)
from penstock.types import RowType


def normalize_folder(path: str) -> str:
    """The folder of a path or URI: one text for a folder of this machine, however it is named."""
    scheme, separator, rest = path.partition(":")
    if separator and "/" not in scheme:
        return f"{scheme}:{rest}" if scheme != "file" else os.path.abspath("/" + rest.lstrip("/"))
    return os.path.abspath(path)


@dataclass(frozen=True, kw_only=True)
class FilesystemSpec(AnySettings):
    """A table of ``schema`` in files. ``format`` is the format of their lines, None for Parquet. ``partitions`` are the
    columns that name folders, and ``metadata`` the columns that say which file a row is from, each with its key; they
    are not in the files."""

    table: str
    options: FilesystemOptions
    schema: RowType
    format: FormatSpec | None
    partitions: Partitions | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def stored(self) -> RowType:
        """The columns that are in the files."""
        folders = self.partitions.columns.names if self.partitions is not None else ()
        others = {*folders, *(name for name, _ in self.metadata)}
        return self.schema.select(tuple(name for name in self.schema.names if name not in others))

    def _describe_side(self, side: str) -> str:
        text = f"filesystem {side} '{self.table}'\n  path: {self.options.path}\n  format: {self.options.format}"
        text += f"\n  partitioned by: {', '.join(self.partitions.columns.names)}" if self.partitions else ""
        columns = ", ".join(f"{name} from {key}" for name, key in self.metadata)
        text += f"\n  metadata: {columns}" if columns else ""
        return "".join((text, *(f"\n  note: {note}" for note in self.notes)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on options that have no effect."""
        return tuple(f"'{key}' has no effect: {why}" for key, why in self.options.remarks)


@dataclass(frozen=True, kw_only=True)
class FilesystemScanSpec(FilesystemSpec):
    """Reads the files that are there when the job starts for the first time."""

    @property
    def capabilities(self) -> ScanCapabilities:
        """The table ends with its last file."""
        folder = normalize_folder(self.options.path)
        return ScanCapabilities(kinds=INSERTIONS, bounded=True, metadata=self.metadata, folder=folder)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None: a line that cannot be decoded fails the job, or is ignored if the format's options say so."""

    def describe(self) -> str:
        """A human-readable description."""
        return self._describe_side("scan")


@dataclass(frozen=True, kw_only=True)
class FilesystemSinkSpec(FilesystemSpec):
    """Writes new files; with ``overwrite``, deletes all others."""

    overwrite: bool = False

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """A problem for INSERT OVERWRITE on a stream, as in Flink."""
        if not self.overwrite or settings.batch:
            return ()
        reason = "INSERT OVERWRITE needs batch mode: a stream has no end at which earlier files could be deleted"
        hint = "set 'execution.runtime-mode' to 'BATCH', or write INSERT INTO"
        return (Problem(reason, where=f"table '{self.table}'", hint=hint),)

    @property
    def capabilities(self) -> SinkCapabilities:
        """At least once: a batch that is published again replaces its files, which may have been read before."""
        return SinkCapabilities(
            kinds=INSERTIONS,
            guarantee=Guarantee.AT_LEAST_ONCE,
            destinations=(f"path '{self.options.path}'",),
            overwrites=normalize_folder(self.options.path) if self.overwrite else "",
        )

    def describe(self) -> str:
        """A human-readable description."""
        return self._describe_side("sink") + ("\n  overwrites: earlier files" if self.overwrite else "")
