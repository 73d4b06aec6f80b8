"""What a format implements: from a binary Arrow column to typed Arrow columns, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.options import OptionSet, Origin
from penstock.types import DataType, RowType


@dataclass(frozen=True)
class BadRecord:
    """A message that could not be decoded: its index in the column, the reason, and the field that causes it, if one
    does."""

    index: int
    reason: str
    field: str = ""


@dataclass(frozen=True)
class Decoded:
    """The rows of a column of messages.

    ``rows`` has the schema's columns. ``origin[i]`` is the index of the message that row ``i`` came from; ``origin`` is
    None when each message is one row. ``kinds[i]`` is the RowKind of the row as int8; ``kinds`` is None when all rows
    are insertions. ``bad`` lists the messages that were refused; the caller decides what becomes of them. Where the
    user ignores errors, a message of several rows that is refused for one of them may have given the others.
    """

    rows: pa.RecordBatch
    origin: npt.NDArray[np.int64] | None = None
    kinds: npt.NDArray[np.int8] | None = None
    bad: tuple[BadRecord, ...] = ()


class Decoder(Protocol):
    """Turns messages into rows. Picklable; holds no connection."""

    @property
    def ignores_errors(self) -> bool:
        """Whether the user ignores messages that cannot be decoded (``ignore-parse-errors``)."""
        ...

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages (null: a message without a value). Never raises for a bad message."""


class Encoder(Protocol):
    """Turns rows into messages. Picklable; holds no connection."""

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row, null where the message has no value. Raises RecordError with the row's index in
        ``offset`` and without a topic for a row that cannot be written."""


class ChangeEncoder(Encoder, Protocol):
    """Turns changes of rows into messages."""

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """As :meth:`Encoder.encode`. ``kinds[i]`` is the RowKind of row ``i``; with None all are insertions."""


@runtime_checkable
class PairsUpdates(ChangeEncoder, Protocol):
    """An encoder that makes one message of an update, which has both rows: that of the row after it. The row before it
    has none (null)."""

    pairs_updates: Literal[True]

    def encode_tables(
        self,
        rows: pa.RecordBatch,
        kinds: npt.NDArray[np.int8] | None,
        options: Sequence[OptionSet],
        counts: Sequence[int],
    ) -> pa.BinaryArray:
        """The messages of the rows of several tables with equal columns, one after the other: so many (``counts``) of
        each, by the ``options`` that name the table (:meth:`TableFormat.with_table`) and are equal otherwise. Raises as
        :meth:`ChangeEncoder.encode`."""


@runtime_checkable
class Format(Protocol):
    """A format of the registry."""

    #: Lower-case name, as in ``'format' = 'json'``.
    identifier: str
    #: The options, declared without the ``<format>.`` prefix.
    options: type[OptionSet]
    #: Whether a decoder finds columns by name, so that its schema may have some of a message's columns, in any order.
    #: Otherwise the schema has all columns, in the order of the message.
    by_name: bool

    def decoder(self, schema: RowType, options: OptionSet) -> Decoder:
        """A decoder for rows of ``schema``. Raises SchemaError for a type that the format cannot read."""

    def encoder(self, schema: RowType, options: OptionSet) -> Encoder:
        """An encoder for rows of ``schema``. Raises SchemaError for a type that the format cannot write."""


@runtime_checkable
class ChangeFormat(Format, Protocol):
    """A format whose messages are changes of rows: its decoder returns their kinds, and its encoder takes them."""

    #: The metadata of a message: the key of a column ``METADATA FROM 'value.<key>'``, and its type.
    metadata: Mapping[str, DataType]

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> Decoder:
        """A decoder for rows of ``schema``, followed by the metadata columns of these keys, in this order and named by
        them. Raises SchemaError for a type that the format cannot read."""

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for a type that it cannot write."""


@runtime_checkable
class TableFormat(ChangeFormat, Protocol):
    """A format of changes whose messages name the table that a row belongs to."""

    #: The keys of the metadata that name the table's database and the table.
    table_keys: tuple[str, str]

    def with_table(
        self, options: OptionSet, table: tuple[str, ...], primary_key: tuple[str, ...], *, with_schema: bool = False
    ) -> OptionSet:
        """``options`` for messages that name this table, by the parts of its id, and its primary key, and contain
        their schema if that is asked for and the format has one."""


@runtime_checkable
class RegistryFormat(Format, Protocol):
    """A format that keeps the schemas of its messages in a schema registry, under a subject.

    It does not know where its messages go. A connector that has a subject for them, as ``<topic>-value``, passes it
    when it binds the options (:meth:`FormatSpec.bind`).
    """

    #: The option, without prefix, that names the subject.
    subject_option: str


@dataclass(frozen=True)
class FormatSpec:
    """A format with its options, as plans hold it and tasks unpickle it. ``prefix`` begins the keys of the options that
    the user gave, as ``key.json.`` does."""

    identifier: str
    options: OptionSet
    prefix: str = field(default="", compare=False)

    @classmethod
    def bind(
        cls, fmt: Format, given: Mapping[str, str], origin: Origin, prefix: str, subject: str | None = None
    ) -> FormatSpec:
        """Bind the options of ``fmt`` whose keys begin with ``prefix`` (``json.``, ``value.json.``). Raises
        OptionsError.

        ``subject`` is the default of a format with a schema registry (:class:`RegistryFormat`), and has no effect on
        others.
        """
        if subject is not None and isinstance(fmt, RegistryFormat):
            found = next(each for each in fmt.options.declared_options().values() if each.key == fmt.subject_option)
            if given.keys().isdisjoint(prefix + key for key in found.all_keys):
                given = {**given, prefix + found.key: subject}
        return cls(fmt.identifier, fmt.options.from_text(given, origin, prefix), prefix)
