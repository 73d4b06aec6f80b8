"""Local time: the wall clock of a zone, in milliseconds as if it were UTC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.flow.kernels.moments.far_times import LISTED_END, ahead_at, first_moment, map_each

Millis: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Zone:
    """A time zone by its name; empty for UTC."""

    name: str = ""

    def local(self, instants: Millis) -> Millis:
        """The wall clock at these moments."""
        if not self.name or not len(instants):
            return instants
        found = _numbers(pc.local_timestamp(pa.array(instants, pa.timestamp("ms", self.name))))
        place = ZoneInfo(self.name)
        return _replaced(found, instants, lambda micros: micros + ahead_at(place, micros))

    def instants(self, local: Millis) -> Millis:
        """The moments at which the wall clock shows these times. If it shows one twice, when clocks are set back, the
        later moment; if never, when they are set forward, the first moment after the gap. As in Flink."""
        if not self.name or not len(local):
            return local
        times = pa.array(local, pa.timestamp("ms"))
        found = _numbers(pc.assume_timezone(times, self.name, ambiguous="latest", nonexistent="latest"))
        place = ZoneInfo(self.name)
        return _replaced(found, local, lambda micros: first_moment(place, micros))


def _replaced(found: Millis, given: Millis, convert: Callable[[int], int]) -> Millis:
    """``found`` with other times for those given for which Arrow does not know the rules of zones."""
    far = given >= LISTED_END // 1000
    if not far.any():
        return found
    made = found.copy()
    made[far] = map_each(given[far] * 1000, convert) // 1000
    return made


def _numbers(times: pa.Array) -> Millis:
    found: Millis = times.view(pa.int64()).to_numpy()
    return found
