"""All that a plug-in imports: the protocols of connectors and formats, and the registries that find them."""

from penstock.spi.formats import (
    BadRecord,
    ChangeEncoder,
    ChangeFormat,
    Decoded,
    Decoder,
    Encoder,
    Format,
    FormatSpec,
    RegistryFormat,
    TableFormat,
)
from penstock.spi.metrics import Counter, Gauge, Meter, Metric, MetricGroup
from penstock.spi.registry import Registry, connectors, formats, unknown_connector
from penstock.spi.runtime import (
    DEAD_LETTER,
    HIDDEN,
    KIND,
    PARTITIONS_PER_SOURCE,
    REPORT,
    WATERMARK,
    Batch,
    Checkpoint,
    Committer,
    JobContext,
    NextBatch,
    Output,
    Published,
    SinkRuntime,
    Source,
    SourceRuntime,
    Stage,
    Task,
    Warmable,
    Written,
    cause_of,
    failure_of,
    guarded,
)
from penstock.spi.specs import (
    CHANGES,
    INSERTIONS,
    AnySettings,
    Guarantee,
    ScanCapabilities,
    ScanSpec,
    SinkCapabilities,
    SinkSpec,
)
from penstock.spi.tables import (
    Column,
    ColumnKind,
    Connector,
    Readable,
    Surface,
    TableDefinition,
    Watermark,
    WithMetadata,
    Writable,
    scan_spec,
    sink_spec,
)
