"""Filters for the databases and tables of messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.changes.envelopes import read_envelopes
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.options import JsonOptions
from penstock.options import java_pattern
from penstock.spi import BadRecord
from penstock.types import STRING, Field, RowType


def make_filters(options: CanalJsonOptions) -> tuple[Include, ...]:
    """The filters of ``database.include`` and ``table.include``."""
    given = (("database", options.database_include), ("table", options.table_include))
    return tuple(Include(field, pattern) for field, pattern in given if pattern is not None)


@dataclass(frozen=True)
class Include:
    """Selects messages whose ``field`` matches ``pattern``, a Java regular expression, as a whole. The rest of a
    message is only read if it is selected."""

    field: str
    pattern: str

    @cached_property
    def _reader(self) -> JsonDecoder:
        options = JsonOptions(fail_on_missing_field=True, json_parser=False)
        return JsonDecoder(RowType((Field(self.field, STRING),)), options)

    def select(self, messages: pa.BinaryArray) -> tuple[npt.NDArray[np.int64], list[BadRecord]]:
        """The indices of selected messages, and the messages without the field. A null counts as the text ``null``."""
        found = read_envelopes(self._reader, messages)
        names = found.columns[self.field].fill_null("null").dictionary_encode()
        match = java_pattern(self.pattern).fullmatch
        matching = np.array([match(each) is not None for each in names.dictionary.to_pylist()], bool)
        chosen = found.message[matching[names.indices.to_numpy()]]
        return chosen, [self._explain_missing(each) for each in found.bad]

    def _explain_missing(self, bad: BadRecord) -> BadRecord:
        if bad.field != self.field:
            return bad
        return replace(bad, reason=f"the field is missing, and '{self.field}.include' needs it")
