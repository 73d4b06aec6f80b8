"""Changes as Canal writes them, by Flink's rules."""

from __future__ import annotations

from penstock.formats.canal_json.decode import CanalJsonDecoder
from penstock.formats.canal_json.inference_options import CanalInferenceOptions
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.canal_json.table_reader import CanalTableReader
from penstock.formats.changes.encode import RowFrame, encode_fields
from penstock.formats.changes.factory import InferringChangeFormat
from penstock.formats.changes.table_encode import ChangeFrames
from penstock.types import RowType


def _build_frames(options: CanalJsonOptions) -> tuple[RowFrame, RowFrame]:
    inserted, deleted = (
        RowFrame(b'{"data":[', f'],"type":"{operation}"}}'.encode()) for operation in ("INSERT", "DELETE")
    )
    return inserted, deleted


def _build_table_frames(options: CanalJsonOptions, row: RowType) -> ChangeFrames:
    """The frames of messages of a table, which name it and its primary key. ``old`` is the whole row before an
    update."""
    names = {"database": options.database, "table": options.table[-1], "pkNames": options.primary_key}
    head = b'{"data":[' if options.ignore_null_fields else b'{"old":null,"data":['

    def end(operation: str) -> bytes:
        return f'],"type":"{operation}"{encode_fields(names)}}}'.encode()

    inserted, deleted = (RowFrame(head, end(operation)) for operation in ("INSERT", "DELETE"))
    return ChangeFrames(inserted, deleted, (b'{"old":[', b'],"data":[', end("UPDATE")))


FORMAT = InferringChangeFormat(
    "canal-json",
    CanalJsonOptions,
    CanalJsonDecoder,
    _build_frames,
    __doc__,
    ("database", "table"),
    _build_table_frames,
    CanalInferenceOptions,
    CanalTableReader,
)
