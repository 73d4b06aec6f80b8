"""Files of tables: listing, reading and writing them, without Spark."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from penstock.connectors.filesystem import metadata
from penstock.connectors.filesystem.spec import FilesystemScanSpec, FilesystemSinkSpec
from penstock.errors import CheckpointError, ExecutionError, RecordError
from penstock.spi import NotNull, formats, missing_text
from penstock.types import arrow_schema

#: The rows of a batch of Parquet, and the bytes of lines that are decoded at once.
_ROWS = 50_000
_BYTES = 16 << 20
_NEWLINE, _RETURN = 10, 13
#: Writes the rows that it is sent.
_Encoder = Generator[None, pa.RecordBatch, None]


@dataclass(frozen=True)
class File:
    """A file of a table and its size in bytes, which reveals that a file has changed."""

    path: str
    size: int


@dataclass(frozen=True)
class Folder:
    """The place of a table's files."""

    system: fs.FileSystem
    root: str

    @classmethod
    def from_path(cls, path: str) -> Folder:
        """The folder of a path or URI. Raises ExecutionError for a file system that PyArrow does not know."""
        try:
            if ":" in path.split("/", 1)[0]:
                return cls(*fs.FileSystem.from_uri(path))
            return cls(fs.LocalFileSystem(), os.path.abspath(path))
        except (OSError, ValueError) as error:
            hint = "write a path of this machine, or a URI that PyArrow opens, such as s3://bucket/folder"
            raise ExecutionError(f"path '{path}': {error}; {hint}") from error

    @property
    def uri(self) -> str:
        """The place, the same however a path or URI names it."""
        return f"{self.system.type_name}:{self.root.rstrip('/')}"

    def files(self) -> list[File]:
        """All files that are not hidden, by name. Raises ExecutionError if there is no such folder or file."""
        try:
            info = self.system.get_file_info(self.root)
            if info.type is fs.FileType.File:
                return [File(info.path, info.size)]
            infos = self.system.get_file_info(fs.FileSelector(self.root, recursive=True))
        except OSError as error:
            hint = "check that the folder exists and may be read"
            raise ExecutionError(f"path '{self.root}' cannot be read: {error}; {hint}") from error
        return sorted((File(each.path, each.size) for each in infos if self._visible(each)), key=lambda each: each.path)

    def _visible(self, info: fs.FileInfo) -> bool:
        hidden = any(part.startswith((".", "_")) for part in self._relative_path(info).parts)
        return info.type is fs.FileType.File and not hidden

    def delete(self, path: str) -> None:
        """Delete the file of that path in the folder, if it is there."""
        with suppress(FileNotFoundError):
            self.system.delete_file(f"{self.root}/{path}")

    def reveal(self, hidden: str) -> None:
        """Rename a hidden file to its name without the dot."""
        self.system.move(f"{self.root}/{hidden}", f"{self.root}/{_visible_path(hidden)}")

    def names(self, prefix: str) -> list[str]:
        """The files whose names begin with this prefix, in subfolders too: their paths in the folder."""
        if self.system.get_file_info(self.root).type is fs.FileType.NotFound:
            return []
        infos = self.system.get_file_info(fs.FileSelector(self.root, recursive=True))
        return sorted(str(self._relative_path(each)) for each in infos if each.base_name.startswith(prefix))

    def visible(self) -> list[str]:
        """The files that are not hidden: their paths in the folder. There are none if there is no folder."""
        if self.system.get_file_info(self.root).type is fs.FileType.NotFound:
            return []
        infos = self.system.get_file_info(fs.FileSelector(self.root, recursive=True))
        return sorted(str(self._relative_path(each)) for each in infos if self._visible(each))

    def _relative_path(self, info: fs.FileInfo) -> PurePosixPath:
        return PurePosixPath(info.path).relative_to(self.root)


# --- reading -----------------------------------------------------------------------------------------------------


def read(scan: FilesystemScanSpec, file: File) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
    """The rows of a file, and the number of each: of its line, or of its row, from 0.

    Raises CheckpointError for a file that has changed, RecordError for a line that cannot be decoded, and
    ExecutionError for a file that cannot be read.
    """
    folder = Folder.from_path(scan.options.path)
    try:
        info = folder.system.get_file_info(file.path)
        size = info.size
        if size != file.size:
            reason = "is not there any more" if size is None else f"has {size} bytes"
            raise CheckpointError(
                f"file '{file.path}' of table '{scan.table}' {reason}; it had {file.size} bytes when the job began. "
                "Put it back as it was, or start with another checkpoint directory"
            )
        rows = _read_parquet(scan, folder, file) if scan.format is None else _read_lines(scan, folder, file)
        constants = metadata.values(info, scan.schema, scan.metadata)
        if scan.partitions is not None:
            constants |= scan.partitions.values(file.path)
        not_null = NotNull(scan.schema)
        for each, numbers in rows:
            joined = _add_constants(each, constants, scan.schema.names) if constants else each
            yield _drop_incomplete(joined, numbers, not_null, scan, file)
    except (OSError, pa.ArrowException) as error:
        raise ExecutionError(
            f"file '{file.path}' of table '{scan.table}' cannot be read: {error}; check that the file is complete and "
            "may be read"
        ) from error


def _drop_incomplete(
    batch: pa.RecordBatch, numbers: NDArray[np.int64], not_null: NotNull, scan: FilesystemScanSpec, file: File
) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """Rows of a file, without the ones that lack a required value, and their numbers. Raises RecordError for the first
    such row unless the user ignores them."""
    missing = not_null.missing(dict(zip(batch.schema.names, batch.columns, strict=True)))
    if not missing:
        return batch, numbers
    incomplete = np.logical_or.reduce([mask for _, mask in missing])
    if _ignores_errors(scan):
        kept = ~np.isin(numbers, numbers[incomplete])  # a line may have several rows
        return batch.filter(pa.array(kept)), numbers[kept]
    first = int(np.argmax(incomplete))
    column = next(name for name, mask in missing if mask[first])
    place = f"file '{file.path}', {'row' if scan.format is None else 'line'} {numbers[first] + 1}"
    raise RecordError(
        f"{place}: {missing_text(scan.schema, column)}",
        field=column,
        hint=f"look at the file, or declare '{column}' without NOT NULL to read such rows",
    )


def _ignores_errors(scan: FilesystemScanSpec) -> bool:
    if scan.format is None:
        return False
    return formats.get(scan.format.identifier).decoder(scan.stored, scan.format.options).ignores_errors


def _add_constants(batch: pa.RecordBatch, values: Mapping[str, pa.Scalar], names: Sequence[str]) -> pa.RecordBatch:
    """Rows of a file with the columns that have one value for all of them, in the order of ``names``."""
    count = batch.num_rows
    columns = [pa.repeat(values[name], count) if name in values else batch.column(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _read_parquet(
    scan: FilesystemScanSpec, folder: Folder, file: File
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
    """Columns by name; NULL where the file does not have one."""
    schema, first = arrow_schema(scan.stored), 0
    with folder.system.open_input_file(file.path) as opened:
        # Timestamps of 96 bits, which Hive, Flink and old Spark write, may be out of the range of 64-bit nanoseconds.
        parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        there = parquet.schema_arrow.names
        chosen = [name for name in schema.names if name in there] or there[:1]
        for batch in parquet.iter_batches(_ROWS, columns=chosen):
            columns = [
                _cast(batch.column(each.name), each.type) if each.name in there else pa.nulls(batch.num_rows, each.type)
                for each in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema), np.arange(first, first + batch.num_rows)
            first += batch.num_rows


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of a file, cast to the type of the table's column. Digits of a second beyond microseconds are
    truncated."""
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        nanos = column.cast(pa.timestamp("ns")).view(pa.int64())
        down = pc.subtract(nanos, pc.if_else(pc.less(nanos, 0), 999, 0))
        return pc.divide(down, 1000).view(pa.timestamp("us")).view(wanted)
    return column.cast(wanted)


def describe_place(scan: FilesystemScanSpec, file: File, number: int) -> str:
    """Where the line, or the row in a file of Parquet, with a ``number`` from 0 is."""
    return f"file '{file.path}', {'row' if scan.format is None else 'line'} {number + 1}"


def _read_lines(
    scan: FilesystemScanSpec, folder: Folder, file: File
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
    assert scan.format is not None  # noqa: S101
    decoder = formats.get(scan.format.identifier).decoder(scan.stored, scan.format.options)
    with folder.system.open_input_stream(file.path) as stream:  # one that is compressed, by its name, too
        for messages, numbers in lines(stream):
            decoded = decoder.decode(messages)
            if decoded.bad and not decoder.ignores_errors:
                bad = min(decoded.bad, key=lambda each: each.index)
                place = describe_place(scan, file, int(numbers[bad.index]))
                name = scan.format.identifier
                hint = f"look at the line; '{name}.ignore-parse-errors' = 'true' leaves lines like it out"
                raise RecordError(bad.reason, format=name, field=bad.field, hint=hint, place=place)
            yield decoded.rows, numbers if decoded.origin is None else numbers[decoded.origin]


def lines(stream: pa.NativeFile) -> Iterator[tuple[pa.BinaryArray, NDArray[np.int64]]]:
    """The lines of a file that are not empty, and their numbers from 0."""
    first, rest = 0, b""
    while True:
        block = stream.read(_BYTES)
        if block:
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest += block
                continue
            whole, rest = rest + block[:cut], block[cut:]
        elif rest:
            whole, rest = rest + b"\n", b""
        else:
            return
        messages = _split(np.frombuffer(whole, np.uint8))
        lengths = np.diff(np.frombuffer(messages.buffers()[1], np.int32)[: len(messages) + 1])
        kept = np.flatnonzero(lengths)
        yield messages.take(pa.array(kept)) if len(kept) < len(messages) else messages, first + kept
        first += len(messages)


def _split(text: NDArray[np.uint8]) -> pa.BinaryArray:
    """The lines of text that ends with a line's end."""
    ends = text == _NEWLINE
    dropped = ends.copy()
    dropped[:-1] |= (text[:-1] == _RETURN) & ends[1:]
    before = np.cumsum(~dropped, dtype=np.int32)
    offsets = np.concatenate(([0], before[ends])).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text[~dropped])]
    )


# --- writing -----------------------------------------------------------------------------------------------------


class Files:
    """The files of one task, called ``name``: one file, or one in each partition's folder; none without rows.

    All methods raise RecordError for a row that cannot be encoded, and ExecutionError if a file cannot be written.
    """

    def __init__(self, sink: FilesystemSinkSpec, name: str):
        self._sink, self._name = sink, name
        self._folder = Folder.from_path(sink.options.path)
        self._written = Counter[str]()
        self._encoders: dict[str, _Encoder] = {}
        self._opened = ExitStack()

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows."""
        with self._translate_errors():
            for place, batch in _split_by_folder(self._sink, rows):
                path = f"{place}/{self._name}" if place else self._name
                if path not in self._encoders:
                    self._open(path, place)
                self._encoders[path].send(batch)
                self._written[path] += batch.num_rows

    def finish(self) -> dict[str, int]:
        """Complete the files, durably. Returns the number of rows by the path of the file."""
        with self._translate_errors():
            self._opened.close()
            sync_paths(self._folder, *self._written)
        return dict(self._written)

    def close(self) -> None:
        """Close the files, which are not complete after an error."""
        with suppress(OSError, pa.ArrowException):
            self._opened.close()

    def _open(self, path: str, place: str) -> None:
        system, root = self._folder.system, self._folder.root
        system.create_dir(f"{root}/{place}".rstrip("/"), recursive=True)
        stream = self._opened.enter_context(system.open_output_stream(f"{root}/{path}", compression=None))
        encoder = (
            _write_lines(self._sink, stream) if self._sink.format is not None else _write_parquet(self._sink, stream)
        )
        next(encoder)
        self._opened.callback(encoder.close)
        self._encoders[path] = encoder

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise ExecutionError(
                f"table '{self._sink.table}': '{self._folder.root}/{self._name}' cannot be written: {error}; check the "
                "folder's rights and free space"
            ) from error


def _split_by_folder(sink: FilesystemSinkSpec, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows by their folders."""
    if sink.partitions is not None:
        yield from sink.partitions.split(rows)
    elif rows.num_rows:
        yield "", rows


def _write_parquet(sink: FilesystemSinkSpec, stream: pa.NativeFile) -> _Encoder:
    schema = arrow_schema(sink.stored)
    with pq.ParquetWriter(stream, schema) as writer:
        while True:
            batch = yield
            columns = [column.cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _write_lines(sink: FilesystemSinkSpec, stream: pa.NativeFile) -> _Encoder:
    assert sink.format is not None  # noqa: S101
    encoder = formats.get(sink.format.identifier).encoder(sink.stored, sink.format.options)
    while True:
        messages = encoder.encode((yield))
        _check_lines(messages, sink.table, sink.format.identifier)
        written = pc.binary_join_element_wise(messages, b"", b"\n")
        _, offsets, text = written.buffers()
        first, last = np.frombuffer(offsets, np.int32)[[written.offset, written.offset + len(written)]]
        stream.write(text.slice(first, last - first))


def _check_lines(messages: pa.Array, table: str, format: str) -> None:
    """Raises RecordError for a row that would not be exactly one line, and so could not be read back."""
    broken = pc.or_(pc.equal(pc.binary_length(messages), 0), pc.match_substring(messages, b"\n"))
    at = pc.index(broken, True).as_py()
    if at >= 0:
        empty = not messages[at].as_buffer().size
        reason = (
            "it is an empty line, which readers skip" if empty else "it has a line feed, where a reader ends the row"
        )
        hint = "set 'csv.null-literal'" if empty else "use 'format' = 'json' or 'parquet'"
        raise RecordError(f"table '{table}': a row cannot be a line of a file: {reason}", format=format, hint=hint)


def sync_paths(folder: Folder, *paths: str) -> None:
    """Wait until files and folders in the folder are on the disk, where this machine has them. Other file systems have
    them when they are closed."""
    if not isinstance(folder.system, fs.LocalFileSystem):
        return
    for path in paths:
        opened = os.open(f"{folder.root}/{path}", os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def hidden_name(prefix: str, run: str, task: int, attempt: str, format: str) -> str:
    """The name of a task's file before it appears. The names of a batch begin with ``prefix``. Two runs may write one
    batch at the same time, whose files ``run`` distinguishes."""
    return f".{prefix}{run}-{task:05d}-{attempt}.{format}"


def publish(sink: FilesystemSinkSpec, prefix: str, hidden: Sequence[str]) -> None:
    """Make the files of a batch visible, and delete those that other attempts at it have written. The names of all
    begin with ``prefix``, those that are ``hidden`` behind a dot, each by its path.

    Another run may publish the batch meanwhile. Other runs' files are deleted only when all own files have appeared, so
    one of the two runs has all of its files there in the end. A run whose hidden files are gone was too late: it
    removes its files, and the other run's stay. Raises ExecutionError.
    """
    folder = Folder.from_path(sink.options.path)
    try:
        former = folder.names(prefix)
        own = _reveal_files(folder, sink.table, hidden)
        for name in {*former, *folder.names(f".{prefix}")} - own:
            folder.delete(name)
        _sync_folders(folder, {*former, *own})
    except OSError as error:
        raise ExecutionError(
            f"table '{sink.table}': files of '{folder.root}' cannot be renamed: {error}; check the folder's rights, "
            "then start the job again"
        ) from error


def overwrite(sink: FilesystemSinkSpec, prefixes: Sequence[str], written: Collection[str]) -> None:
    """Delete the files that were in the table before; in a table with partitions, only in the folders to which files
    are ``written`` (by their hidden names). Files whose names begin with one of the ``prefixes`` belong to the batch,
    whichever run wrote them, and stay. Raises ExecutionError."""
    folder = Folder.from_path(sink.options.path)
    within = {PurePosixPath(each).parent for each in written} if sink.partitions is not None else {PurePosixPath()}
    try:
        gone = [name for name in folder.visible() if _is_former(PurePosixPath(name), prefixes, within)]
        for name in gone:
            folder.delete(name)
        _sync_folders(folder, gone)
    except OSError as error:
        raise ExecutionError(
            f"table '{sink.table}': files of '{folder.root}' cannot be deleted: {error}; check the folder's rights, "
            "then start the job again"
        ) from error


def _is_former(path: PurePosixPath, prefixes: Sequence[str], within: Collection[PurePosixPath]) -> bool:
    return not path.name.startswith(tuple(prefixes)) and any(each in within for each in path.parents)


def _reveal_files(folder: Folder, table: str, hidden: Sequence[str]) -> set[str]:
    """Rename hidden files to their visible names, durably, all or none. Returns their paths."""
    own = set(map(_visible_path, hidden))
    try:
        for name in hidden:
            folder.reveal(name)
        _sync_folders(folder, own)
    except OSError as error:
        with suppress(OSError):
            for name in (*own, *hidden):
                folder.delete(name)
        if isinstance(error, FileNotFoundError):
            raise ExecutionError(
                f"table '{table}': a file that was written to '{folder.root}' is gone before its batch was published: "
                f"{error}. Another run of the job has published the batch, or another program deletes hidden files "
                "there: let only one of them run"
            ) from error
        raise
    return own


def _sync_folders(folder: Folder, paths: Collection[str]) -> None:
    """Wait until the folders of these files, and those around them, are on the disk."""
    sync_paths(folder, *{parent for path in paths for parent in map(str, PurePosixPath(path).parents)})


def _visible_path(hidden: str) -> str:
    """The path of a hidden file when it has appeared."""
    path = PurePosixPath(hidden)
    return str(path.with_name(path.name.removeprefix(".")))
