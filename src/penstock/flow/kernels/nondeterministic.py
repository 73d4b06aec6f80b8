"""Nondeterministic values: random ones, and the present time, which is the same for all rows of a batch."""

from __future__ import annotations

import time
import uuid
import zoneinfo
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.clock import now_ms
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Failure,
    Kernel,
    Mask,
    Strict,
    Values,
    Vector,
    column,
    columns_of,
    find_known,
    numbers,
    valid_rows,
)
from penstock.plan.expressions import Call, Literal
from penstock.types import arrow_type


def uuids(call: Call, session: Session) -> Kernel:
    """``UUID``: of the fourth kind, from the system's randomness."""

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        return Vector(pa.array([str(uuid.uuid4()) for _ in range(rows)], pa.string()))

    return kernel


def random_numbers(call: Call, session: Session) -> Kernel:
    """``RAND`` and ``RAND_INTEGER``, optionally with a seed: a constant seed begins a series, a seed for each row gives
    the first number of its series, as in Flink."""
    whole = call.function == "RAND_INTEGER"
    seeded = len(call.args) == (2 if whole else 1)
    seed = call.args[0] if seeded else None
    if seed is not None and not isinstance(seed, Literal):
        return Strict(arrow_type(call.type), partial(_compute_first_numbers, whole))
    chance = np.random.default_rng(seed.value if seed is not None and isinstance(seed.value, int) else None)

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        if any(each.constant and not each.values.is_valid for each in args):
            return Vector(pa.scalar(None, arrow_type(call.type)))
        if not whole:
            return Vector(pa.array(chance.random(rows), pa.float64()))
        bound = args[-1].spread(rows)
        most = numbers(bound).astype(np.int64)
        made = chance.integers(0, np.maximum(most, 1), rows).astype(np.int32)
        return _bound_numbers(made, most, valid_rows(bound))

    return kernel


def _bound_numbers(made: NDArray[np.int32], most: NDArray[np.int64], valid: Mask) -> Vector:
    """Numbers below ``most``, which is a failure unless it is positive."""
    failed = (most < 1) & valid
    failures = (Failure(failed, lambda row: f"RAND_INTEGER takes a positive bound, not {most[row]}"),)
    return Vector(column(made, valid, pa.int32()), failures if failed.any() else ())


#: The constants of Java's linear congruential generator.
_FACTOR, _MASK = 0x5DEECE66D, (1 << 48) - 1


def _compute_first_numbers(whole: bool, *given: Values) -> pa.Array | Vector:
    """The first number that ``java.util.Random`` gives by the seed of each row."""
    seeds, *bounds = columns_of(*given)
    found_in = find_known(seeds, *bounds)
    valid = np.ones(len(seeds), np.bool_) if found_in is None else found_in
    states = (numbers(seeds).astype(np.int64).astype(np.uint64) ^ np.uint64(_FACTOR)) & np.uint64(_MASK)
    states, high = _compute_next_bits(states, 31 if whole else 26)
    if not whole:
        _, low = _compute_next_bits(states, 27)
        return column(((high << 27) + low) * 2.0**-53, valid, pa.float64())
    most = numbers(bounds[0]).astype(np.int64)
    size = np.maximum(most, 1)
    found = np.where(size & (size - 1) == 0, size * high >> 31, high % size)
    again = np.flatnonzero((size & (size - 1) != 0) & (high - found + size - 1 >= 1 << 31))
    while len(again):
        states[again], high[again] = _compute_next_bits(states[again], 31)
        found[again] = high[again] % size[again]
        again = again[high[again] - found[again] + size[again] - 1 >= 1 << 31]
    return _bound_numbers(found.astype(np.int32), most, valid)


def _compute_next_bits(states: NDArray[np.uint64], bits: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The states after the next number of each, and its highest ``bits``."""
    after = (states * np.uint64(_FACTOR) + np.uint64(0xB)) & np.uint64(_MASK)
    return after, (after >> np.uint64(48 - bits)).astype(np.int64)


def present(call: Call, session: Session) -> Kernel | None:
    """``CURRENT_TIMESTAMP`` and the like: local ones in the session's zone."""
    if call.args:
        return None
    read = _CLOCKS[call.function]
    zone = session.zone
    if call.function in _LOCAL and not zone:
        return None
    arrow = arrow_type(call.type)
    return lambda args, rows: Vector(pa.scalar(read(zone), arrow))


def _read_micros(zone: str) -> int:
    return now_ms() * 1000


def _read_local(zone: str) -> datetime:
    now = datetime.now(zoneinfo.ZoneInfo(zone))
    return now.replace(microsecond=now.microsecond // 1000 * 1000, tzinfo=None)


_LOCAL: dict[str, Callable[[str], Any]] = {
    "LOCALTIMESTAMP": _read_local,
    "CURRENT_DATE": lambda zone: _read_local(zone).date(),
    "CURRENT_TIME": lambda zone: _read_local(zone).time().replace(microsecond=0),
}
_CLOCKS: dict[str, Callable[[str], Any]] = {
    **_LOCAL,
    **dict.fromkeys(("CURRENT_TIMESTAMP", "PROCTIME"), _read_micros),
    "UNIX_TIMESTAMP": lambda zone: time.time_ns() // 1_000_000_000,
}
