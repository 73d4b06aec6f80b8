"""Changes as Maxwell's daemon writes them, by Flink's rules."""

from __future__ import annotations

from penstock.formats.changes.encode import RowFrame
from penstock.formats.changes.factory import ChangeJsonFormat
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.maxwell_json.decode import MaxwellJsonDecoder

_FRAMES = RowFrame(b'{"data":', b',"type":"insert"}'), RowFrame(b'{"data":', b',"type":"delete"}')

FORMAT = ChangeJsonFormat("maxwell-json", ChangeOptions, MaxwellJsonDecoder, lambda _: _FRAMES, doc=__doc__)
