"""All that a plug-in imports: the protocols of connectors and formats, and the registries that find them."""

from penstock.spi.plugin.batches import Batch, CommitStatus, Published, Written
from penstock.spi.plugin.committers import Committer, SinkRuntime
from penstock.spi.plugin.context import Checkpoint, JobContext, NextBatch
from penstock.spi.plugin.envelope import (
    DEAD_LETTER,
    HIDDEN,
    KIND,
    PARTITIONS_PER_SOURCE,
    REPORT,
    WATERMARK,
    bare_name,
    is_own_name,
    own_name,
)
from penstock.spi.plugin.formats import (
    BadRecord,
    ChangeEncoder,
    ChangeFormat,
    Decoded,
    Decoder,
    Encoder,
    Format,
    FormatSpec,
    PairsUpdates,
    RegistryFormat,
    TableFormat,
)
from penstock.spi.plugin.inference import (
    InferringFormat,
    MessageDecoder,
    Messages,
    MessageTables,
    SeenColumns,
    TableReader,
)
from penstock.spi.plugin.metrics import Counter, Gauge, Meter, Metric, MetricGroup
from penstock.spi.plugin.nulls import NotNull, missing_text
from penstock.spi.plugin.outputs import FoundOutputs, Output
from penstock.spi.plugin.registry import Registry, connectors, explain_unknown_connector, formats
from penstock.spi.plugin.sources import Source, SourcePartition, SourceRuntime
from penstock.spi.plugin.specs import (
    CHANGES,
    INSERTIONS,
    AnySettings,
    BuildsDeadLetters,
    Guarantee,
    NeedsTimes,
    RefusedRow,
    ScanCapabilities,
    ScanSpec,
    SinkCapabilities,
    SinkSpec,
    WithNotes,
)
from penstock.spi.plugin.starts import ChecksScans, ChecksSinks, StartContext, Warmable
from penstock.spi.plugin.tables import (
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
    WritesTables,
    scan_spec,
    sink_spec,
)
from penstock.spi.plugin.tasks import INSTRUCTIONS, OnDriver, SentStage, Stage, Task
from penstock.spi.plugin.watermarks import Watermark, WatermarkOptions, describe_idleness, split_options
from penstock.spi.plugin.writers import OutputRows, TaskResults, WritableBytes, Writer, WriterFactory, WriteTasks
from penstock.spi.support.documents import check_source, keep_columns, source_document
from penstock.spi.support.frames import (
    ScanDataSource,
    add_empty_reports,
    cause_of,
    failure_of,
    frame_schema,
    guard_errors,
    locate_error,
    map_batches,
    on_one_machine,
    origin_of,
    pickle_text,
    place_rows,
    read_frame,
    run_stage,
    unpickle_text,
)
from penstock.spi.support.scratch import ScratchFile
from penstock.spi.support.stopping import run_until_stopped
