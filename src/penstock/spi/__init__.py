"""All that a plug-in imports: the protocols of connectors and formats, and the registries that find them."""

from penstock.spi.formats import BadRecord, Decoded, Decoder, Encoder, Format, FormatSpec
from penstock.spi.registry import Registry, connectors, formats
from penstock.spi.runtime import (
    HIDDEN,
    Batch,
    Checkpoint,
    JobContext,
    Output,
    Published,
    Runtime,
    Source,
    Stage,
    Target,
    Task,
    cause_of,
    guarded,
)
from penstock.spi.tables import Column, ColumnKind, Connector, Surface, TableDefinition

__all__ = [
    "HIDDEN",
    "BadRecord",
    "Batch",
    "Checkpoint",
    "Column",
    "ColumnKind",
    "Connector",
    "Decoded",
    "Decoder",
    "Encoder",
    "Format",
    "FormatSpec",
    "JobContext",
    "Output",
    "Published",
    "Registry",
    "Runtime",
    "Source",
    "Stage",
    "Surface",
    "TableDefinition",
    "Target",
    "Task",
    "cause_of",
    "connectors",
    "formats",
    "guarded",
]
