"""Rows of a sink to whole record batches, ready to be published."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.table.metadata import WRITABLE
from penstock.errors import RecordError
from penstock.kafka.batches import EncodedBatch, RecordTooLargeError, encode
from penstock.kafka.compression import Compression
from penstock.kafka.partitioner import by_key, fixed, round_robin
from penstock.kafka.properties import ClientConfig
from penstock.kafka.reserved import is_reserved
from penstock.options import java_pattern
from penstock.spi import ChangeFormat, FormatSpec, Task, formats
from penstock.types import RowType, arrow_type

#: Brokers' default of max.message.bytes, for topics whose settings may not be read.
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588

_ROWS_IN_A_RUN = 4096

_Kinds = NDArray[np.int8] | None
_Encode = Callable[[pa.RecordBatch, _Kinds], pa.BinaryArray]


class RowEncoder:
    """Encodes the rows of one sink. One per task.

    ``partitions`` gives the number of a topic's partitions, ``limits`` the max.message.bytes of topics that are known.
    ``reserved`` says of a topic that matches the table's whether it is out of reach all the same.
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
        self._value = _encoder(sink.value, sink.value_schema) if "__raw_value__" not in self._metadata else None
        self._key = _encoder(sink.key, sink.key_schema) if sink.key and "__raw_key__" not in self._metadata else None
        self._pattern = java_pattern(sink.topic_pattern) if sink.topic_pattern else None
        self._compression = Compression[client.compression_type.upper()]
        self._level = {
            Compression.GZIP: client.compression_gzip_level,
            Compression.LZ4: client.compression_lz4_level,
            Compression.ZSTD: client.compression_zstd_level,
        }.get(self._compression)
        self._turn = random.randrange(1 << 16)  # noqa: S311 - so that small batches do not all begin with one partition

    def encode(
        self, rows: pa.RecordBatch, places: pa.Array, offsets: pa.Array, kinds: _Kinds = None
    ) -> Iterator[tuple[str, EncodedBatch]]:
        """The record batches of ``rows``, by topic and partition; each partition's rows keep their order.

        ``places`` and ``offsets`` say where each row came from, ``kinds`` what it is (None: all are insertions).
        Raises RecordError with the row's place as partition and without a topic: the driver knows the topic's name.
        """
        if not rows.num_rows:
            return
        for topic, chosen in self._by_topic(rows, places, offsets):
            part = rows if chosen is None else rows.take(chosen)
            where = (places, offsets) if chosen is None else (places.take(chosen), offsets.take(chosen))
            try:
                kinds_of = kinds if kinds is None or chosen is None else kinds[chosen]
                keys = self._part(part, None, self._key, self._sink.key_columns, self._sink.key_prefix, "__raw_key__")
                values = self._part(
                    part, kinds_of, self._value, self._sink.value_columns, self._sink.value_prefix, "__raw_value__"
                )
                batches = encode(
                    keys=keys,
                    values=values,
                    timestamps=self._timestamps(part),
                    partitions=self._partitions(keys, part.num_rows, self._count(topic)),
                    headers=self._headers(part),
                    compression=self._compression,
                    level=self._level,
                    max_batch_bytes=min(
                        self._limits.get(topic, DEFAULT_MAX_MESSAGE_BYTES), self._client.max_request_size
                    ),
                    batch_bytes=self._client.batch_size,
                )
            except RecordTooLargeError as error:
                raise self._located(error, f"topic '{topic}': a {error}", error.row, *where) from error
            except RecordError as error:
                if error.topic or error.offset < 0:
                    raise
                raise self._located(error, error.reason, error.offset, *where) from error
            for batch in batches:
                yield topic, batch

    def _part(
        self,
        rows: pa.RecordBatch,
        kinds: _Kinds,
        encode: _Encode | None,
        columns: tuple[str, ...],
        prefix: str,
        raw: str,
    ) -> pa.BinaryArray | None:
        """The keys or values of messages: made by ``encode`` of columns without their prefix, or as the metadata
        column ``raw`` has them."""
        if encode is not None:
            part = rows.select(list(columns))
            return encode(part.rename_columns([name.removeprefix(prefix) for name in columns]), kinds)
        if raw in self._metadata:
            return rows.column(self._metadata[raw])
        return None

    def _located(self, error: RecordError, reason: str, row: int, places: pa.Array, offsets: pa.Array) -> RecordError:
        return RecordError(reason, "", places[row].as_py(), offsets[row].as_py(), error.format, error.field, error.hint)

    # --- where to -------------------------------------------------------------------------------------------

    def _by_topic(
        self, rows: pa.RecordBatch, places: pa.Array, offsets: pa.Array
    ) -> Iterator[tuple[str, pa.Array | None]]:
        if "topic" not in self._metadata:
            yield self._sink.topics[0], None
            return
        named = pc.dictionary_encode(rows.column(self._metadata["topic"]), null_encoding="encode")
        codes = named.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(named.dictionary.to_pylist()):
            chosen = np.flatnonzero(codes == code)
            refused = self._refused(topic)
            if refused:
                row = int(chosen[0])
                raise RecordError(
                    f"the row's topic is {topic!r}, which is {refused}",
                    "",
                    places[row].as_py(),
                    offsets[row].as_py(),
                    field="topic",
                    hint=f"correct the metadata column of table '{self._sink.table}', or the table's topics",
                )
            yield topic, pa.array(chosen)

    def _refused(self, topic: str | None) -> str:
        """What is wrong with a row's topic; nothing when it may be written."""
        listed = topic is not None and (
            topic in self._sink.topics or bool(self._pattern and self._pattern.fullmatch(topic))
        )
        if topic is None or not listed:
            return f"not one of '{self._sink.topic_pattern or '; '.join(self._sink.topics)}'"
        return "a topic of Kafka's or penstock's own, which no table writes" if self._reserved(topic) else ""

    def _partitions(self, keys: pa.BinaryArray | None, rows: int, partitions: int) -> NDArray[np.int32]:
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
            return self._in_runs(rows, partitions)
        self._turn += 1
        return by_key(keys, partitions, fallback=self._turn % partitions)

    def _in_runs(self, rows: int, partitions: int) -> NDArray[np.int32]:
        """Partitions of rows without keys, which may go anywhere: in runs, as Kafka's clients fill one batch after
        another, and to partitions that no other task chooses, as long as there are enough."""
        enough = partitions >= self._task.of
        choice = np.arange(self._task.number, partitions, self._task.of) if enough else np.arange(partitions)
        run = min(_ROWS_IN_A_RUN, -(-rows // choice.size))
        first, self._turn = self._turn, self._turn + -(-rows // run)
        return choice[(np.arange(rows) // run + first) % choice.size].astype(np.int32)

    # --- metadata -------------------------------------------------------------------------------------------

    def _timestamps(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        now = time.time_ns() // 1_000_000
        if "timestamp" not in self._metadata:
            return np.full(rows.num_rows, now, np.int64)
        column = rows.column(self._metadata["timestamp"])
        micros = column.cast(pa.int64())
        millis = np.floor_divide(micros.fill_null(0).to_numpy(), 1000)
        return np.where(np.asarray(micros.is_null()), now, millis) if micros.null_count else millis

    def _headers(self, rows: pa.RecordBatch) -> pa.Array | None:
        for key in ("headers", "header-list"):
            if key in self._metadata:
                # Spark names the parts of maps and rows in its own way.
                return rows.column(self._metadata[key]).cast(arrow_type(WRITABLE[key]))
        return None


def _encoder(spec: FormatSpec, schema: RowType) -> _Encode:
    found = formats.get(spec.identifier)
    if isinstance(found, ChangeFormat):
        return found.encoder(schema, spec.options).encode
    encoder = found.encoder(schema, spec.options)
    return lambda rows, _: encoder.encode(rows)
