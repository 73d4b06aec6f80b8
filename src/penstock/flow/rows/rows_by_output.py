"""Rows that are divided among many takers in one pass: outputs that compare one expression with different values, or
have the same condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.errors import RecordError
from penstock.flow.rows.calc import Calc
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.plan.expressions import Call, Expression, conjunction, conjuncts, is_constant
from penstock.plan.scalar_functions import function_of, is_deterministic
from penstock.spi import locate_error
from penstock.types import arrow_type
from penstock.types.logical import root

#: For fewer takers, a filter for each is as fast.
_FEWEST = 3
#: Types whose equal values are equal for Arrow's hash tables too.
_COMPARED = {"TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "BOOLEAN", "DATE"}
#: Slots have numbers of 16 bits, which numpy sorts fastest; the last one is of rows that nobody takes.
_MOST = (1 << 16) - 1


@dataclass(frozen=True, eq=False)
class Division:
    """Rows divided by the value of one expression. Value ``n`` of the ``values`` leads to slot ``slots[n]``, and the
    ``takers`` of a slot, by their numbers, get its rows. ``calcs`` compute the rows of the slots from one of the
    ``bounds`` to the next."""

    value: Evaluator
    values: pa.Array
    slots: NDArray[np.uint16]
    takers: tuple[tuple[int, ...], ...]
    calcs: tuple[Calc, ...]
    bounds: tuple[int, ...]

    def divide(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each taker, in their order, computed. Takers without rows are left out. Raises RecordError for a
        row that cannot be computed."""
        try:
            value = self.value.column(rows)
        except RecordError as error:
            raise locate_error(error, rows, error.offset) from None
        found = pc.fill_null(pc.index_in(value, self.values), len(self.values)).to_numpy()
        slot_of_row = np.append(self.slots, np.uint16(len(self.takers)))[found]
        order = np.argsort(slot_of_row, kind="stable")
        ends = np.cumsum(np.bincount(slot_of_row, minlength=len(self.takers) + 1))[:-1]
        taken = rows.take(pa.array(order[: ends[-1]]))
        starts = [0, *ends.tolist()]
        for calc, (first, last) in zip(self.calcs, pairwise(self.bounds), strict=True):
            begin, end = starts[first], starts[last]
            if begin == end:
                continue
            together = None if calc.conditions else calc.batch(taken.slice(begin, end - begin))
            for slot in range(first, last):
                at, count = starts[slot], starts[slot + 1] - starts[slot]
                if not count:
                    continue
                part = calc.batch(taken.slice(at, count)) if together is None else together.slice(at - begin, count)
                if part.num_rows:
                    yield from ((taker, part) for taker in self.takers[slot])


@dataclass(frozen=True)
class _Choice:
    """A taker that gets the rows for which ``expression`` has one of ``values``, and computes ``calc`` from them."""

    taker: int
    expression: Expression
    values: frozenset[pa.Scalar]
    calc: Calc


def divide_rows(calcs: Mapping[int, Calc]) -> tuple[Division, ...]:
    """The divisions for takers, by their numbers, that filter the rows of one scan or node. Who is in none filters the
    rows for itself."""
    groups: dict[Expression, list[_Choice]] = {}
    for taker, calc in calcs.items():
        choice = _choose(taker, calc)
        if choice is not None:
            groups.setdefault(choice.expression, []).append(choice)
    alike: dict[object, Calc] = {}
    return tuple(chain.from_iterable(_divisions(group, alike) for group in groups.values()))


def _divisions(choices: Sequence[_Choice], alike: dict[object, Calc]) -> Iterator[Division]:
    """Divisions of choices by one expression. A taker has one slot in each, which keeps the order of its rows."""
    waiting = [replace(each, calc=alike.setdefault(_meaning(each.calc), each.calc)) for each in choices]
    while waiting:
        slots: dict[frozenset[pa.Scalar], list[_Choice]] = {}
        slot_of_value: dict[pa.Scalar, frozenset[pa.Scalar]] = {}
        later: list[_Choice] = []
        for each in waiting:
            others = {slot_of_value.get(value, each.values) for value in each.values}
            same_work = each.values not in slots or slots[each.values][0].calc is each.calc
            if others != {each.values} or not same_work or len(slot_of_value) + len(each.values) >= _MOST:
                later.append(each)
                continue
            slots.setdefault(each.values, []).append(each)
            slot_of_value.update(dict.fromkeys(each.values, each.values))
        takers = sum(map(len, slots.values()))
        if takers >= _FEWEST or (takers > 1 and len(slots) == 1):
            yield _division(slots)
        waiting = later


def _division(members: Mapping[frozenset[pa.Scalar], Sequence[_Choice]]) -> Division:
    by_calc: dict[int, list[frozenset[pa.Scalar]]] = {}
    for values, choices in members.items():
        by_calc.setdefault(id(choices[0].calc), []).append(values)
    slots = list(chain.from_iterable(by_calc.values()))
    one = members[slots[0]][0]
    return Division(
        _compile(one.expression, one.calc),
        pa.array([value.as_py() for values in slots for value in values], arrow_type(one.expression.type)),
        np.repeat(np.arange(len(slots), dtype=np.uint16), [len(values) for values in slots]),
        tuple(tuple(each.taker for each in members[values]) for values in slots),
        tuple(members[each[0]][0].calc for each in by_calc.values()),
        tuple(np.cumsum([0, *map(len, by_calc.values())]).tolist()),
    )


def _choose(taker: int, calc: Calc) -> _Choice | None:
    """The choice behind the first condition of a taker; None if it has none that others may share."""
    if not calc.conditions or len(calc.conditions[0].expressions) > 1 or calc.reads_watermark:
        return None
    (condition,) = calc.conditions[0].expressions
    if not is_deterministic(condition) or not _is_hashable(condition):
        return None
    first, *others = conjuncts(condition)
    compared = _compared_with(first)
    if compared is None:
        return _Choice(taker, condition, frozenset({pa.scalar(True)}), replace(calc, conditions=calc.conditions[1:]))
    conditions = calc.conditions[1:]
    if others:
        conditions = (_compile(conjunction(others), calc), *conditions)
    return _Choice(taker, *compared, replace(calc, conditions=conditions))


def _compared_with(condition: Expression) -> tuple[Expression, frozenset[pa.Scalar]] | None:
    """The expression and the values of ``a = 1``, ``1 = a`` and ``a IN (1, 2)``."""
    function = function_of(condition) if isinstance(condition, Call) else None
    if not isinstance(condition, Call) or function is None or condition.function not in ("=", "IN"):
        return None
    found = function.rewrite(condition) if function.rewrite else condition
    if not isinstance(found, Call) or found.function not in ("=", "IN"):
        return None
    value, *others = found.args
    if found.function == "=" and is_constant(value):
        value, others = others[0], [value]
    types = {root(each.type) for each in found.args}
    if len(types) > 1 or not types <= _COMPARED or is_constant(value) or not all(map(is_constant, others)):
        return None
    if len(others) >= _MOST:
        return None
    constants = [compile_expression(each, pa.schema([])) for each in others]
    scalars = []
    for each in constants:
        assert isinstance(each, Evaluator), "a constant is computed"  # noqa: S101
        (made,) = each.vectors(_ONE_ROW)
        if made.failures or not isinstance(made.values, pa.Scalar) or not made.values.is_valid:
            return None
        scalars.append(made.values)
    return value, frozenset(scalars)


def _compile(expression: Expression, calc: Calc) -> Evaluator:
    """What computes a part of the first condition of ``calc``, as that does."""
    found = compile_expression(expression, calc.items.schema, calc.items.session)
    assert isinstance(found, Evaluator), "the whole condition is computed"  # noqa: S101
    return found


def _meaning(calc: Calc) -> object:
    """What distinguishes the computations of one scan or node; those of chance, each from all others."""
    parts = tuple(each.expressions for each in (*calc.conditions, calc.items))
    same = all(is_deterministic(one) and _is_hashable(one) for each in parts for one in each)
    return (calc.columns, parts, calc.schema, calc.items.schema) if same else id(calc)


def _is_hashable(expression: Expression) -> bool:
    """Whether the expression can be looked up: it has no constants that are collections."""
    try:
        hash(expression)
    except TypeError:
        return False
    return True


_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"])
