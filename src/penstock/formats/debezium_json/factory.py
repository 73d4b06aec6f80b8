"""Changes as Debezium writes them, by Flink's rules."""

from __future__ import annotations

import json

from penstock.errors import OptionsError, Problem
from penstock.formats.changes.encode import RowFrame, build_image_frames, encode_fields
from penstock.formats.changes.factory import InferringChangeFormat
from penstock.formats.changes.table_encode import ChangeFrames
from penstock.formats.debezium_json.connect_schema import describe_change
from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.formats.debezium_json.table_reader import DebeziumTableReader
from penstock.formats.json.inference_options import InferenceOptions
from penstock.types import RowType


def _build_frames(options: DebeziumJsonOptions) -> tuple[RowFrame, RowFrame]:
    """Raises OptionsError if messages are to contain their schema, which only Kafka Connect knows."""
    if options.schema_include:
        hint = "remove it; it is only for reading"
        raise OptionsError((Problem("messages cannot be written with their schema", "schema-include", hint=hint),))
    return build_image_frames("op", "c", "d", omit=options.ignore_null_fields)


def _build_table_frames(options: DebeziumJsonOptions, row: RowType) -> ChangeFrames:
    """The frames of messages of a table, which name it in ``source``."""
    names = {"db": options.database, "table": options.table[-1]}
    source = {key: each for key, each in names.items() if each is not None or not options.ignore_null_fields}
    schema = json.dumps(describe_change(row), ensure_ascii=False, separators=(",", ":")) if options.with_schema else ""
    head, tail = (f'{{"schema":{schema},"payload":', "}") if schema else ("", "")
    before, after = ("", "") if options.ignore_null_fields else ('"before":null,', ',"after":null')

    def end(operation: str) -> bytes:
        return f',"op":"{operation}"{encode_fields({"source": source})}}}{tail}'.encode()

    return ChangeFrames(
        RowFrame(f'{head}{{{before}"after":'.encode(), end("c")),
        RowFrame(f'{head}{{"before":'.encode(), after.encode() + end("d")),
        (f'{head}{{"before":'.encode(), b',"after":', end("u")),
    )


FORMAT = InferringChangeFormat(
    "debezium-json",
    DebeziumJsonOptions,
    DebeziumJsonDecoder,
    _build_frames,
    __doc__,
    ("source.database", "source.table"),
    _build_table_frames,
    InferenceOptions,
    DebeziumTableReader,
)
