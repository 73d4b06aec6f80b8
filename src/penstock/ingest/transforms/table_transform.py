"""What a rule of ``transform`` does with the rows of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import PipelineError, Problem, RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Vector, select_failures, true_rows
from penstock.flow.rows.envelope import EVENT_TYPE, NAMESPACE_NAME, SCHEMA_NAME, SHARED, TABLE_NAME
from penstock.flow.rows.expressions import Evaluator, NoKernel, UnsupportedCall, check, compile_expressions
from penstock.plan.expressions import ColumnRef, Expression, columns_of, walk
from penstock.plan.scalar_functions import UserCall
from penstock.schemas import TableSchema
from penstock.spi import KIND, locate_error
from penstock.types import RowKind, arrow_schema

_INSERT, _BEFORE, _AFTER, _DELETE = RowKind

_Kinds: TypeAlias = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class TableTransform:
    """What the rules of a pipeline do with the rows of one ``table``, a dotted id. Picklable; tables of one schema
    share what is computed."""

    table: str
    rule: BoundRule

    @property
    def schema(self) -> TableSchema:
        """The table after the transform."""
        return self.rule.schema

    @property
    def calls(self) -> bool:
        """Whether it calls functions of the user."""
        return any(isinstance(part, UserCall) for each in self.rule.expressions for part in walk(each))

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows after the transform. ``rows`` have the columns of the table before it, and perhaps others, such as
        :data:`penstock.spi.HIDDEN`, which follow the computed ones in the result. :data:`penstock.spi.KIND` is the kind
        of a row; the two rows of an update are adjacent, in one batch. An update of which only one row meets the filter
        becomes a deletion or an insertion. None of the rows is a dead letter.

        Raises RecordError for a row that cannot be computed, with the number of its partition and its offset if the
        batch has them, and without a topic.
        """
        return self.rule.apply(rows, self.table)


@dataclass(frozen=True, eq=False)
class BoundRule:
    """Computes ``columns`` of the rows of tables that have the schema ``given``, as tables of ``schema``, for those
    that meet ``condition``. With ``soft_delete``, a deletion becomes an insertion. Picklable."""

    given: TableSchema
    schema: TableSchema
    columns: tuple[Expression, ...]
    session: Session
    condition: Expression | None = None
    soft_delete: bool = False

    @cached_property
    def identical(self) -> bool:
        """Whether rows stay as they are."""
        names = [each.name if isinstance(each, ColumnRef) else None for each in self.columns]
        same = names == list(self.schema.row.names) == list(self.given.row.names)
        return same and self.condition is None and not self.soft_delete and not self._demanded

    @cached_property
    def _demanded(self) -> tuple[int, ...]:
        """The numbers of the columns that may not be NULL in the table, while their values may."""
        pairs = enumerate(zip(self.schema.row.fields, self.columns, strict=True))
        return tuple(at for at, (each, value) in pairs if value.type.nullable and not each.type.nullable)

    @property
    def names_table(self) -> bool:
        """Whether what is computed depends on the table's id."""
        return any(name != EVENT_TYPE for name in self._metadata)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that is computed."""
        return (*self.columns, *(() if self.condition is None else (self.condition,)))

    def compile(self) -> None:
        """Raises UnsupportedError for an expression that cannot be computed."""
        _ = self._selection, self._items

    def apply(self, rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
        """As :meth:`TableTransform.apply`."""
        if self.identical:
            return rows
        carried = [name for name in rows.schema.names if name not in self.given.row.names]
        kinds = self._list_kinds(rows)
        try:
            chosen, kinds = self._select(self._add_metadata(rows, kinds, table), kinds)
            made = self._items.columns(chosen)
        except RecordError as error:
            raise locate_error(error, rows, error.offset) from None
        for at in self._demanded:
            if made[at].null_count:
                name = self.schema.row.names[at]
                reason = f"column '{name}' is of the primary key, and the row has no value for it"
                row = int(np.flatnonzero(np.asarray(made[at].is_null()))[0])
                raise locate_error(RecordError(reason, field=name), chosen, row)
        if self.soft_delete:
            kinds = np.where(kinds == _DELETE, np.int8(_INSERT), kinds)
        others = [pa.array(kinds) if name == KIND else chosen.column(name) for name in carried]
        fields = [*arrow_schema(self.schema.row), *(rows.schema.field(name) for name in carried)]
        return pa.RecordBatch.from_arrays([*made, *others], schema=pa.schema(fields))

    def _add_metadata(self, rows: pa.RecordBatch, kinds: _Kinds, table: str) -> pa.RecordBatch:
        """The rows with the columns of metadata that are read."""
        parts = ["", "", *table.split(".")][-3:]
        for name in self._metadata:
            if name == EVENT_TYPE:
                column = pa.array([each.short for each in RowKind]).take(pa.array(kinds))
            else:
                text = parts[(NAMESPACE_NAME, SCHEMA_NAME, TABLE_NAME).index(name)]
                column = pa.repeat(pa.scalar(text), rows.num_rows)
            rows = rows.append_column(pa.field(name, pa.string()), column)
        return rows

    def _list_kinds(self, rows: pa.RecordBatch) -> _Kinds:
        if KIND not in rows.schema.names:
            return np.zeros(rows.num_rows, np.int8)
        found: _Kinds = rows.column(KIND).fill_null(int(_INSERT)).to_numpy(zero_copy_only=False)
        return found

    def _select(self, rows: pa.RecordBatch, kinds: _Kinds) -> tuple[pa.RecordBatch, _Kinds]:
        """The rows that meet the condition, with the values that it shares with the columns, and their kinds."""
        if self._selection is None:
            return rows, kinds
        decision, *values = self._selection.vectors(rows)
        check((decision,))
        met = true_rows(decision.values, rows.num_rows)
        # The values of rows that are left out may have failed.
        check([Vector(each.values, select_failures(each.failures, met)) for each in values])
        for name, value in zip(self._shared, values, strict=True):
            rows = rows.append_column(name, value.spread(rows.num_rows))
        kinds = _degrade_updates(kinds, met)
        return (rows, kinds) if met.all() else (rows.filter(pa.array(met)), kinds[met])

    # --- programs --------------------------------------------------------------------------------------------

    @cached_property
    def _shared(self) -> dict[str, Expression]:
        """The columns whose values the condition uses too, by the names of columns for them: a row has one value of
        each, even of a random one."""
        if self.condition is None:
            return {}
        parts = {id(each) for each in walk(self.condition)}
        found = (each for each in self.columns if not isinstance(each, ColumnRef) and id(each) in parts)
        return {f"{SHARED}{at}": each for at, each in enumerate(found)}

    @cached_property
    def _selection(self) -> Evaluator | None:
        if self.condition is None:
            return None
        return self._make_evaluator((self.condition, *self._shared.values()), self._batches)

    @cached_property
    def _items(self) -> Evaluator:
        names = {id(each): name for name, each in self._shared.items()}
        columns = tuple(
            ColumnRef(names[id(each)], type=each.type) if id(each) in names else each for each in self.columns
        )
        fields = [pa.field(each.name, each.type) for each in self._batches]
        made = arrow_schema(self.schema.row)
        fields += [
            pa.field(names[id(each)], column.type)
            for each, column in zip(self.columns, made, strict=True)
            if id(each) in names
        ]
        return self._make_evaluator(columns, pa.schema(fields))

    @property
    def _batches(self) -> pa.Schema:
        fields = [pa.field(name, pa.string()) for name in self._metadata]
        return pa.schema([*arrow_schema(self.given.row), *fields])

    @cached_property
    def _metadata(self) -> tuple[str, ...]:
        read = frozenset[str]().union(*map(columns_of, self.expressions))
        return tuple(name for name in (NAMESPACE_NAME, SCHEMA_NAME, TABLE_NAME, EVENT_TYPE) if name in read)

    def _make_evaluator(self, expressions: Sequence[Expression], schema: pa.Schema) -> Evaluator:
        found = compile_expressions(tuple(expressions), schema, self.session)
        if isinstance(found, UnsupportedCall):
            raise found.error()
        if isinstance(found, NoKernel):
            raise PipelineError((Problem(f"{found} cannot be used in a transform", hint="leave it out"),))
        return found


def _degrade_updates(kinds: _Kinds, met: NDArray[np.bool_]) -> _Kinds:
    """The kinds of rows, of which those that ``met`` the condition stay."""
    before = np.flatnonzero((kinds[:-1] == _BEFORE) & (kinds[1:] == _AFTER))
    after = before + 1
    found = kinds.copy()
    found[before[met[before] & ~met[after]]] = _DELETE
    found[after[met[after] & ~met[before]]] = _INSERT
    return found
