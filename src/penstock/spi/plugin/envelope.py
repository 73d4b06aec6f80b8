"""The columns that rows have beside their table's columns, on their way from a source to a committer."""

from __future__ import annotations

from penstock.types import BIGINT, INT, Field, RowType

#: What the names of these columns begin with, and no name of a user's column.
_MARK = "\x1f"


def own_name(name: str) -> str:
    """The name of one of penstock's own columns, which no column of a user has."""
    return f"{_MARK}{name}"


def is_own_name(name: str) -> bool:
    """Whether a column is penstock's own."""
    return name.startswith(_MARK)


def bare_name(name: str) -> str:
    """The name that :func:`own_name` was given."""
    return name.removeprefix(_MARK)


#: Columns that follow a scan's own: where a row came from, which errors name. The first is the number of the
#: source's partition (:meth:`Source.partition`).
HIDDEN = RowType((Field(own_name("partition"), INT), Field(own_name("offset"), BIGINT)))

#: Each source of a job numbers its partitions from its ordinal times this.
PARTITIONS_PER_SOURCE = 1_000_000

#: A column (TINYINT) that follows those of :data:`HIDDEN` where rows are changes of rows: their RowKind, null for an
#: insertion.
KIND = own_name("kind")

#: A column (a struct) that follows them where a source keeps records that it cannot decode. A row with a value in it is
#: not a row of the table, but a dead letter on its way to the sink whose columns the struct has.
DEAD_LETTER = own_name("dead letter")

#: The last column (BINARY) of a source's frame. A row with a value in it is not a row of the table, but the report of a
#: reading task for :meth:`Source.receive_reports`; the engine takes it out.
REPORT = own_name("report")

#: A column (BIGINT) of a source with event time: the watermark when the batch was planned, in ms since 1970, the same
#: in every row of a batch; null before the first one. It precedes :data:`REPORT`, and rows with a report have it too.
WATERMARK = own_name("watermark")
