"""What results depend on beside the values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Session:
    """The session that a job runs in: its time ``zone``, empty if it is not known. ``strict``: what overflows fails;
    without it integers keep their lowest bits, and decimals become NULL, as in Flink."""

    zone: str = ""
    strict: bool = False


#: A session of which nothing is known.
UNKNOWN = Session()
