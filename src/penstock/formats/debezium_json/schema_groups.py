"""Messages that contain their schema, by schema."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.debezium_json.connect_kernel import number_texts
from penstock.formats.debezium_json.connect_types import ConnectColumn, read_columns
from penstock.formats.json.rewriting import find_spans
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.table_reader import unfold_arrays

#: The member of messages with their schema.
SCHEMA = "schema"


class SchemaNumbers:
    """The numbers of the schemas of a batch, by their columns: 0 for no schema, and for one that is not of changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[ConnectColumn, ...], int] = {(): 0}

    @property
    def columns(self) -> tuple[tuple[ConnectColumn, ...], ...]:
        """The columns of each number."""
        return tuple(self._known)

    def number(self, schemas: TextSpans) -> npt.NDArray[np.int64]:
        """The number of each of these schemas."""
        codes, firsts = np.empty(len(schemas), np.int64), np.empty(len(schemas), np.int64)
        count = number_texts(schemas.text, schemas.starts, schemas.ends, codes, firsts)
        numbers = np.zeros(count, np.int64)
        for code, first in enumerate(firsts[:count].tolist()):
            columns = read_columns(schemas.text[schemas.starts[first] : schemas.ends[first]].tobytes())
            numbers[code] = self._known.setdefault(columns, len(self._known))
        return numbers[codes]

    def number_messages(self, messages: pa.BinaryArray) -> npt.NDArray[np.int64]:
        """The number of the schema of each of these messages, which may have an unusual form."""
        schemas = find_spans(messages, lambda spans: unfold_arrays(spans).objects().members(SCHEMA))
        found = np.zeros(len(messages), np.int64)
        found[schemas.message] = self.number(schemas)
        return found
