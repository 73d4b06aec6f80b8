"""The options of the ``protobuf`` format.

Flink finds the message in a Java class on its class path; here a file describes it. ``descriptor-file`` corresponds to
``descFilePath`` of Spark's ``from_protobuf``; ``proto-file`` and ``proto-path`` are protoc's terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.errors import Problem
from penstock.formats.protobuf.definition import Definition
from penstock.options import BOOLEAN, LIST, TEXT, OptionSet, Rule, opt


def _check_files(options: ProtobufOptions) -> Iterator[Problem]:
    if options.definition is None:  # another option is missing or wrong; the files can still be checked
        yield from Definition.load(None, options.descriptor_file, options.proto_file, options.proto_path).problems


def _check_definition(options: ProtobufOptions) -> Iterator[Problem]:
    yield from options.loaded_definition.problems


@dataclass(frozen=True, kw_only=True)
class ProtobufOptions(OptionSet):
    """Options of ``protobuf``, with Flink's names and defaults, and three more for the description of messages.

    The files are read when the options are created. ``definition`` is their content, which tasks get instead of them.
    """

    message_class_name: str = opt(
        "message-class-name",
        TEXT,
        example="my.package.Order",
        doc="The message: its full name in the .proto file, or the name of its Java class, as in Flink.",
    )
    descriptor_file: str | None = opt(
        "descriptor-file",
        TEXT,
        default=None,
        example="/etc/messages/orders.desc",
        doc="A file that describes the message, as protoc --include_imports --descriptor_set_out writes it. It is "
        "read when the table is defined. Not in Flink, which uses a Java class.",
    )
    proto_file: str | None = opt(
        "proto-file",
        TEXT,
        default=None,
        example="/etc/messages/orders.proto",
        doc="The .proto file that defines the message, instead of descriptor-file. It is compiled when the table "
        "is defined, with the package grpcio-tools: pip install '.[protobuf]'. Not in Flink.",
    )
    proto_path: tuple[str, ...] = opt(
        "proto-path",
        LIST,
        default=(),
        example="/etc/messages;/etc/common",
        doc="The folders that are searched for imports of proto-file; its own folder by default.",
    )
    ignore_parse_errors: bool = opt(
        "ignore-parse-errors", BOOLEAN, default=False, doc="Skip messages that cannot be read instead of failing."
    )
    read_default_values: bool = opt(
        "read-default-values",
        BOOLEAN,
        default=False,
        doc="Read the default value of an absent field instead of NULL. Numbers, text, bytes and enums without "
        "presence, as most in proto3, are always read as their default.",
    )
    write_null_string_literal: str = opt(
        "write-null-string-literal",
        TEXT,
        default="",
        doc="The text that is written for NULL in an array of strings, or as a string in a map; protobuf has no "
        "NULL there.",
    )
    definition: Definition | None = field(default=None, repr=False)

    rules: ClassVar[tuple[Rule, ...]] = (_check_files, _check_definition)

    def __post_init__(self) -> None:
        if self.definition is None:
            object.__setattr__(self, "definition", self.loaded_definition)

    @property
    def loaded_definition(self) -> Definition:
        """The definition of the message, which is loaded once."""
        if self.definition is None:
            return Definition.load(self.message_class_name, self.descriptor_file, self.proto_file, self.proto_path)
        return self.definition
