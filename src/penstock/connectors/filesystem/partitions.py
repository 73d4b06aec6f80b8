"""The folders of a table with PARTITIONED BY, named as Flink and Hive name them: ``day=2026-01-01/shop=7``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from penstock.errors import ExecutionError, Problem
from penstock.types import RowType, arrow_type
from penstock.types.logical import root

#: The types of columns that name folders.
_TYPES = ("STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
#: What Flink writes as ``%`` and two hexadecimal digits.
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


@dataclass(frozen=True)
class Partitions:
    """The columns that name folders, outermost first, and the name of those that are NULL or blank."""

    columns: RowType
    default: str

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each folder, in their order, without the columns that name it."""
        rest = batch.select([name for name in batch.schema.names if name not in self.columns.names])
        encoded = [batch.column(name).cast(pa.string()).dictionary_encode("encode") for name in self.columns.names]
        sizes = [len(each.dictionary) for each in encoded]
        codes = reduce(
            lambda found, at: found * sizes[at] + encoded[at].indices.to_numpy(),
            range(len(encoded)),
            np.zeros(batch.num_rows, np.int64),
        )
        for code in np.unique(codes):
            rows, folder, left = np.flatnonzero(codes == code), [], int(code)
            for name, each, size in reversed(list(zip(self.columns.names, encoded, sizes, strict=True))):
                left, index = divmod(left, size)
                folder.append(f"{_escape(name)}={_escape(self._text_or_default(each.dictionary[index].as_py()))}")
            yield "/".join(reversed(folder)), rest.take(pa.array(rows))

    def _text_or_default(self, value: str | None) -> str:
        return self.default if value is None or not value.strip() else value

    def values(self, path: str) -> dict[str, pa.Scalar]:
        """The values of the columns, by name, in the path of a file. Raises ExecutionError for one that does not have
        them."""
        parts = PurePosixPath(path).parts[:-1][-len(self.columns.names) :]
        found = [tuple(map(unquote, each.partition("=")[::2])) for each in parts]
        if [name for name, _ in found] != list(self.columns.names):
            expected = "/".join(f"{name}=.." for name in self.columns.names)
            raise ExecutionError(
                f"file '{path}' is not in a partition folder {expected}; move it there, or out of the table's folder"
            )
        texts = [None if value == self.default else value for _, value in found]
        try:
            return {
                each.name: pa.scalar(text, pa.string()).cast(arrow_type(each.type))
                for text, each in zip(texts, self.columns.fields, strict=True)
            }
        except pa.ArrowInvalid as error:
            raise ExecutionError(
                f"file '{path}': the folder's name does not hold a value of its column ({error}); rename the folder or "
                "change the column's type"
            ) from error


def problems(schema: RowType, names: tuple[str, ...]) -> Iterator[Problem]:
    """What is wrong with the columns of PARTITIONED BY."""
    for each in schema.select(names).fields:
        if root(each.type) not in _TYPES:
            hint = f"use a column of {', '.join(_TYPES)}"
            yield Problem(f"column '{each.name}': PARTITIONED BY does not take {each.type}", hint=hint)
        if each.name.startswith((".", "_")):
            reason = f"column '{each.name}': a folder of that name is hidden, and PARTITIONED BY does not take it"
            yield Problem(reason, hint="give it another name")
    if not set(schema.names) - set(names):
        hint = "leave one of them out, or add a column"
        yield Problem("all columns are in PARTITIONED BY, and files need one", hint=hint)


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", text)
