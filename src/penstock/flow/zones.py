"""Local time: the wall clock of a zone, in milliseconds as if it were UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Millis: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Zone:
    """A time zone by its name; empty for UTC."""

    name: str = ""

    def local(self, instants: Millis) -> Millis:
        """The wall clock at these moments."""
        if not self.name or not len(instants):
            return instants
        return _numbers(pc.local_timestamp(pa.array(instants, pa.timestamp("ms", self.name))))

    def instants(self, local: Millis) -> Millis:
        """The moments at which the wall clock shows these times. Of two, when clocks were put back, the later one; if
        it never does, as when they were put forward, the first moment after that. So does Flink."""
        if not self.name or not len(local):
            return local
        times = pa.array(local, pa.timestamp("ms"))
        return _numbers(pc.assume_timezone(times, self.name, ambiguous="latest", nonexistent="latest"))


def _numbers(times: pa.Array) -> Millis:
    found: Millis = times.view(pa.int64()).to_numpy()
    return found
