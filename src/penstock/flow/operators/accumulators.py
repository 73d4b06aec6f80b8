"""What a group's state keeps of one argument of aggregate calls, and how it changes: counts, sums, extremes, values in
the order of their arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.equality import fixed_values, is_valid
from penstock.columns.hashing import Groups, take_rows
from penstock.columns.ordinals import valid_mask
from penstock.columns.sums import sums, weighted_sums
from penstock.columns.wide_decimals import add_limbs, to_limbs, weighted_limb_sums, wide_column
from penstock.errors import RecordError
from penstock.flow.operators.arrivals import ends_of_added, lists_of_changed
from penstock.flow.operators.deltas import finer_hashes, select_groups
from penstock.flow.operators.extremes import GroupValues, extremes_of_added, extremes_of_changed
from penstock.flow.rows.envelope import VALUE
from penstock.flow.state.store import Tables, TableSpec
from penstock.plan.kept_state import KeptValue
from penstock.types.arrow import quote_name

_EXTREMES = frozenset({"MIN", "MAX"})
_ENDS = frozenset({"FIRST", "LAST"})
#: What depends on the order in which values arrive.
ORDERED = _ENDS | {"VALUES"}
#: What is kept for some aggregates depends on whether rows may be retracted.
_BY_ROWS = ORDERED | _EXTREMES


@dataclass(frozen=True)
class Argument:
    """What calls aggregate: the values of ``column`` that are not null (None: rows), of rows in which ``filter`` is
    true; with ``distinct`` each value once, with ``nulls`` those that are null too."""

    column: str | None
    filter: str | None = None
    distinct: bool = False
    nulls: bool = False

    def __str__(self) -> str:
        text = "*" if self.column is None else quote_name(self.column)
        text = f"NULLS OR {text}" if self.nulls else text
        text = f"DISTINCT {text}" if self.distinct else text
        return f"{text} WHERE {quote_name(self.filter)}" if self.filter is not None else text


@dataclass(frozen=True)
class Accumulators:
    """The columns of a group's state about one argument of ``type``: those of ``COUNT``, ``SUM``, ``MIN``, ``MAX``,
    ``FIRST``, ``LAST`` and ``VALUES`` that ``needs`` names. ``keys`` are the group's, ``retracts`` says whether rows
    are ever retracted; ``FIRST`` and ``LAST`` are for rows that are not."""

    argument: Argument
    type: pa.DataType
    needs: frozenset[str]
    keys: pa.Schema
    retracts: bool
    #: Whether a sum that leaves 64 bits fails.
    strict: bool = False

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns."""
        types = {"COUNT": pa.int64(), "SUM": sum_type(self.type), **dict.fromkeys(("MIN", "MAX"), self.type)}
        types |= {**dict.fromkeys(("FIRST", "LAST"), self.type), "VALUES": pa.list_(self.type)}
        return tuple(pa.field(self.column(each), types[each]) for each in types if each in self.needs)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """The tables of values: to know which are distinct, and which is the next extreme after a retraction."""
        value = pa.field(VALUE, self.type)
        weight = pa.schema([pa.field("weight", pa.int64())])
        if self.argument.distinct:
            return (TableSpec(self.table, pa.schema([*self.keys, value]), weight, "keyed"),)
        if self._keeps_values:
            return (TableSpec(self.table, self.keys, pa.schema([value]), "multiset"),)
        return ()

    def column(self, function: str) -> str:
        """The name of the column of one of the ``needs``."""
        return f"{function} {self.argument}"

    @property
    def depends_on_kinds(self) -> bool:
        """Whether the state depends on whether rows may be retracted."""
        return bool(self.tables or self.needs & _BY_ROWS)

    @property
    def kept_columns(self) -> tuple[KeptValue, ...]:
        """What the columns of the state have."""
        return tuple(self._describe_kept(self.column(each), each) for each in sorted(self.needs))

    @property
    def kept_tables(self) -> tuple[KeptValue, ...]:
        """What the tables have."""
        return tuple(self._describe_kept(each.name, "VALUES") for each in self.tables)

    def _describe_kept(self, name: str, what: str) -> KeptValue:
        of = self.argument
        return KeptValue(name, f"{what}{' WITH NULLS' if of.nulls else ''}", of.column, of.distinct, of.filter)

    def update(
        self,
        old: pa.RecordBatch,
        batch: pa.RecordBatch,
        weights: npt.NDArray[np.int64],
        groups: Groups,
        state: Tables,
    ) -> dict[str, pa.Array]:
        """The columns after the rows of ``batch``, from those before, which are null for new groups."""
        given = GroupValues(groups.index, self.values(batch), self.effective_weights(batch, weights))
        if self.argument.distinct:
            given = self._select_distinct(given, groups, state)
        result = {}
        counts = np.zeros(len(groups), np.int64)
        if "COUNT" in self.needs:
            counts = counts_of(old.column(self.column("COUNT"))) + sums(given.index, given.weights, len(groups))
            result[self.column("COUNT")] = pa.array(counts)
        if "SUM" in self.needs:
            before = old.column(self.column("SUM"))
            result[self.column("SUM")] = total = _add_up(before, given, counts)
            if self.strict and pa.types.is_integer(total.type):
                check_sums(total, _sum_as_floats(before, given, counts), groups.keys, self.column("SUM"))
        extremes = {each: old.column(self.column(each)) for each in sorted(self.needs & _EXTREMES)}
        if extremes and self._keeps_values:
            result |= self._name_columns(self._update_extremes(extremes, given, groups, state))
        elif extremes:
            result |= self._name_columns(extremes_of_added(extremes, given, len(groups)))
        ends = {each: old.column(self.column(each)) for each in sorted(self.needs & _ENDS)}
        result |= self._name_columns(ends_of_added(ends, given, len(groups)))
        if "VALUES" in self.needs:
            name = self.column("VALUES")
            result[name] = lists_of_changed(old.column(name), given, len(groups))
        return result

    @property
    def table(self) -> str:
        """The name of the table of values."""
        return f"values {self.argument}" if self.retracts else f"seen values {self.argument}"

    @property
    def _keeps_values(self) -> bool:
        return self.retracts and bool(self.needs & _EXTREMES)

    def _name_columns(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        return {self.column(function): column for function, column in columns.items()}

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of the rows, null if the rows are counted."""
        return pa.nulls(batch.num_rows) if self.argument.column is None else batch.column(self.argument.column)

    def effective_weights(self, batch: pa.RecordBatch, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The weights, 0 for rows that do not count."""
        if self.argument.filter is not None:
            kept = pc.fill_null(batch.column(self.argument.filter), False).to_numpy(zero_copy_only=False)
            weights = np.where(kept, weights, 0)
        counted = self.argument.column is None or self.argument.nulls
        valid = None if counted else is_valid(batch.column(self.argument.column))
        return weights if valid is None else np.where(valid, weights, 0)

    def _select_distinct(self, given: GroupValues, groups: Groups, state: Tables) -> GroupValues:
        """The values that appeared (weight 1) and disappeared (-1), after the multiset of values was changed."""
        given = given.at(np.flatnonzero(given.weights))
        pairs, net = self._sum_changes(given, groups)
        table = state.keyed(self.table)
        found, stored = table.get(pairs)
        before = counts_of(stored.column(0))
        after = np.maximum(before + net.weights, 0) if table.spec.timed else before + net.weights
        change = (after > 0).astype(np.int64) - (before > 0)
        put = (net.weights != 0 if self.retracts else ~found) | table.spec.timed  # a value that comes again stays
        kept = after[put] if self.retracts else np.ones(np.count_nonzero(put), np.int64)
        weights = pa.RecordBatch.from_arrays([pa.array(kept)], names=["weight"])
        table.put(select_groups(pairs, put), weights, kept != 0)
        if self.needs & ORDERED:
            return _find_appearances(given, pairs, before)
        return GroupValues(net.index, net.values, change)

    def _update_extremes(
        self, old: Mapping[str, pa.Array], given: GroupValues, groups: Groups, state: Tables
    ) -> dict[str, pa.Array]:
        net = self._sum_changes(given.at(np.flatnonzero(given.weights)), groups)[1]
        changed = np.flatnonzero(net.weights)
        net = net.at(changed)
        table = state.multiset(self.table)
        result = extremes_of_changed(old, net, groups, table)
        values = pa.RecordBatch.from_arrays([net.values], names=[VALUE])
        table.add(groups.hashes[net.index], take_rows(groups.keys, net.index), values, net.weights)
        return result

    def _sum_changes(self, given: GroupValues, groups: Groups) -> tuple[Groups, GroupValues]:
        """The different values of each group with their net weights, which may be 0."""
        fields = [*self.keys, pa.field(VALUE, self.type)]
        columns = [*take_rows(groups.keys, given.index).columns, given.values]
        rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        pairs = Groups.by_key(finer_hashes(groups.hashes[given.index], [given.values]), rows)
        firsts = pairs.order[pairs.starts]
        weights = sums(pairs.index, given.weights, len(pairs))
        return pairs, GroupValues(given.index[firsts], given.values.take(pa.array(firsts)), weights)


def _find_appearances(given: GroupValues, pairs: Groups, before: npt.NDArray[np.int64]) -> GroupValues:
    """The values that appeared and disappeared, in the order of their arrival, where each of the ``pairs`` of a group
    and a value occurred ``before`` times. One that was away for a moment disappears and appears."""
    weights = given.weights[pairs.order]
    pair = pairs.index[pairs.order]
    totals = np.cumsum(weights)
    counts = totals + (before - (totals - weights)[pairs.starts])[pair]
    lost = np.zeros(len(pairs), np.bool_)
    lost[pair[(counts <= 0) & (counts - weights > 0)]] = True
    found = np.full(len(pairs), -1, np.int64)
    appeared = (counts > 0) & (counts - weights <= 0)
    found[pair[appeared]] = pairs.order[appeared]  # of equal indices, numpy keeps the last value
    last = counts[np.append(pairs.starts[1:], len(counts)) - 1] if len(pairs) else before
    gone = pairs.order[pairs.starts[(before > 0) & lost]]
    came = np.sort(found[(found >= 0) & (last > 0)])
    changed = given.at(np.concatenate([gone, came]))
    return GroupValues(changed.index, changed.values, np.repeat([-1, 1], [len(gone), len(came)]))


def counts_of(column: pa.Array) -> npt.NDArray[np.int64]:
    """The numbers of an int64 column; 0 for nulls."""
    values = fixed_values(column)
    assert values is not None  # noqa: S101
    valid = is_valid(column)
    return values if valid is None else np.where(valid, values, 0)


def sum_type(argument: pa.DataType) -> pa.DataType | None:
    """The type in which sums of ``argument`` are kept: whole numbers wrap at 64 bits, FLOAT is added up as DOUBLE,
    decimals are exact. None for types without sums."""
    if pa.types.is_integer(argument):
        return pa.int64()
    if pa.types.is_floating(argument):
        return pa.float64()
    if pa.types.is_decimal(argument):
        return pa.decimal256(76, argument.scale)
    return None


def check_sums(total: pa.Array, nearly: npt.NDArray[np.float64], keys: pa.RecordBatch, name: str) -> None:
    """Raises RecordError for the first sum of whole numbers, the state ``name``, that left 64 bits: it is far from
    the sum ``nearly``, of floating-point numbers."""
    kept: Any = fixed_values(total)
    wrong = np.abs(nearly - kept.astype(np.float64)) > 2.0**62
    if wrong.any():
        raise overflow_error(name, "BIGINT", keys, int(wrong.argmax()))


def overflow_error(what: str, kind: str, keys: pa.RecordBatch, row: int) -> RecordError:
    """The error about a result of a group that its type cannot hold."""
    texts = (pc.cast(each, pa.string()) if not pa.types.is_nested(each.type) else each for each in keys.columns)
    of_group = ", ".join(f"{name} = {each[row]}" for name, each in zip(keys.schema.names, texts, strict=True))
    group = f" of the group {of_group}" if of_group else ""
    hint = "CAST the argument to a larger type, or SET 'penstock.overflow' = 'wrap'"
    return RecordError(f"[ARITHMETIC_OVERFLOW] {what}{group} exceeds the range of {kind}", hint=hint)


def _sum_as_floats(old: pa.Array, given: GroupValues, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The sums of whole numbers as floating-point numbers: their error is far below the distance of two sums that are
    equal in 64 bits."""
    kept: Any = fixed_values(old)
    values: Any = fixed_values(given.values)
    total = np.where(valid_mask(old), kept, 0).astype(np.float64)
    total += weighted_sums(given.index, values.astype(np.float64), given.weights, len(counts))
    total[counts == 0] = 0
    return total


def _add_up(old: pa.Array, given: GroupValues, counts: npt.NDArray[np.int64]) -> pa.Array:
    """The sums of groups that have ``counts`` values now: 0 without values."""
    if pa.types.is_decimal(old.type):
        change = weighted_limb_sums(given.index, given.values, given.weights, len(counts))
        return wide_column(add_limbs(to_limbs(old), change), old.type.scale)
    values: Any = fixed_values(given.values)
    kept: Any = fixed_values(old)
    total = np.where(valid_mask(old), kept, 0)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities that are added and retracted
        total += weighted_sums(given.index, values.astype(total.dtype, copy=False), given.weights, len(counts))
    total[counts == 0] = 0
    return pa.array(total)
