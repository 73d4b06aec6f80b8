"""Change data envelopes to rows with row kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.errors import RecordError
from penstock.formats.changes.envelopes import Envelopes, Faults, Mask, always, is_null, positions, read_envelopes
from penstock.formats.changes.metadata import Metadata
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.schema import check_schema
from penstock.formats.shared.codec import TableCodec
from penstock.spi import BadRecord, Decoded
from penstock.types import Field, RowKind, RowType, arrow_schema

ChangeOptionsT = TypeVar("ChangeOptionsT", bound=ChangeOptions)

#: The operation of a change. NO_CHANGE is a valid message that changes no row.
INSERT, UPDATE, DELETE, NO_CHANGE = 0, 1, 2, 3
#: The most characters that errors show of an unknown operation, or of metadata that cannot be read.
_LONGEST = 100
_ROWS = np.array([1, 2, 1, 0])
_KINDS = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE, RowKind.INSERT], np.int8)


@dataclass(frozen=True)
class Images:
    """Rows as a struct column, and the row of each change."""

    rows: pa.StructArray
    at: npt.NDArray[np.int64]


@dataclass(frozen=True)
class DecodedChanges:
    """Changes in the order in which they happened; ``faults`` says which are invalid.

    ``envelope[i]`` is the envelope of change ``i``. ``missing[c, i]`` is true if the image before lacks column ``c``,
    which then has the value of the image after; None means that no column is missing. ``removed`` is the image that a
    deletion returns.
    """

    action: npt.NDArray[np.int64]
    envelope: npt.NDArray[np.int64]
    before: Images
    after: Images
    removed: Images
    faults: Faults
    missing: Mask | None = None


@dataclass(frozen=True)
class ChangeDecoder(TableCodec[ChangeOptionsT], ABC):
    """Decodes change data messages into rows of ``schema``, each followed by the columns ``metadata``."""

    metadata: tuple[str, ...] = ()

    #: The format's metadata columns by key.
    known: ClassVar[Mapping[str, Metadata]]
    #: The field of a message whose present subfields must be known, if there is one.
    asked: ClassVar[str] = ""

    def _check(self) -> None:
        check_schema(self.schema)

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_parse_errors

    @abstractmethod
    def _envelope(self) -> RowType:
        """The fields that are read from a message's JSON."""

    @abstractmethod
    def _changes(self, envelopes: Envelopes, faults: Faults, messages: pa.BinaryArray) -> DecodedChanges:
        """The changes in ``envelopes``. Faults of whole envelopes are added to ``faults``."""

    def _path(self, name: str) -> str:
        """The path of the field ``name`` for error messages."""
        return name

    def _column(self, envelopes: Envelopes, each: Metadata) -> pa.Array:
        """The field of the message that a metadata column is read from."""
        return envelopes.columns[each.field.name]

    def _metadata_fields(self, *, beside: bool = False) -> tuple[Field, ...]:
        """The fields that the metadata columns are read from, each once."""
        found = (self.known[key] for key in self.metadata)
        return tuple({each.field.name: each.field for each in found if each.beside is beside}.values())

    @cached_property
    def _reader(self) -> JsonDecoder:
        return JsonDecoder(self._envelope(), self.options.json)

    @cached_property
    def _arrow(self) -> pa.Schema:
        columns = arrow_schema(self.schema)
        for key in self.metadata:
            columns = columns.append(arrow_schema(RowType((Field(key, self.known[key].type),))).field(0))
        return columns

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused messages, even if errors are ignored. In that case a
        message still gives the changes before its first fault, as in Flink."""
        messages, indices, refused = self._select_messages(messages)
        envelopes = read_envelopes(self._reader, messages, self.asked)
        faults = Faults(len(envelopes))
        changes = self._changes(envelopes, faults, messages)
        metadata = [self._read_metadata(envelopes, self.known[key], changes) for key in self.metadata]
        kept = self._find_valid_changes(changes, len(envelopes))
        columns, kinds, change = flatten_changes(changes, kept)
        envelope = changes.envelope[change]
        columns += [_take_values([column], envelope) for column in metadata]
        bad = [*envelopes.bad, *collect_refusals(envelopes, faults, changes)]
        bad = [BadRecord(int(indices[each.index]), each.reason, each.field) for each in bad] + refused
        bad.sort(key=lambda each: each.index)
        rows = build_batch(columns, self._arrow, len(change))
        return Decoded(rows, indices[envelopes.message[envelope]], kinds, tuple(bad))

    def _select_messages(
        self, messages: pa.BinaryArray
    ) -> tuple[pa.BinaryArray, npt.NDArray[np.int64], list[BadRecord]]:
        """The messages of this table, the index of each, and the messages that do not name their table."""
        return messages, np.arange(len(messages)), []

    def _read_metadata(self, envelopes: Envelopes, each: Metadata, changes: DecodedChanges) -> pa.Array:
        """A metadata column, one value per envelope. A value that cannot be read is a fault of the envelope's
        changes."""
        given = each.select_values(self._column(envelopes, each))
        column, refused = each.read(given)
        if refused is not None:
            path, wanted = self._path(each.path), f"expected a value that can be read as {each.type}"

            def explain(change: int) -> tuple[str, str]:
                return path, f"{wanted}, not '{str(given[changes.envelope[change]])[:_LONGEST]}'"

            changes.faults.add(refused[changes.envelope], explain)
        return column

    def _find_valid_changes(self, changes: DecodedChanges, envelopes: int) -> Mask:
        """Which changes give rows: not those with a fault, not those after a fault in the same message and, unless
        errors are ignored, not those before it."""
        faulty = changes.faults.is_faulty
        if not faulty.any():
            return np.ones(len(changes.action), bool)
        broken, first = np.unique(changes.envelope[faulty], return_index=True)
        limit = np.full(envelopes, len(changes.action))
        limit[broken] = np.flatnonzero(faulty)[first] if self.ignores_errors else 0
        return np.arange(len(changes.action)) < limit[changes.envelope]


def collect_refusals(envelopes: Envelopes, faults: Faults, changes: DecodedChanges) -> list[BadRecord]:
    """The messages with a fault, each with its first one."""
    reasons = {index: faults.explain(index) for index in np.flatnonzero(faults.is_faulty).tolist()}
    for change in np.flatnonzero(changes.faults.is_faulty).tolist():
        reasons.setdefault(int(changes.envelope[change]), changes.faults.explain(change))
    return [BadRecord(int(envelopes.message[index]), reason, field) for index, (field, reason) in reasons.items()]


def flatten_changes(
    changes: DecodedChanges, kept: Mask
) -> tuple[list[pa.Array], npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """The columns of the rows of all changes, the row kind of each row and the change that it belongs to."""
    counts = np.where(kept, _ROWS[changes.action], 0)
    change = np.repeat(np.arange(len(counts)), counts)
    kinds = _KINDS[changes.action[change]]
    second = np.zeros(len(change), bool)
    second[1:] = change[1:] == change[:-1]
    kinds[second] = RowKind.UPDATE_AFTER
    old = kinds == RowKind.UPDATE_BEFORE
    if changes.removed is changes.before:
        old |= kinds == RowKind.DELETE
    before, after = changes.before.at[change], changes.after.at[change]
    columns = []
    for index in range(changes.after.rows.type.num_fields):
        taken = old
        if changes.missing is not None:
            taken = old & ~changes.missing[index][change]
        columns.append(_merge_images(changes.before.rows, changes.after.rows, index, taken, before, after))
    return columns, kinds, change


def _merge_images(
    before: pa.StructArray,
    after: pa.StructArray,
    index: int,
    old: Mask,
    before_at: npt.NDArray[np.int64],
    after_at: npt.NDArray[np.int64],
) -> pa.Array:
    """Column ``index`` of the images before if ``old``, else of the images after."""
    if not old.any():
        return _take_values([after.field(index)], after_at)
    if old.all():
        return _take_values([before.field(index)], before_at)
    return _take_values([before.field(index), after.field(index)], np.where(old, before_at, len(before) + after_at))


def _take_values(columns: list[pa.Array], at: npt.NDArray[np.int64]) -> pa.Array:
    """The values at these positions of the concatenated columns. Raises RecordError if one column cannot hold them."""
    first, *others = columns
    if not others and len(at) == len(first) and bool((at == np.arange(len(at))).all()):
        return first
    try:
        return (pa.concat_arrays(columns) if others else first).take(pa.array(at))
    except pa.ArrowInvalid as error:
        raise RecordError("the strings or bytes of one column exceed 2 GiB", hint="use smaller batches") from error


def read_operations(names: Mapping[str, int], column: pa.Array, path: str, faults: Faults) -> npt.NDArray[np.int64]:
    """The operation of each envelope by its name. NO_CHANGE with a fault if the name is missing or unknown."""
    known = list(names)
    at = positions(column, known)
    wanted = f"expected {', '.join(known[:-1])} or {known[-1]}"
    faults.add(is_null(column), lambda _: (path, f"the field is missing or null; {wanted}"))
    faults.add(at < 0, lambda index: (path, f"unknown operation '{column[index].as_py()[:_LONGEST]}'; {wanted}"))
    return np.append(np.array(list(names.values())), NO_CHANGE)[at]


def read_image_changes(
    columns: Mapping[str, pa.Array], names: Mapping[str, int], op: str, path: Callable[[str], str], faults: Faults
) -> DecodedChanges:
    """One change per envelope with ``before``, ``after`` and ``op``.

    ``path`` returns the path of a field for error messages.
    """
    before, after = columns["before"], columns["after"]
    action = read_operations(names, columns[op], path(op), faults)
    for code, name in ((UPDATE, "an update"), (DELETE, "a delete")):
        reason = f"the field is missing or null in {name}; a table of PostgreSQL needs REPLICA IDENTITY FULL"
        faults.add((action == code) & is_null(before), always(path("before"), reason))
    faults.add(
        ((action == INSERT) | (action == UPDATE)) & is_null(after),
        always(path("after"), "the field is missing or null; expected the row after the change"),
    )
    every = np.arange(len(after))
    old, new = Images(before, every), Images(after, every)
    return DecodedChanges(action, every, before=old, after=new, removed=old, faults=faults)
