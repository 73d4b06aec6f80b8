"""All that a plug-in imports: the protocols of connectors and formats, and the registries that find them."""

from penstock.spi.documents import check_source, source_document
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
from penstock.spi.frames import (
    ScanDataSource,
    cause_of,
    failure_of,
    frame_schema,
    guarded,
    located,
    mapped,
    on_one_machine,
    origin_of,
    pickled,
    placed,
    read_frame,
    staged,
    unpickled,
    unreported,
    without_dead_letters,
)
from penstock.spi.metrics import Counter, Gauge, Meter, Metric, MetricGroup
from penstock.spi.nulls import NotNull, missing_text
from penstock.spi.registry import Registry, connectors, formats, unknown_connector
from penstock.spi.runtime import (
    DEAD_LETTER,
    HIDDEN,
    INSTRUCTIONS,
    KIND,
    PARTITIONS_PER_SOURCE,
    REPORT,
    WATERMARK,
    Batch,
    Checkpoint,
    Committer,
    JobContext,
    NextBatch,
    OnDriver,
    Output,
    Published,
    Results,
    SentStage,
    SinkRuntime,
    Source,
    SourcePartition,
    SourceRuntime,
    Stage,
    Standing,
    Task,
    Warmable,
    Written,
    outputs_in,
)
from penstock.spi.scratch import ScratchFile
from penstock.spi.specs import (
    CHANGES,
    INSERTIONS,
    AnySettings,
    Guarantee,
    NeedsTimes,
    ScanCapabilities,
    ScanSpec,
    SinkCapabilities,
    SinkSpec,
    WithNotes,
)
from penstock.spi.starts import ChecksScans, ChecksSinks, StartContext
from penstock.spi.tables import (
    Column,
    ColumnKind,
    Connector,
    Readable,
    Surface,
    TableDefinition,
    WithMetadata,
    WithOverwrite,
    WithPartitions,
    Writable,
    scan_spec,
    sink_spec,
)
from penstock.spi.watermarks import Watermark, WatermarkOptions, shown_idleness, split_options
