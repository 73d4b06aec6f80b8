"""A package of somebody else's: a format and a connector that are right, and some that are not what they declare."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import OptionsError, Problem, SchemaError
from penstock.options import BOOLEAN, TEXT, OptionSet, choice, opt
from penstock.spi import (
    INSERTIONS,
    AnySettings,
    BadRecord,
    Decoded,
    Guarantee,
    ScanCapabilities,
    SinkCapabilities,
    TableDefinition,
)
from penstock.types import BIGINT, INT, STRING, DataType, RowKind, RowType, arrow_schema

# --- formats -------------------------------------------------------------------------------------------------

_KINDS = {kind.short: kind for kind in RowKind}


@dataclass(frozen=True, kw_only=True)
class PairsOptions(OptionSet):
    """Options of the format."""

    ignore_errors: bool = opt("ignore-parse-errors", BOOLEAN, default=False, doc="Skip what cannot be read.")
    seal: str = opt("seal", TEXT, default="", doc="Ends each message.", example="!", secret=True)


def _checked(schema: RowType) -> RowType:
    problems = [
        Problem(f"{each} is not BIGINT or STRING")
        for each in schema.fields
        if each.type.with_nullability(True) not in (BIGINT, STRING)
    ]
    if problems:
        raise SchemaError(tuple(problems))
    return schema


@dataclass(frozen=True)
class PairsDecoder:
    schema: RowType
    options: PairsOptions
    metadata: tuple[str, ...]

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_errors

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        rows, kinds, origin, bad = [], [], [], []
        for index, message in enumerate(messages.to_pylist()):
            try:
                kind, values = self.parsed(message)
                row = {field.name: self.value(values[field.name], field.type) for field in self.schema.fields}
            except (ValueError, KeyError, TypeError) as error:
                bad.append(BadRecord(self.place(index), f"not pairs: {error}"))
                continue
            rows.append({**row, **dict.fromkeys(self.metadata, len(message))})
            kinds.append(kind)
            origin.append(index)
        columns = [*arrow_schema(self.schema), *(pa.field(key, pa.int32()) for key in self.metadata)]
        found = pa.RecordBatch.from_pylist(rows, schema=pa.schema(columns))
        return Decoded(found, np.array(origin, np.int64), self.kinds(kinds), tuple(bad))

    def parsed(self, message: bytes) -> tuple[RowKind, dict[str, Any]]:
        kind, values = json.loads(message.decode().removesuffix(self.options.seal))
        return _KINDS[kind], values

    def value(self, value: Any, kind: DataType) -> Any:
        if value is not None and not isinstance(value, int if kind.with_nullability(True) == BIGINT else str):
            raise TypeError(f"{value!r} is not a value of {kind}")
        return value

    def place(self, index: int) -> int:
        return index

    def kinds(self, kinds: list[RowKind]) -> Any:
        return np.array(kinds, np.int8)


@dataclass(frozen=True)
class PairsEncoder:
    schema: RowType
    options: PairsOptions

    def encode(self, rows: pa.RecordBatch, kinds: Any = None) -> pa.BinaryArray:
        kinds = [0] * rows.num_rows if kinds is None else kinds.tolist()
        return pa.array([self.message(*each) for each in zip(kinds, rows.to_pylist(), strict=True)], pa.binary())

    def message(self, kind: int, row: dict[str, Any]) -> bytes:
        return (json.dumps([RowKind(kind).short, row]) + self.options.seal).encode()


class Pairs:
    """Changes as pairs of names and values. Right."""

    identifier = "acme-pairs"
    options: type[OptionSet] = PairsOptions
    by_name = True
    metadata: Mapping[str, DataType] = {"length": INT}
    decodes: Any = PairsDecoder
    encodes: Any = PairsEncoder

    def decoder(self, schema: RowType, options: OptionSet, metadata: Any = ()) -> Any:
        return self.decodes(_checked(schema), PairsOptions.expect(options), tuple(metadata))

    def encoder(self, schema: RowType, options: OptionSet) -> Any:
        return self.encodes(_checked(schema), PairsOptions.expect(options))


class Nulls(Pairs):
    """Reads NULL as an empty text and a zero."""

    identifier = "acme-nulls"

    class decodes(PairsDecoder):
        def value(self, value: Any, kind: DataType) -> Any:
            return super().value(value, kind) if value is not None else 0 if kind == BIGINT else ""


class Places(Pairs):
    """Blames the next message."""

    identifier = "acme-places"

    class decodes(PairsDecoder):
        def place(self, index: int) -> int:
            return index + 1


class Raises(Pairs):
    """Raises for a malformed message."""

    identifier = "acme-raises"

    class decodes(PairsDecoder):
        def place(self, index: int) -> int:
            raise ValueError(f"message {index} is malformed")


class Gullible(Pairs):
    """Takes anything for a row of nulls."""

    identifier = "acme-gullible"

    class decodes(PairsDecoder):
        def parsed(self, message: bytes) -> Any:
            try:
                return super().parsed(message)
            except ValueError:
                return RowKind.INSERT, dict.fromkeys(self.schema.names)


class Kinds(Pairs):
    """Declares changes, and gives insertions only."""

    identifier = "acme-kinds"

    class decodes(PairsDecoder):
        def kinds(self, kinds: list[RowKind]) -> None:
            return None


class Insertions:
    """Declares insertions, and gives kinds."""

    identifier = "acme-insertions"
    options: type[OptionSet] = PairsOptions
    by_name = True

    def decoder(self, schema: RowType, options: OptionSet) -> Any:
        return PairsDecoder(_checked(schema), PairsOptions.expect(options), ())

    def encoder(self, schema: RowType, options: OptionSet) -> Any:
        return PairsEncoder(_checked(schema), PairsOptions.expect(options))


class Positions(Pairs):
    """Declares that it finds columns by name, and finds them by position."""

    identifier = "acme-positions"

    class decodes(PairsDecoder):
        def parsed(self, message: bytes) -> Any:
            kind, values = super().parsed(message)
            return kind, dict(zip(self.schema.names, values.values(), strict=False))


class Metadata(Pairs):
    """Declares metadata that it does not give."""

    identifier = "acme-metadata"

    def decoder(self, schema: RowType, options: OptionSet, metadata: Any = ()) -> Any:
        return super().decoder(schema, options)


class Random(Pairs):
    """Writes equal rows as different messages."""

    identifier = "acme-random"

    class encodes(PairsEncoder):
        numbers = itertools.count()

        def message(self, kind: int, row: dict[str, Any]) -> bytes:
            return super().message(kind, {**row, "number": next(self.numbers)})


class Local(Pairs):
    """Makes decoders that cannot go to another process."""

    identifier = "acme-local"

    def decoder(self, schema: RowType, options: OptionSet, metadata: Any = ()) -> Any:
        class Decoder(PairsDecoder):
            pass

        return Decoder(_checked(schema), PairsOptions.expect(options), tuple(metadata))


# --- connectors ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ListOptions(OptionSet):
    """Options of either side."""

    token: str = opt("token", TEXT, doc="Opens the list.", example="abc", secret=True)
    guarantee: Guarantee | None = opt(
        "sink.delivery-guarantee", choice(Guarantee), default=None, doc="What a retry may repeat.", example="none"
    )


@dataclass(frozen=True)
class ListSpec(AnySettings):
    """Reads or writes a list."""

    table: str
    schema: RowType
    options: ListOptions

    def describe(self) -> str:
        return f"acme list '{self.table}'"


class ListScan(ListSpec):
    """Reads a list."""

    capabilities = ScanCapabilities(kinds=INSERTIONS, bounded=True)

    def dead_letter_sink(self, others: object) -> None:
        return None


class ListSink(ListSpec):
    """Writes a list."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(kinds=INSERTIONS, guarantee=self.options.guarantee)


class ListRuntime:
    """Would read and write lists."""

    def source(self, spec: object, ordinal: int, context: object) -> object:
        raise NotImplementedError

    def commit_group(self, spec: ListSink) -> str:
        return spec.table

    def committer(self, outputs: object, context: object) -> object:
        raise NotImplementedError


class List:
    """Lists. Right."""

    identifier = "acme-list"
    options: Mapping[str, type[OptionSet]] = {"Source": ListOptions, "Sink": ListOptions}
    runtime = "acme:ListRuntime"
    scans: type[ListSpec] = ListScan
    sinks: type[ListSpec] = ListSink

    def scan(self, table: TableDefinition) -> ListSpec:
        return self.scans(table.name, table.produced, self.bound(table))

    def sink(self, table: TableDefinition) -> ListSpec:
        options = self.bound(table)
        if options.guarantee is Guarantee.EXACTLY_ONCE:
            raise OptionsError((Problem("a list is not transactional", "sink.delivery-guarantee"),))
        return self.sinks(table.name, table.written, options)

    def bound(self, table: TableDefinition) -> ListOptions:
        return table.bind_options(ListOptions)


class Lenient(List):
    """Ignores options that it does not know."""

    identifier = "acme-lenient"

    def bound(self, table: TableDefinition) -> ListOptions:
        return ListOptions.from_text(table.options, table.origin)


class Open(List):
    """Shows its secret."""

    identifier = "acme-open"

    class sinks(ListSink):
        def describe(self) -> str:
            return f"{super().describe()} with {self.options.token}"


class Promising(List):
    """Takes exactly-once for at-least-once, and does not say so."""

    identifier = "acme-promising"

    def sink(self, table: TableDefinition) -> ListSpec:
        return self.sinks(table.name, table.written, self.bound(table))

    class sinks(ListSink):
        @property
        def capabilities(self) -> SinkCapabilities:
            found = super().capabilities
            exact = found.guarantee is Guarantee.EXACTLY_ONCE
            return replace(found, guarantee=Guarantee.AT_LEAST_ONCE) if exact else found


class Transactional(List):
    """Accepts exactly-once, and does not say what is committed."""

    identifier = "acme-transactional"

    def sink(self, table: TableDefinition) -> ListSpec:
        return self.sinks(table.name, table.written, self.bound(table))


class Deletions(List):
    """Declares a sink that takes deletions and no insertions."""

    identifier = "acme-deletions"

    class sinks(ListSink):
        @property
        def capabilities(self) -> SinkCapabilities:
            return replace(super().capabilities, kinds=frozenset({RowKind.DELETE}))


class Handles(List):
    """Makes specs that are not values."""

    identifier = "acme-handles"

    class scans(ListScan):
        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__


class WriteOnly(List):
    """Declares that it can be read, and has no runtime for that."""

    identifier = "acme-write-only"
    runtime = "acme:WriteOnlyRuntime"


class WriteOnlyRuntime:
    """Would write."""

    def commit_group(self, spec: ListSink) -> str:
        return spec.table

    def committer(self, outputs: object, context: object) -> object:
        raise NotImplementedError


class Scattered(List):
    """Makes a committer of its own for each time that a table is written."""

    identifier = "acme-scattered"
    runtime = "acme:ScatteredRuntime"


class ScatteredRuntime(ListRuntime):
    """Would read and write."""

    def commit_group(self, spec: ListSink) -> object:
        return object()
