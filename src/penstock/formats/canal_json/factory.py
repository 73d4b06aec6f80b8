"""Changes as Canal writes them, by Flink's rules."""

from __future__ import annotations

from penstock.formats.canal_json.decode import CanalJsonDecoder
from penstock.formats.canal_json.inference_options import CanalInferenceOptions
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.canal_json.table_reader import CanalTableReader
from penstock.formats.changes.encode import RowFrame, encode_fields
from penstock.formats.changes.factory import InferringChangeFormat


def _build_frames(options: CanalJsonOptions) -> tuple[RowFrame, RowFrame]:
    others = ""
    if options.table:
        names = {"database": options.database, "table": options.table[-1], "pkNames": options.primary_key}
        others = encode_fields(names)
    inserted, deleted = (
        RowFrame(b'{"data":[', f'],"type":"{operation}"{others}}}'.encode()) for operation in ("INSERT", "DELETE")
    )
    return inserted, deleted


FORMAT = InferringChangeFormat(
    "canal-json",
    CanalJsonOptions,
    CanalJsonDecoder,
    _build_frames,
    __doc__,
    ("database", "table"),
    CanalInferenceOptions,
    CanalTableReader,
)
