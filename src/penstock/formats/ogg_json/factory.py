"""Changes as Oracle GoldenGate writes them, by Flink's rules."""

from __future__ import annotations

from penstock.formats.changes.encode import RowFrame, build_image_frames
from penstock.formats.changes.factory import ChangeJsonFormat
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.ogg_json.decode import OggJsonDecoder


def _build_frames(options: ChangeOptions) -> tuple[RowFrame, RowFrame]:
    return build_image_frames("op_type", "I", "D", omit=options.ignore_null_fields)


FORMAT = ChangeJsonFormat("ogg-json", ChangeOptions, OggJsonDecoder, _build_frames, doc=__doc__)
