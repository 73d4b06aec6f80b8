"""The options of the ``debezium-json`` format."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.changes.options import ChangeOptions
from penstock.options import BOOLEAN, opt


@dataclass(frozen=True, kw_only=True)
class DebeziumJsonOptions(ChangeOptions):
    """Options of ``debezium-json``, with Flink's names and defaults."""

    schema_include: bool = opt(
        "schema-include",
        BOOLEAN,
        default=False,
        doc="Whether messages contain their schema, as Kafka Connect writes them with "
        "value.converter.schemas.enable. The change is then under payload. In pipelines that find their tables the "
        "schema gives the types of columns. Only for reading.",
    )
