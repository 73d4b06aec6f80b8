"""What a format implements whose messages name their tables, and show which columns these have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.options import OptionSet
from penstock.spi.plugin.formats import BadRecord, Decoded, Format
from penstock.types import RowType


@dataclass(frozen=True)
class MessageTables:
    """The table of message ``i`` is ``names[at[i]]``, a dotted id. ``at`` is -1 for the messages in ``bad``, which are
    refused, and for those that belong to no table, such as empty ones."""

    names: tuple[str, ...]
    at: npt.NDArray[np.int64]
    bad: tuple[BadRecord, ...] = ()


@dataclass(frozen=True)
class SeenColumns:
    """The columns of a table after some of its messages: the known ones, widened where a value does not fit, and then
    new ones, which are nullable. ``firsts`` has the number of the first message that shows a column which is new, or
    has another type than before. ``primary_key`` is empty where messages do not tell it."""

    row: RowType
    firsts: Mapping[str, int]
    primary_key: tuple[str, ...] = ()


class Messages(Protocol):
    """Messages of a batch as a reader has opened them: a column, or what the reader has found in one."""

    def __len__(self) -> int: ...

    def take(self, index: npt.NDArray[np.int64], /) -> Self:
        """Those with these numbers."""


_M = TypeVar("_M", bound=Messages)
_M_contra = TypeVar("_M_contra", bound=Messages, contravariant=True)


class MessageDecoder(Protocol[_M_contra]):
    """Decodes messages of one table."""

    def decode(self, messages: _M_contra, /) -> Decoded:
        """Their rows."""


class TableReader(Protocol[_M]):
    """Reads messages of many tables, whose columns they show. Picklable; holds no connection."""

    @property
    def names_tables(self) -> bool:
        """Whether messages name their table. Otherwise a table is all messages of a topic."""
        ...

    @property
    def names_keys(self) -> bool:
        """Whether messages may name the primary key of their table."""
        ...

    def open(self, values: pa.BinaryArray) -> _M:
        """The messages of a batch."""

    def find_tables(self, messages: _M) -> MessageTables:
        """The tables of messages that name them."""

    def survey(self, messages: _M, known: RowType) -> SeenColumns:
        """The columns that messages of one table show. Those that cannot be read show none."""

    def survey_values(self, messages: _M, known: RowType) -> SeenColumns:
        """The same by the values of messages alone, and not by what messages say of the types of their columns."""

    def decoder(self, row: RowType, metadata: Sequence[str] = ()) -> MessageDecoder[_M]:
        """A decoder for messages of a table with these columns, all of whose values fit, followed by the ``metadata``
        of these keys, if the format has any (:attr:`ChangeFormat.metadata`). Raises SchemaError for a type that the
        format cannot read."""


@runtime_checkable
class InferringFormat(Format, Protocol):
    """A format from whose messages the columns of tables can be inferred."""

    #: The options of inference, declared without the ``<format>.`` prefix.
    inference: type[OptionSet]

    def table_reader(self, options: OptionSet, inference: OptionSet) -> TableReader[Any]:
        """The reader for messages that are read with these options."""
