"""From rows of a sink to whole record batches that are ready to be published."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.clock import now_ms
from penstock.connectors.kafka.sink.changes import ChangeBuffer, KeyedChanges
from penstock.connectors.kafka.sink.partitioners import RowPartitions
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.table.metadata import WRITABLE
from penstock.errors import RecordError
from penstock.kafka.compression import Compression
from penstock.kafka.partitioner import by_key, fixed, round_robin
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import EncodedBatch, RecordTooLargeError, encode
from penstock.kafka.reserved import is_reserved
from penstock.options import java_pattern
from penstock.spi import (
    KIND,
    ChangeFormat,
    FormatSpec,
    PairsUpdates,
    TableFormat,
    Task,
    formats,
    locate_error,
    origin_of,
)
from penstock.types import STRING, Field, RowKind, RowType, arrow_type

#: The brokers' default of max.message.bytes, for topics whose settings the user may not read.
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588

_ROWS_IN_A_RUN = 4096
#: The field of a key that names its table, as in Flink CDC.
_TABLE_ID = "TableId"

_Kinds = NDArray[np.int8] | None
_Encode = Callable[[pa.RecordBatch, _Kinds], pa.BinaryArray | None]


def describe_work(sink: KafkaSinkSpec, client: ClientConfig, limits: Mapping[str, int]) -> object:
    """What decides how rows become messages: encoders of sinks with equal work can encode their rows together
    (:meth:`RowEncoder.encode_together`). None for a sink whose topics or partitions depend on more than the row's key,
    for a table that upserts, and for what stands for all tables that are found while the job runs."""
    if sink.metadata or sink.upserts or sink.chooses or sink.tables:
        return None
    keys = sink.key, sink.key_columns, sink.key_schema, bool(sink.key_table), bool(sink.headers)
    value, found = sink.value, _find_table_format(sink.value.identifier)
    if found is not None:
        value = replace(value, options=found.with_table(value.options, (), ()))
    values = value, sink.value_columns, sink.value_schema
    batches = _max_batch_bytes(sink.topics[0], client, limits), client.batch_size
    return sink.schema, keys, values, sink.partitioner, _read_compression(client), batches


@lru_cache
def _find_table_format(identifier: str) -> TableFormat | None:
    """The format, if its messages name their table."""
    found = formats.get(identifier)
    return found if isinstance(found, TableFormat) else None


def _read_compression(client: ClientConfig) -> tuple[Compression, int | None]:
    """The compression of record batches, and its level."""
    compression = Compression[client.compression_type.upper()]
    level = {
        Compression.GZIP: client.compression_gzip_level,
        Compression.LZ4: client.compression_lz4_level,
        Compression.ZSTD: client.compression_zstd_level,
    }.get(compression)
    return compression, level


def _max_batch_bytes(topic: str, client: ClientConfig, limits: Mapping[str, int]) -> int:
    """The most bytes of a record batch of a topic."""
    return min(limits.get(topic, DEFAULT_MAX_MESSAGE_BYTES), client.max_request_size)


class RowEncoder:
    """Encodes the rows of one sink. Each task has one.

    ``partitions`` returns the number of a topic's partitions, ``limits`` has the max.message.bytes of known topics.
    ``reserved`` says whether a topic may not be written although it matches the table's.
    """

    def __init__(
        self,
        sink: KafkaSinkSpec,
        client: ClientConfig,
        partitions: Callable[[str], int],
        limits: Mapping[str, int],
        task: Task,
        reserved: Callable[[str], bool] = is_reserved,
    ):
        self._sink = sink
        self._client = client
        self._count = partitions
        self._limits = limits
        self._task = task
        self._reserved = reserved
        self._metadata = {column.key: sink.schema.names.index(column.name) for column in sink.metadata}
        self._pattern = java_pattern(sink.options.topic_pattern) if sink.options.topic_pattern else None
        self._compression, self._level = _read_compression(client)
        self._chooser = RowPartitions(sink.partitioner, task, sink.chooser) if sink.chooses else None
        self._buffer = ChangeBuffer(sink.buffer_rows) if sink.buffer_rows else None
        self._turn = random.randrange(1 << 16)  # noqa: S311 - small batches begin with different partitions

    def encode(self, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[tuple[str, EncodedBatch]]:
        """The record batches of ``rows``, by topic and partition; each partition's rows keep their order.

        In a table that upserts each change is a message, except the row before an update; changes that are held back
        come later (:meth:`finish`). ``hidden`` has the columns :data:`penstock.spi.HIDDEN` of the rows, and
        :data:`penstock.spi.KIND` if they have kinds. Raises RecordError with the number of the row's partition and
        without a topic: the driver knows both names.
        """
        if not rows.num_rows:
            return
        for topic, chosen in self._split_by_topic(rows, hidden):
            part = rows if chosen is None else rows.take(chosen)
            origins = hidden if chosen is None else hidden.take(chosen)
            with _locate_errors(topic, origins):
                keys = self._encode_keys(part)
            if not self._sink.upserts:
                kinds = _read_kinds(origins)
                if self._pairing_encoder is not None and kinds is not None:
                    yield from self._encode_updates(topic, part, origins, keys, kinds)
                else:
                    yield from self._encode_rows(topic, part, origins, keys, partial(self._value, part, kinds))
                continue
            changes = KeyedChanges.from_rows(part, origins, keys, _read_kinds(origins))
            if self._buffer is None:
                yield from self._encode_changes(topic, changes.effective())
            elif enough := self._buffer.add(topic, changes):
                yield from self._encode_changes(topic, enough)

    @staticmethod
    def encode_together(
        parts: Sequence[tuple[RowEncoder, pa.RecordBatch, pa.RecordBatch]],
        *,
        share_topics: bool = False,
    ) -> Iterator[tuple[int, str, EncodedBatch]]:
        """The record batches of several encoders with equal work (:func:`describe_work`), each with the number of its
        part and its topic: as if each part was encoded by itself, in one pass over all of them. All parts have kinds,
        or none has. With ``share_topics`` a record batch may have rows of all parts with its topic, and the number of
        the first of them. Raises as :meth:`encode`."""
        encoders = [each for each, _, _ in parts]
        first, topics = encoders[0], [each._sink.topics[0] for each in encoders]
        rows = pa.concat_batches([each for _, each, _ in parts])
        hidden = pa.concat_batches([each for _, _, each in parts])
        counts = np.array([each.num_rows for _, each, _ in parts])
        part = np.repeat(np.arange(len(parts)), counts)
        # The partitions of all topics have numbers, one topic after the other.
        firsts: dict[str | int, int] = {}
        for number, topic in enumerate(topics):
            firsts.setdefault(topic if share_topics else number, number)
        owners = [*firsts.values()]
        ends = np.cumsum([0, *(encoders[each]._count(topics[each]) for each in owners)])
        places = {key: at for at, key in enumerate(firsts)}
        bases = ends[[places[topic if share_topics else number] for number, topic in enumerate(topics)]]
        with _locate_errors(lambda row: topics[part[row]], hidden):
            keys = first._encode_keys_of(encoders, rows, counts)
            values = first._encode_values_of(encoders, rows, counts, _read_kinds(hidden))
            if values is not None and values.null_count and first._pairing_encoder is not None:
                kept = values.is_valid()  # an update is one message
                rows, hidden, values = rows.filter(kept), hidden.filter(kept), values.filter(kept)
                keys = None if keys is None else keys.filter(kept)
                part = part[np.asarray(kept)]
        with _locate_errors(lambda row: topics[part[row]], hidden):
            chosen = first._choose_partitions_of(encoders, part, keys, bases)
            headers = first._read_headers_of(encoders, part)
            batches = first._encode_messages(topics[0], rows, keys, values, chosen, headers)
        places_of_batches = np.searchsorted(ends, [each.partition for each in batches], "right") - 1
        for batch, at in zip(batches, places_of_batches.tolist(), strict=True):
            number = owners[at]
            yield number, topics[number], replace(batch, partition=batch.partition - int(ends[at]))

    def _encode_values_of(
        self, encoders: Sequence[RowEncoder], rows: pa.RecordBatch, counts: NDArray[np.int64], kinds: _Kinds
    ) -> pa.BinaryArray | None:
        """The values of messages of several encoders with equal work, which have so many rows each."""
        sink, encoder = self._sink, self._pairing_encoder
        if encoder is None:
            return self._value(rows, kinds)
        given = rows.select(list(sink.value_columns)).rename_columns(list(sink.value_schema.names))
        return encoder.encode_tables(given, kinds, [each._sink.value.options for each in encoders], counts.tolist())

    def _encode_keys_of(
        self, encoders: Sequence[RowEncoder], rows: pa.RecordBatch, counts: NDArray[np.int64]
    ) -> pa.BinaryArray | None:
        """The keys of messages of several encoders with equal work, which have so many rows each."""
        if self._sink.key is None or not self._sink.key_table:
            return self._encode_keys(rows)
        names = pa.array([each._sink.key_table for each in encoders])
        return self._encode_table_keys(rows, names.take(pa.array(np.repeat(np.arange(len(encoders)), counts))))

    def _choose_partitions_of(
        self,
        encoders: Sequence[RowEncoder],
        part: NDArray[np.int64],
        keys: pa.BinaryArray | None,
        bases: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """The partitions of messages of several encoders with equal work: ``part`` is the number of the encoder of each
        message, ``bases`` the number of the first partition of each encoder."""
        if self._sink.partitioner == "all-to-zero":
            return bases[part].astype(np.int32)
        chosen = []
        ends = np.searchsorted(part, np.arange(len(encoders) + 1)).tolist()
        for number, each in enumerate(encoders):
            begin, count = ends[number], ends[number + 1] - ends[number]
            own = None if keys is None else keys.slice(begin, count)
            partitions = each._count(each._sink.topics[0])
            chosen.append(each._spread(count, own, partitions) + np.int32(bases[number]))
        return np.concatenate(chosen)

    @staticmethod
    def _read_headers_of(encoders: Sequence[RowEncoder], part: NDArray[np.int64]) -> pa.Array | None:
        """The headers of messages of several encoders with equal work."""
        if not encoders[0]._sink.headers:
            return None
        each = pa.array([encoder._sink.headers for encoder in encoders], arrow_type(WRITABLE["headers"]))
        return each.take(pa.array(part))

    def finish(self) -> Iterator[tuple[str, EncodedBatch]]:
        """The record batches of the changes that were held back, after the last rows of the task."""
        if self._buffer is not None:
            for topic, changes in self._buffer.take().items():
                yield from self._encode_changes(topic, changes)

    def _encode_changes(self, topic: str, changes: KeyedChanges) -> Iterator[tuple[str, EncodedBatch]]:
        """The record batches of changes, each of which is a message; those that delete have no value."""
        deletes = changes.deletes

        def values() -> pa.BinaryArray | None:
            if not deletes.any():
                return self._value(changes.rows, None)
            live = np.flatnonzero(~deletes)
            try:
                found = self._value(changes.rows.take(pa.array(live)), None)
            except RecordError as error:
                raise _with_row(error, int(live[error.offset])) from error
            return pc.take(found, pa.array(np.cumsum(~deletes) - 1, mask=deletes))

        if len(changes):
            yield from self._encode_rows(topic, changes.rows, changes.hidden, changes.keys, values)

    def _encode_updates(
        self,
        topic: str,
        rows: pa.RecordBatch,
        hidden: pa.RecordBatch,
        keys: pa.BinaryArray | None,
        kinds: NDArray[np.int8],
    ) -> Iterator[tuple[str, EncodedBatch]]:
        """The record batches of changes, of which an update is one message, with the key of the row after it."""
        with _locate_errors(topic, hidden):
            values = self._value(rows, kinds)
        assert values is not None, "a format of changes writes values"  # noqa: S101
        chosen = values.is_valid()
        left = None if keys is None else keys.filter(chosen)
        yield from self._encode_rows(
            topic, rows.filter(chosen), hidden.filter(chosen), left, lambda: values.filter(chosen)
        )

    @cached_property
    def _pairing_encoder(self) -> PairsUpdates | None:
        """What encodes values, if an update is one message."""
        sink = self._sink
        found = formats.get(sink.value.identifier)
        if "__raw_value__" in self._metadata or not isinstance(found, ChangeFormat):
            return None
        encoder = found.encoder(sink.value_schema, sink.value.options)
        return encoder if isinstance(encoder, PairsUpdates) else None

    def _encode_rows(
        self,
        topic: str,
        rows: pa.RecordBatch,
        hidden: pa.RecordBatch,
        keys: pa.BinaryArray | None,
        values: Callable[[], pa.BinaryArray | None],
    ) -> Iterator[tuple[str, EncodedBatch]]:
        with _locate_errors(topic, hidden):
            made = values()
            chosen = self._assign_partitions(topic, rows, keys, made)
            batches = self._encode_messages(topic, rows, keys, made, chosen, self._read_headers(rows))
        for batch in batches:
            yield topic, batch

    def _encode_messages(
        self,
        topic: str,
        rows: pa.RecordBatch,
        keys: pa.BinaryArray | None,
        values: pa.BinaryArray | None,
        partitions: NDArray[np.int32],
        headers: pa.Array | None,
    ) -> list[EncodedBatch]:
        """The record batches of messages by their ``partitions``, as the ``topic`` takes them."""
        return encode(
            keys=keys,
            values=values,
            timestamps=self._read_timestamps(rows),
            partitions=partitions,
            headers=headers,
            compression=self._compression,
            level=self._level,
            max_batch_bytes=_max_batch_bytes(topic, self._client, self._limits),
            batch_bytes=self._client.batch_size,
        )

    def _encode_keys(self, rows: pa.RecordBatch) -> pa.BinaryArray | None:
        """The keys of the messages. Raises RecordError for a row of a table that upserts whose key has a NULL."""
        for name in self._sink.upsert_keys:
            column = rows.column(rows.schema.names.index(name))
            if column.null_count:
                row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
                hint = f"leave such rows out of table '{self._sink.table}': WHERE {name} IS NOT NULL"
                raise RecordError("NULL cannot be part of the PRIMARY KEY", "", -1, row, field=name, hint=hint)
        return self._key(rows, None)

    @cached_property
    def _key(self) -> _Encode:
        sink = self._sink
        return self._part_encoder("__raw_key__", sink.key, sink.key_columns, sink.key_schema)

    @cached_property
    def _value(self) -> _Encode:
        sink = self._sink
        return self._part_encoder("__raw_value__", sink.value, sink.value_columns, sink.value_schema)

    def _part_encoder(self, raw: str, spec: FormatSpec | None, columns: tuple[str, ...], schema: RowType) -> _Encode:
        """A function that makes the keys or the values of messages: from the metadata column ``raw``, or from
        ``columns`` by a format."""
        if raw in self._metadata:
            index = self._metadata[raw]
            return lambda rows, _: rows.column(index)
        if spec is None:
            return lambda rows, _: None
        table = self._sink.key_table if raw == "__raw_key__" else ""
        if table:
            return lambda rows, _: self._encode_table_keys(rows, pa.repeat(pa.scalar(table), rows.num_rows))
        encode = _find_encoder(spec, schema)
        return lambda rows, kinds: encode(rows.select(list(columns)).rename_columns(list(schema.names)), kinds)

    def _encode_table_keys(self, rows: pa.RecordBatch, tables: pa.Array) -> pa.BinaryArray | None:
        """Keys that begin with the id of the table."""
        encode, names = self._table_keys
        columns = [tables, *(rows.column(name) for name in self._sink.key_columns)]
        return encode(pa.RecordBatch.from_arrays(columns, names=names), None)

    @cached_property
    def _table_keys(self) -> tuple[_Encode, list[str]]:
        sink = self._sink
        assert sink.key is not None, "only keys begin with a table"  # noqa: S101
        keyed = RowType((Field(_TABLE_ID, STRING), *sink.key_schema.fields))
        return _find_encoder(sink.key, keyed), list(keyed.names)

    # --- topics and partitions -------------------------------------------------------------------------------

    def _split_by_topic(self, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[tuple[str, pa.Array | None]]:
        if "topic" not in self._metadata:
            yield self._sink.topics[0], None
            return
        named = pc.dictionary_encode(rows.column(self._metadata["topic"]), null_encoding="encode")
        codes = named.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(named.dictionary.to_pylist()):
            chosen = np.flatnonzero(codes == code)
            refused = self._explain_refusal(topic)
            if refused:
                row = int(chosen[0])
                raise RecordError(
                    f"the row's topic is {topic!r}, which is {refused}",
                    "",
                    *origin_of(hidden, row),
                    field="topic",
                    hint=f"correct the metadata column of table '{self._sink.table}', or the table's topics",
                )
            yield topic, pa.array(chosen)

    def _explain_refusal(self, topic: str | None) -> str:
        """Why a row's topic may not be written; empty when it may."""
        listed = topic is not None and (
            topic in self._sink.topics or bool(self._pattern and self._pattern.fullmatch(topic))
        )
        if topic is None or not listed:
            return f"not one of '{self._sink.options.topic_pattern or self._sink.shown_topics}'"
        return "an internal topic of Kafka or penstock, which no table may write" if self._reserved(topic) else ""

    def _assign_partitions(
        self, topic: str, batch: pa.RecordBatch, keys: pa.BinaryArray | None, values: pa.BinaryArray | None
    ) -> NDArray[np.int32]:
        partitions = self._count(topic)
        if "__partition__" not in self._metadata:
            return self._choose_partitions(topic, batch, keys, values, partitions)
        given = batch.column(self._metadata["__partition__"])
        named: NDArray[np.int32] = given.fill_null(-1).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(np.asarray(given.is_valid()) & ((named < 0) | (named >= partitions)))
        if len(wrong):
            reason = f"the record's partition is {named[wrong[0]]}, and topic '{topic}' has the partitions 0 to "
            raise RecordError(f"{reason}{partitions - 1}", "", -1, int(wrong[0]))
        if not given.null_count:
            return named
        return np.where(named < 0, self._choose_partitions(topic, batch, keys, values, partitions), named).astype(
            np.int32
        )

    def _choose_partitions(
        self,
        topic: str,
        batch: pa.RecordBatch,
        keys: pa.BinaryArray | None,
        values: pa.BinaryArray | None,
        partitions: int,
    ) -> NDArray[np.int32]:
        """The partitions that the table's partitioner chooses."""
        if self._chooser is not None:
            return self._chooser.choose_partitions(batch, keys, values, topic, partitions)
        return self._spread(batch.num_rows, keys, partitions)

    def _spread(self, rows: int, keys: pa.BinaryArray | None, partitions: int) -> NDArray[np.int32]:
        """The partitions of so many rows by one of Kafka's partitioners."""
        match self._sink.partitioner:
            case "all-to-zero":
                return np.zeros(rows, np.int32)
            case "fixed":
                return fixed(rows, partitions, task=self._task.number)
            case "round-robin":
                chosen = round_robin(rows, partitions, first=self._turn % partitions)
                self._turn += rows
                return chosen
        if keys is None:
            return self._partition_in_runs(rows, partitions)
        self._turn += 1
        return by_key(keys, partitions, fallback=self._turn % partitions)

    def _partition_in_runs(self, rows: int, partitions: int) -> NDArray[np.int32]:
        """Partitions of rows without keys: in runs, as Kafka's clients fill one batch after another, from partitions
        that no other task uses, if there are enough."""
        enough = partitions >= self._task.of
        choice = np.arange(self._task.number, partitions, self._task.of) if enough else np.arange(partitions)
        run = min(_ROWS_IN_A_RUN, -(-rows // choice.size))
        first, self._turn = self._turn, self._turn + -(-rows // run)
        return choice[(np.arange(rows) // run + first) % choice.size].astype(np.int32)

    # --- metadata -------------------------------------------------------------------------------------------

    def _read_timestamps(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        now = now_ms()
        if "timestamp" not in self._metadata:
            return np.full(rows.num_rows, now, np.int64)
        column = rows.column(self._metadata["timestamp"])
        micros = column.cast(pa.int64())
        millis = np.floor_divide(micros.fill_null(0).to_numpy(), 1000)
        return np.where(np.asarray(micros.is_null()), now, millis) if micros.null_count else millis

    def _read_headers(self, rows: pa.RecordBatch) -> pa.Array | None:
        if self._sink.headers:
            return self._read_headers_of([self], np.zeros(rows.num_rows, np.int64))
        for key in ("headers", "header-list"):
            if key in self._metadata:
                # Spark has its own names for the parts of maps and rows.
                return rows.column(self._metadata[key]).cast(arrow_type(WRITABLE[key]))
        return None


def _read_kinds(hidden: pa.RecordBatch) -> _Kinds:
    """The row kinds of ``hidden``, None when all rows are insertions."""
    if KIND not in hidden.schema.names:
        return None
    kinds: NDArray[np.int8] = hidden.column(KIND).fill_null(int(RowKind.INSERT)).to_numpy(zero_copy_only=False)
    return kinds


@contextmanager
def _locate_errors(topic: str | Callable[[int], str], hidden: pa.RecordBatch) -> Iterator[None]:
    """Raises the RecordErrors of rows with the partition's number and the offset of the row. ``topic`` is the topic of
    all rows, or gives the topic of a row by its number."""
    try:
        yield
    except RecordTooLargeError as error:
        reason = f"topic '{topic if isinstance(topic, str) else topic(error.row)}': a {error}"
        raise RecordError(reason, "", *origin_of(hidden, error.row), hint=error.hint) from error
    except RecordError as error:
        if error.topic or error.offset < 0:
            raise
        raise locate_error(error, hidden, error.offset) from error


def _with_row(error: RecordError, row: int) -> RecordError:
    """``error`` about the row of that number."""
    return type(error)(error.reason, "", -1, row, error.format, error.field, error.hint)


def _find_encoder(spec: FormatSpec, schema: RowType) -> _Encode:
    found = formats.get(spec.identifier)
    if isinstance(found, ChangeFormat):
        return found.encoder(schema, spec.options).encode
    encoder = found.encoder(schema, spec.options)
    return lambda rows, _: encoder.encode(rows)
