"""GROUP BY with retraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, fixed_values, same_rows
from penstock.columns.hashing import Groups, take_rows
from penstock.columns.wide_decimals import decimal_column, quotients, to_limbs
from penstock.errors import Problem, UnsupportedError
from penstock.flow.operators.accumulators import ORDERED, Accumulators, Argument, counts_of, overflow_error, sum_type
from penstock.flow.operators.arrivals import ends_of_lists, join_texts, make_arrays, make_multisets, take_only_values
from penstock.flow.operators.contract import Input, Operator, OperatorContext
from penstock.flow.operators.deltas import make_replacements, select_groups
from penstock.flow.operators.group_states import ROWS, GroupStates, merge_into
from penstock.flow.operators.local_aggregate import LocalAggregate
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.rows.envelope import hashes_of, weights_of
from penstock.flow.state.store import KeyedState, TableSpec
from penstock.plan.kept_state import KeptGroups
from penstock.plan.nodes import AggregateCall, GroupAggregate
from penstock.types import arrow_schema
from penstock.types.arrow import arrow_type

#: What the state of a group needs for each function.
_FUNCTIONS = {
    "COUNT": {"COUNT"},
    "SUM": {"COUNT", "SUM"},
    "AVG": {"COUNT", "SUM"},
    "MIN": {"MIN"},
    "MAX": {"MAX"},
    "FIRST_VALUE": {"FIRST"},
    "LAST_VALUE": {"LAST"},
    "LISTAGG": {"VALUES"},
    "ARRAY_AGG": {"VALUES"},
    "COLLECT": {"VALUES"},
    "SINGLE_VALUE": {"VALUES"},
}
#: The functions whose results depend on the order in which rows arrive.
_BY_ARRIVAL = frozenset({"FIRST_VALUE", "LAST_VALUE", "LISTAGG", "ARRAY_AGG"})
#: The table of groups.
GROUPS = "groups"


@dataclass(frozen=True)
class GroupAggregateOperator(Operator):
    """Emits a group's new result when it changes. An empty group has no result, even the only group of an aggregate
    without keys, as in Flink.

    Sums of whole numbers wrap at the width of their type, as in Flink, and a decimal sum with more than 38 digits is
    NULL for as long as it has them, unless they are ``strict``. Sums of FLOAT are kept as DOUBLE; when all of a group's
    values are retracted the next sum starts from 0, so rounding errors, infinities and NaN do not stay.
    """

    uid: str
    inputs: tuple[Input, ...]
    schema: pa.Schema
    calls: tuple[AggregateCall, ...]
    states: GroupStates
    #: Groups rows before they are sent to the owners of their keys, if the owners can continue from these groups.
    local: LocalAggregate | None
    #: Whether an overflow fails the job.
    strict: bool = False

    @classmethod
    def from_node(cls, node: GroupAggregate, *, retracts: bool, strict: bool = False) -> GroupAggregateOperator:
        """The operator of a plan's node. Without ``retracts`` its input never has negative weights; MIN and MAX then
        keep no values. Raises UnsupportedError for unknown calls."""
        given = Input(arrow_schema(node.input.schema), node.keys)
        needs: dict[Argument, set[str]] = {}
        for call in node.calls:
            _check(call, given.schema)
            needs.setdefault(_make_argument(call), set()).update(_list_needs(call.function, retracts=retracts))
        needs.pop(Argument(None), None)
        accumulators = tuple(
            Accumulators(each, _find_type(each, given.schema), frozenset(functions), given.key_schema, retracts, strict)
            for each, functions in needs.items()
        )
        states = GroupStates(accumulators)
        local = LocalAggregate(given, states) if states.mergeable and not retracts else None
        inputs = (given,) if local is None else (given, local.input)
        return cls(node.uid, inputs, arrow_schema(node.schema), node.calls, states, local, strict)

    @property
    def ordered(self) -> bool:
        return any(each.function in _BY_ARRIVAL for each in self.calls)

    @property
    def passes_rows(self) -> bool:
        return False

    def keys_of(self, rows: pa.RecordBatch, given: Input) -> Sequence[pa.Array]:
        return [rows.column(at) for at in range(len(given.keys))]

    @property
    def kept_groups(self) -> KeptGroups:
        return self.states.kept

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        groups = TableSpec(GROUPS, self.inputs[0].key_schema, self.states.schema, "keyed", exact=True)
        return (groups, *(table for each in self.states.accumulators for table in each.tables))

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        batch, *combined = inputs
        table = context.state.keyed(GROUPS)
        if self.local is not None and combined[0].num_rows:
            groups, found, old, new = merge_into(
                table, self.local.pane(self.local.join_rows(combined[0], batch)), strict=self.strict
            )
        else:
            weights = weights_of(batch)
            groups = Groups.by_key(hashes_of(batch), batch.select(self.inputs[0].keys))
            found, old = table.get(groups)
            if table.spec.timed:
                weights = _drop_forgotten(weights, groups, found)
            new = self.states.update(old, batch, weights, groups, context.state)
        self._keep(table, groups, found, old, new)
        context.emit(self._find_changes(groups, old, new))

    def _keep(self, table: KeyedState, groups: Groups, found: Flags, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        every = np.arange(len(groups))
        counts = counts_of(new.column(ROWS))
        # A group may get retractions of rows that it has forgotten; and rows that change nothing keep it alive.
        present = counts > 0 if table.spec.timed else counts != 0
        changed = table.spec.timed | ~same_rows(old.columns, every, new.columns, every)
        changed &= found | present
        table.put(select_groups(groups, changed), take_rows(new, np.flatnonzero(changed)), present[changed])

    def _find_changes(self, groups: Groups, old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
        before, after = (self.compute_results(groups.keys, each) for each in (old, new))
        was, stays = (counts_of(each.column(ROWS)) > 0 for each in (old, new))
        every = np.arange(len(groups))
        changed = ~same_rows(before.columns, every, after.columns, every) | (was != stays)
        return make_replacements(
            self.schema, before, np.flatnonzero(was & changed), after, np.flatnonzero(stays & changed)
        )

    def compute_results(self, keys: pa.RecordBatch, state: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of groups with these ``keys``, from their states."""
        columns = [_compute_result(call, state, keys if self.strict else None) for call in self.calls]
        return build_batch([*keys.columns, *columns], self.schema, len(keys))


def _drop_forgotten(weights: npt.NDArray[np.int64], groups: Groups, found: Flags) -> npt.NDArray[np.int64]:
    """The weights, 0 for retractions that come first in groups whose state was forgotten. As in Flink."""
    if not (weights < 0).any():
        return weights
    size = len(weights)
    added = np.where(weights[groups.order] > 0, np.arange(size), size)
    firsts = np.empty(size, np.int64)  # by row, the place of the first addition of its group
    firsts[groups.order] = np.repeat(
        np.where(found, -1, np.minimum.reduceat(added, groups.starts)), np.diff(groups.starts, append=size)
    )
    places = np.empty(size, np.int64)
    places[groups.order] = np.arange(size)
    return np.where(places < firsts, 0, weights)


def _make_argument(call: AggregateCall) -> Argument:
    return Argument(call.argument, call.filter, call.distinct and call.function not in ("MIN", "MAX"), call.nulls)


def _list_needs(function: str, *, retracts: bool) -> set[str]:
    needs = _FUNCTIONS[function]
    return {"VALUES"} if retracts and needs & ORDERED else needs


def _find_type(argument: Argument, schema: pa.Schema) -> pa.DataType:
    return pa.null() if argument.column is None else schema.field(argument.column).type


def _check(call: AggregateCall, schema: pa.Schema) -> None:
    if call.function not in _FUNCTIONS:
        known = ", ".join(_FUNCTIONS)
        raise UnsupportedError((Problem(f"there is no aggregate function {call.function}", hint=f"use {known}"),))
    kind, hint = _find_type(_make_argument(call), schema), "CAST the argument"
    if "SUM" in _FUNCTIONS[call.function] and sum_type(kind) is None:
        raise UnsupportedError(
            (Problem(f"{call.function} needs numbers, not {kind}", where=f"column '{call.argument}'", hint=hint),)
        )
    if call.function in ("MIN", "MAX") and pa.types.is_nested(kind):
        raise UnsupportedError(
            (Problem(f"{call.function} of {kind} has no order", where=f"column '{call.argument}'", hint=hint),)
        )


def _compute_result(call: AggregateCall, state: pa.RecordBatch, strict: pa.RecordBatch | None) -> pa.Array:
    """The values of a call by group, from the columns of the groups' states. With the keys of the groups it is
    ``strict``: raises RecordError for a sum that its type cannot hold."""
    argument = _make_argument(call)
    kind = arrow_type(call.type)
    if argument == Argument(None):
        return state.column(ROWS).cast(kind)
    if call.function in ("MIN", "MAX"):
        return state.column(f"{call.function} {argument}").cast(kind)
    if _FUNCTIONS[call.function] & ORDERED:
        return _compute_from_arrivals(call, argument, state, kind)
    counts = counts_of(state.column(f"COUNT {argument}"))
    if call.function == "COUNT":
        return pa.array(counts).cast(kind)
    total = state.column(f"SUM {argument}")
    if call.function == "SUM":
        made = _finish_sum(total, counts != 0, kind)
        if strict is not None:
            _check_range(call, made, total, counts != 0, strict)
        return made
    made = _compute_average(total, counts, kind)
    if strict is not None and pa.types.is_decimal(kind):
        _check_range(call, made, total, counts != 0, strict)
    return made


def _compute_from_arrivals(
    call: AggregateCall, argument: Argument, state: pa.RecordBatch, kind: pa.DataType
) -> pa.Array:
    """The values of a call that depends on the order of arrival."""
    end = f"{call.function.removesuffix('_VALUE')} {argument}"
    if end in state.schema.names:
        return state.column(end).cast(kind)
    lists = state.column(f"VALUES {argument}")
    match call.function:
        case "LISTAGG":
            return join_texts(lists, call.separator).cast(kind)
        case "ARRAY_AGG":
            return make_arrays(lists).cast(kind)
        case "COLLECT":
            return make_multisets(lists, kind)
        case "SINGLE_VALUE":
            return take_only_values(lists, call.place).cast(kind)
    return ends_of_lists(lists, last=call.function == "LAST_VALUE").cast(kind)


def _finish_sum(total: pa.Array, valid: Flags, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return decimal_column(to_limbs(total), kind, valid)
    return _make_numbers(fixed_values(total), valid, kind)


def _check_range(call: AggregateCall, made: pa.Array, total: pa.Array, valid: Flags, keys: pa.RecordBatch) -> None:
    """Raises RecordError for the first sum whose ``total`` the call's type cannot hold."""
    if pa.types.is_floating(made.type):
        return
    wrong = valid & (np.asarray(made.is_null()) if pa.types.is_decimal(made.type) else _wraps(made, total))
    if wrong.any():
        raise overflow_error(f"{call.function} of '{call.argument}'", call.type.text(), keys, int(wrong.argmax()))


def _wraps(made: pa.Array, total: pa.Array) -> Flags:
    narrow: Any = fixed_values(made)
    found: Flags = narrow != fixed_values(total)
    return found


def _compute_average(total: pa.Array, counts: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Averages, rounded towards zero for whole numbers and half up for decimals."""
    valid = counts > 0
    divisors = np.where(valid, counts, 1)
    if pa.types.is_decimal(kind):
        return decimal_column(quotients(to_limbs(total), divisors, kind.scale - total.type.scale), kind, valid)
    values: Any = fixed_values(total)
    if pa.types.is_integer(kind):
        quotient = values // divisors
        quotient += (quotient < 0) & (values % divisors != 0)
        return _make_numbers(quotient, valid, kind)
    return _make_numbers(np.where(valid, values, 0) / divisors, valid, kind)


def _make_numbers(values: Any, valid: Flags, kind: pa.DataType) -> pa.Array:
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(kind.to_pandas_dtype(), copy=False)
    return pa.array(narrow, kind, mask=~valid, from_pandas=False)


GROUP_AGGREGATE = NodeOperator(
    GroupAggregate,
    lambda node, facts: GroupAggregateOperator.from_node(node, retracts=facts.retracts, strict=facts.session.strict),
)
