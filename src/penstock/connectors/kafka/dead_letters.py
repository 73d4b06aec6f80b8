"""Dead letters: records that cannot be decoded, and go to a separate topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.table.metadata import WRITABLE
from penstock.spi import HIDDEN, BadRecord, Column, ColumnKind, Guarantee, RefusedRow, SinkSpec, TableDefinition
from penstock.types import Field, RowType, arrow_type

#: The part of a record that is neither its key nor its value.
METADATA = "metadata"

_COLUMNS = {"key": "__raw_key__", "value": "__raw_value__", "headers": "header-list", "timestamp": "timestamp"}

#: A dead letter: a record as it was, with further headers.
LETTER = RowType(tuple(Field(name, WRITABLE[key].with_nullability(True)) for name, key in _COLUMNS.items()))

#: The headers with a dead letter's position and the reason, in this order, values as UTF-8 text: ``part`` is ``key``,
#: ``value`` or ``metadata``, ``field`` is empty when no single field is the cause.
HEADERS = tuple(
    f"penstock.dead-letter.{name}" for name in ("topic", "partition", "offset", "part", "format", "field", "reason")
)

#: The header with the table that a record is of, in pipelines that find their tables; empty if it is not known.
TABLE_HEADER = "penstock.dead-letter.table"

#: The most characters of a reason in a header: a dead letter must not grow much beyond its record.
_LONGEST_REASON = 1000

#: The prefix of transactional ids of jobs that write nothing else to Kafka.
_PREFIX = "penstock-dead-letters"


@dataclass(frozen=True)
class DeadLetter:
    """A rejected record: its index among the records, the part (``key``, ``value`` or ``metadata``) and the format that
    refused it (none for metadata), and the reason. Where records are of many tables, ``table`` is its own."""

    index: int
    part: str
    format: str
    bad: BadRecord
    table: str | None = None


def define_table(table: TableDefinition, topic: str) -> TableDefinition:
    """The table of the dead letters of ``table``: in the same cluster, with the same client properties."""
    columns = tuple(
        Column(name, WRITABLE[key].with_nullability(True), ColumnKind.METADATA, key) for name, key in _COLUMNS.items()
    )
    options = {key: text for key, text in table.options.items() if key.startswith("properties.")}
    options |= {"topic": topic, "value.format": "raw"}
    return TableDefinition(f"{table.name}.dead-letters", columns, options, table.origin, table.surface)


def adapt_guarantee(sink: KafkaSinkSpec, others: Sequence[SinkSpec]) -> KafkaSinkSpec:
    """The sink of dead letters in a job with ``others``: exactly-once when one of them is, and in the transactions of
    those that write to Kafka."""
    exact = [each for each in others if each.capabilities.guarantee is Guarantee.EXACTLY_ONCE]
    if not exact:
        return sink
    prefix = next((each.transactional_id_prefix for each in exact if isinstance(each, KafkaSinkSpec)), _PREFIX)
    return replace(sink, guarantee=Guarantee.EXACTLY_ONCE, transactional_id_prefix=prefix)


def build_letters(
    found: Sequence[DeadLetter], record: Mapping[str, pa.Array], places: Iterable[tuple[str, int, int]]
) -> pa.StructArray:
    """The dead letters of ``found``. ``record`` has their unchanged keys, values, headers and timestamps, by the names
    of :data:`LETTER`, and ``places`` their topics, partitions and offsets."""
    headers = []
    for letter, given, place in zip(found, record["headers"].to_pylist(), places, strict=True):
        reason = letter.bad.reason[:_LONGEST_REASON]
        facts = (*place, letter.part, letter.format, letter.bad.field, reason)
        named = [*zip(HEADERS, facts, strict=True), *([] if letter.table is None else [(TABLE_HEADER, letter.table)])]
        added = [{"key": key, "value": str(fact).encode(errors="replace")} for key, fact in named]
        headers.append([*(given or []), *added])
    types = {field.name: arrow_type(field.type) for field in LETTER.fields}
    columns = [
        pa.array(headers, each) if name == "headers" else record[name].cast(each) for name, each in types.items()
    ]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(LETTER)))


def build_letters_of_rows(
    rows: pa.RecordBatch, refused: Sequence[RefusedRow], names: Mapping[str, str]
) -> pa.RecordBatch:
    """The dead letters of rows of a scan that gives records as they are, as rows of the sink followed by
    :data:`HIDDEN`. ``names`` are those of the columns, by the keys of their metadata, and that of the value under an
    empty one."""
    chosen = rows.take(pa.array([each.index for each in refused], pa.int64()))
    keys = {name: key if key != "__raw_value__" else "" for name, key in _COLUMNS.items()}
    record = {name: chosen.column(names[key]) for name, key in keys.items()}
    number, offset = (chosen.column(name) for name in HIDDEN.names)
    topics, partitions = (chosen.column(names[key]).to_pylist() for key in ("topic", "partition"))
    found = [
        DeadLetter(each.index, each.part, each.format, BadRecord(each.index, each.reason, each.field), each.table)
        for each in refused
    ]
    letters = build_letters(found, record, zip(topics, partitions, offset.to_pylist(), strict=True))
    columns = [*letters.flatten(), number, offset]
    return pa.RecordBatch.from_arrays(columns, names=[*LETTER.names, *HIDDEN.names])
