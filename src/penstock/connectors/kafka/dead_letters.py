"""Dead letters: records that cannot be decoded, and go to a separate topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.table.metadata import WRITABLE
from penstock.spi import BadRecord, Column, ColumnKind, Guarantee, SinkSpec, TableDefinition
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

#: The most characters of a reason in a header: a dead letter must not grow much beyond its record.
_LONGEST_REASON = 1000

#: The prefix of transactional ids of jobs that write nothing else to Kafka.
_PREFIX = "penstock-dead-letters"


@dataclass(frozen=True)
class DeadLetter:
    """A rejected record: its index among the records, the part (``key``, ``value`` or ``metadata``) and the format that
    refused it (none for metadata), and the reason."""

    index: int
    part: str
    format: str
    bad: BadRecord


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
    found: Sequence[DeadLetter], record: Mapping[str, pa.Array], topic: str, partition: int, offsets: Sequence[int]
) -> pa.StructArray:
    """The dead letters of ``found``. ``record`` has their unchanged keys, values, headers and timestamps, by the names
    of :data:`LETTER`."""
    headers = []
    for letter, given, offset in zip(found, record["headers"].to_pylist(), offsets, strict=True):
        reason = letter.bad.reason[:_LONGEST_REASON]
        facts = (topic, partition, offset, letter.part, letter.format, letter.bad.field, reason)
        added = [
            {"key": key, "value": str(fact).encode(errors="replace")} for key, fact in zip(HEADERS, facts, strict=True)
        ]
        headers.append([*(given or []), *added])
    types = {field.name: arrow_type(field.type) for field in LETTER.fields}
    columns = [
        pa.array(headers, each) if name == "headers" else record[name].cast(each) for name, each in types.items()
    ]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(LETTER)))
