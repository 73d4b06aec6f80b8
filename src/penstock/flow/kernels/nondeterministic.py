"""Values that do not follow from the row: chance, and the present time, which is the same for all rows of a batch."""

from __future__ import annotations

import time
import uuid
import zoneinfo
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.clock import now_ms
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Vector, numbers
from penstock.plan.expressions import Call, Literal
from penstock.types import arrow_type


def uuids(call: Call, session: Session) -> Kernel:
    """``UUID``: of the fourth kind, from the system's randomness."""

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        return Vector(pa.array([str(uuid.uuid4()) for _ in range(rows)], pa.string()))

    return kernel


def random_numbers(call: Call, session: Session) -> Kernel | None:
    """``RAND`` and ``RAND_INTEGER``, perhaps with a constant seed."""
    whole = call.function == "RAND_INTEGER"
    seeded = len(call.args) == (2 if whole else 1)
    seed = call.args[0] if seeded else None
    if seed is not None and not isinstance(seed, Literal):
        return None
    chance = np.random.default_rng(seed.value if seed is not None and isinstance(seed.value, int) else None)

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        if any(each.constant and not each.values.is_valid for each in args):
            return Vector(pa.scalar(None, arrow_type(call.type)))
        if not whole:
            return Vector(pa.array(chance.random(rows), pa.float64()))
        bound = np.broadcast_to(np.asarray(numbers(args[-1].values), np.int64), rows)
        return Vector(pa.array(chance.integers(0, np.maximum(bound, 1), rows).astype(np.int32)))

    return kernel


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


def _micros(zone: str) -> int:
    return now_ms() * 1000


def _local(zone: str) -> datetime:
    now = datetime.now(zoneinfo.ZoneInfo(zone))
    return now.replace(microsecond=now.microsecond // 1000 * 1000, tzinfo=None)


_LOCAL: dict[str, Callable[[str], Any]] = {
    "LOCALTIMESTAMP": _local,
    "CURRENT_DATE": lambda zone: _local(zone).date(),
    "CURRENT_TIME": lambda zone: _local(zone).time().replace(microsecond=0),
}
_CLOCKS: dict[str, Callable[[str], Any]] = {
    **_LOCAL,
    **dict.fromkeys(("CURRENT_TIMESTAMP", "PROCTIME"), _micros),
    "UNIX_TIMESTAMP": lambda zone: time.time_ns() // 1_000_000_000,
}
