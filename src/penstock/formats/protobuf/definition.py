"""The protobuf message of a table's rows, from a descriptor file or from a compiled .proto file.

Files are read when the table is defined. Tasks get the bytes of the descriptors and need no file.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from penstock.errors import OptionsError, Problem, nearest
from penstock.formats.protobuf.java_names import list_java_names
from penstock.formats.shared.codec import Picklable

_INSTALL = "pip install '.[protobuf]', or set 'descriptor-file'"
_DESCRIBE = "write it with protoc --include_imports --descriptor_set_out=FILE"
#: Output lines of protoc that are not errors: its warnings and its library's log.
_WARNING = re.compile(r"(?i:warning): |.*: warning: |[IW][0-9]{4} ")


class _Unusable(Exception):
    """An option is wrong, for these reasons; the hint says what to do."""

    def __init__(self, key: str, *reasons: str, hint: str = ""):
        super().__init__(key, reasons)
        self.problems = tuple(Problem(reason, key, hint=hint) for reason in reasons)


@dataclass(frozen=True)
class Definition(Picklable):
    """The message ``name`` and the files that describe it, as the bytes of a FileDescriptorSet; or the problems.

    The ``key`` of a ``Problem`` is an option.
    """

    files: bytes = b""
    name: str = ""
    problems: tuple[Problem, ...] = ()

    @classmethod
    def load(
        cls, name: str | None, descriptor_file: str | None, proto_file: str | None, proto_path: tuple[str, ...]
    ) -> Definition:
        """Read or compile the given file, and find the message in it.

        ``name`` is the full name of the message, or of the Java class that protoc generates for it, as in Flink. Parts
        of the file that the message does not need are dropped. Without a name only the files are checked. Errors are
        returned in ``problems``, not raised.
        """
        try:
            if (descriptor_file is None) == (proto_file is None):
                raise _Unusable("descriptor-file", "set either this option or 'proto-file'")
            if proto_path and proto_file is None:
                raise _Unusable("proto-path", "is only for 'proto-file'")
            key = "proto-file" if descriptor_file is None else "descriptor-file"
            data = (
                _read_file(key, descriptor_file) if descriptor_file is not None else _run_protoc(proto_file, proto_path)
            )
            files = _parse_files(key, data)
            if name is None:
                return cls()
            found = _find_message(files, name)
            _build(key, files)
            return cls(_select_files(files, found).SerializeToString(deterministic=True), found)
        except _Unusable as error:
            return cls(problems=error.problems)

    @cached_property
    def message(self) -> Any:
        """The message's descriptor. Raises OptionsError if there is none."""
        if self.problems:
            raise OptionsError(self.problems)
        pool = DescriptorPool()
        for each in FileDescriptorSet.FromString(self.files).file:
            pool.Add(each)
        return pool.FindMessageTypeByName(self.name)


def _read_file(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _Unusable(key, f"cannot read '{path}': {error.strerror}") from error


def _run_protoc(proto_file: str | None, proto_path: tuple[str, ...]) -> bytes:
    """The descriptors that protoc generates from a .proto file. The file's folder is searched after ``proto_path``."""
    path = Path(proto_file or "")
    if not path.is_file():
        raise _Unusable("proto-file", f"there is no file '{path}'")
    missing = [root for root in proto_path if not Path(root).is_dir()]
    if missing:
        raise _Unusable("proto-path", *(f"there is no folder '{root}'" for root in missing))
    if importlib.util.find_spec("grpc_tools") is None:
        raise _Unusable("proto-file", "compiling a .proto file needs the package grpcio-tools", hint=_INSTALL)
    roots = [Path(root).resolve() for root in proto_path]
    roots += [] if any(path.resolve().is_relative_to(root) for root in roots) else [path.resolve().parent]
    with TemporaryDirectory() as folder:
        out = Path(folder, "descriptors")
        arguments = [*(f"-I{root}" for root in roots), "--include_imports", f"--descriptor_set_out={out}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *arguments, str(path.resolve())]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return out.read_bytes()
    said = [line for line in ran.stderr.splitlines() if line.strip() and not _WARNING.match(line)]
    raise _Unusable("proto-file", *(said or [f"protoc exited with status {ran.returncode} and no message"]))


def _parse_files(key: str, data: bytes) -> list[FileDescriptorProto]:
    """The files, each after its imports and without extensions of other messages, which are skipped when reading."""
    try:
        found = {each.name: each for each in FileDescriptorSet.FromString(data).file}
    except DecodeError as error:
        raise _Unusable(key, "not a set of protobuf descriptors", hint=_DESCRIBE) from error
    missing = sorted({name for each in found.values() for name in each.dependency if name not in found})
    if missing:
        raise _Unusable(key, *(f"it imports '{name}', which is not in it" for name in missing), hint=_DESCRIBE)
    if not any(each.message_type for each in found.values()):
        raise _Unusable(key, "it describes no message", hint=_DESCRIBE)
    ordered: dict[str, FileDescriptorProto] = {}
    for each in found.values():
        _sort_after_imports(each, found, ordered)
    for each in ordered.values():
        each.ClearField("source_code_info")
        each.ClearField("extension")
        for message in each.message_type:
            _remove_extensions(message)
    return list(ordered.values())


def _sort_after_imports(
    file: FileDescriptorProto, found: dict[str, FileDescriptorProto], ordered: dict[str, FileDescriptorProto]
) -> None:
    if file.name not in ordered:
        for name in file.dependency:
            _sort_after_imports(found[name], found, ordered)
        ordered[file.name] = file


def _remove_extensions(message: DescriptorProto) -> None:
    message.ClearField("extension")
    for each in message.nested_type:
        _remove_extensions(each)


def _build(key: str, files: list[FileDescriptorProto]) -> None:
    """Check that the descriptors are consistent."""
    pool = DescriptorPool()
    for each in files:
        try:
            pool.Add(each)
        except TypeError as error:
            raise _Unusable(key, f"'{each.name}' is not consistent: {error}") from error


def _find_message(files: list[FileDescriptorProto], wanted: str) -> str:
    """The full name of the message with this name, or with a Java class of this name."""
    full = {name for file in files for name, _ in _list_names(file)}
    java = {java: name for file in files for name, java in _list_names(file)}
    name = wanted.strip().removeprefix(".").replace("$", ".")
    if name in full:
        return name
    if name in java:
        return java[name]
    plain = sorted(each for each in full if not each.startswith("google.protobuf."))
    known = f"known messages: {', '.join(plain[:10])}{', ...' if len(plain) > 10 else ''}"
    raise _Unusable("message-class-name", f"no message '{wanted}'", hint=nearest(name, [*full, *java]) or known)


def _list_names(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """The full name of each message of a file, and the name of its Java class with dots for ``$``."""
    for name, java in list_java_names(file):
        yield name, java.replace("$", ".")


def _select_files(files: list[FileDescriptorProto], name: str) -> FileDescriptorSet:
    """The file that defines the message, and its direct and indirect imports."""
    wanted: set[str] = set()
    for file in reversed(files):
        if file.name in wanted or any(name == each for each, _ in _list_names(file)):
            wanted |= {file.name, *file.dependency}
    return FileDescriptorSet(file=[each for each in files if each.name in wanted])
