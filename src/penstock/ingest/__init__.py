"""YAML pipelines, as Flink CDC writes them: text to definition to plan."""

from penstock.ingest.definition import PipelineDef, PipelineOptions, RouteDef, SinkDef, SourceDef, TransformDef
from penstock.ingest.found_columns import ColumnFinder
from penstock.ingest.lowering import lower
from penstock.ingest.parser import parse_pipeline
from penstock.ingest.table_copies import copy_table

__all__ = [
    "ColumnFinder",
    "PipelineDef",
    "PipelineOptions",
    "RouteDef",
    "SinkDef",
    "SourceDef",
    "TransformDef",
    "copy_table",
    "lower",
    "parse_pipeline",
]
