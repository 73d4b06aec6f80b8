"""Messages of one table to rows: those of the usual form by their parts, which are found already."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.messages import ChangeMessages
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.shared.codec import Picklable
from penstock.spi import Decoded


@dataclass(frozen=True)
class DebeziumTableDecoder(Picklable):
    """Decodes messages of the usual form by reading the rows at their places, and the rest by ``others``."""

    others: DebeziumJsonDecoder

    @cached_property
    def _rows(self) -> JsonDecoder:
        return JsonDecoder(self.others.schema, self.others.options.json)

    def decode(self, messages: ChangeMessages) -> Decoded:
        """The rows of messages. ``bad`` lists the refused ones. Metadata is outside of the rows."""
        if self.others.metadata:
            return self.others.decode(messages.values(np.arange(len(messages))))
        found = messages.rows
        rows, read = self._rows.decode_spans(found.spans)
        message, kinds = found.spans.message, found.kinds
        left = ~messages.usual
        if not read.all():
            left[message[~read]] = True
            kept = ~left[message]
            rows, message, kinds = rows.filter(pa.array(kept)), message[kept], kinds[kept]
        others = np.flatnonzero(left)
        if not len(others):
            return Decoded(rows, message, kinds)
        more = self.others.decode(messages.values(others))
        assert more.origin is not None, "changes have an origin"  # noqa: S101
        assert more.kinds is not None, "changes have kinds"  # noqa: S101
        message = np.concatenate([message, others[more.origin]])
        order = np.argsort(message, kind="stable")
        rows = pa.concat_batches([rows, more.rows]).take(pa.array(order))
        bad = tuple(replace(each, index=int(others[each.index])) for each in more.bad)
        return Decoded(rows, message[order], np.concatenate([kinds, more.kinds])[order], bad)
