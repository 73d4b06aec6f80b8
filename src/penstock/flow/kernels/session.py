"""What results depend on besides the values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Session:
    """The session that a job runs in: its time ``zone``, empty if it is not known. ``strict``: an overflow is an error;
    without it integers keep their lowest bits, and decimals become NULL, as in Flink."""

    zone: str = ""
    strict: bool = False


#: A session without known settings.
UNKNOWN = Session()
