"""The names of the Java classes that protoc generates for messages: Flink's tables name messages by their classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto


def list_java_names(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """The full name of each message of a file, and the binary name of its class, as ``Class.forName`` takes it.

    By the file's ``java_package``, ``java_outer_classname`` and ``java_multiple_files``; see protobuf's guide to
    generated Java code.
    """
    package = file.options.java_package if file.options.HasField("java_package") else file.package
    prefix = f"{package}." if package else ""
    if not file.options.java_multiple_files:
        prefix += f"{file.options.java_outer_classname or _outer_class(file)}$"
    for message in file.message_type:
        full = f"{file.package}.{message.name}" if file.package else message.name
        yield from _nested_names(message, full, prefix + message.name)


def _nested_names(message: DescriptorProto, full: str, java: str) -> Iterator[tuple[str, str]]:
    yield full, java
    for each in message.nested_type:
        if not each.options.map_entry:
            yield from _nested_names(each, f"{full}.{each.name}", f"{java}${each.name}")


def _outer_class(file: FileDescriptorProto) -> str:
    """The file's name in camel case, with ``OuterClass`` appended if something in the file has that name."""
    name, upper = "", True
    for each in PurePosixPath(file.name).stem:
        if each.isascii() and each.isalnum():
            name += each.upper() if upper else each
            upper = each.isdigit()
        else:
            upper = True
    taken = {each.name for each in (*file.enum_type, *file.service)}
    for message in file.message_type:
        taken |= set(_all_names(message))
    return f"{name}OuterClass" if name in taken else name


def _all_names(message: DescriptorProto) -> Iterator[str]:
    yield message.name
    yield from (each.name for each in message.enum_type)
    for each in message.nested_type:
        yield from _all_names(each)
