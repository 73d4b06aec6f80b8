"""Changes as Debezium writes them, by Flink's rules."""

from __future__ import annotations

from penstock.errors import OptionsError, Problem
from penstock.formats.changes.encode import RowFrame, build_image_frames
from penstock.formats.changes.factory import InferringChangeFormat
from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.formats.debezium_json.table_reader import DebeziumTableReader
from penstock.formats.json.inference_options import InferenceOptions


def _build_frames(options: DebeziumJsonOptions) -> tuple[RowFrame, RowFrame]:
    """Raises OptionsError if messages are to contain their schema, which only Kafka Connect knows."""
    if options.schema_include:
        hint = "remove it; it is only for reading"
        raise OptionsError((Problem("messages cannot be written with their schema", "schema-include", hint=hint),))
    others = {}
    if options.table:
        source = {"db": options.database, "table": options.table[-1]}
        others = {
            "source": {key: each for key, each in source.items() if each is not None or not options.ignore_null_fields}
        }
    return build_image_frames("op", "c", "d", omit=options.ignore_null_fields, others=others)


FORMAT = InferringChangeFormat(
    "debezium-json",
    DebeziumJsonOptions,
    DebeziumJsonDecoder,
    _build_frames,
    __doc__,
    ("source.database", "source.table"),
    InferenceOptions,
    DebeziumTableReader,
)
