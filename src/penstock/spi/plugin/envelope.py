"""The columns that rows have beside those of their table, on their way from a source to a committer."""

from __future__ import annotations

from penstock.types import BIGINT, INT, Field, RowType

#: Columns that follow a scan's own: where a row came from, which errors name. ``__partition`` is the number of the
#: source's partition (:meth:`Source.partition`).
HIDDEN = RowType((Field("__partition", INT), Field("__offset", BIGINT)))

#: Each source of a job numbers its partitions from its ordinal times this.
PARTITIONS_PER_SOURCE = 1_000_000

#: A column (TINYINT) that follows those of :data:`HIDDEN` where rows are changes of rows: their RowKind, null for an
#: insertion.
KIND = "__kind"

#: A column (a struct) that follows them where a source keeps records that it cannot decode. A row with a value in it is
#: not a row of the table, but a dead letter on its way to the sink whose columns the struct has.
DEAD_LETTER = "__dead_letter"

#: The last column (BINARY) of a source's frame. A row with a value in it is not a row of the table, but the report of a
#: reading task for :meth:`Source.reported`; the engine takes it out.
REPORT = "__report"

#: A column (BIGINT) of a source with event time: the watermark when the batch was planned, in ms since 1970, the same
#: in every row of a batch; null before the first one. It precedes :data:`REPORT`, and rows with a report have it too.
WATERMARK = "__watermark"
