"""What results depend on beside the values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Session:
    """The session that a job runs in: its time ``zone``, empty if it is not known; the version of its ``java``, which
    since 19 prints the shortest text of a floating-point number; and whether Spark's ``ansi`` mode is on, without which
    nothing has a kernel.

    ``strict``: what overflows fails. Without it integers keep their lowest bits, and decimals become NULL, as in Flink.

    ``alone``: Spark could not do the same work, so that there are kernels too for what Spark, or a Java that is older
    than 19, would round or print in another way.
    """

    zone: str = ""
    java: int = 19
    ansi: bool = True
    alone: bool = False
    strict: bool = False

    @property
    def shortest(self) -> bool:
        """Whether the text of a floating-point number is the shortest one."""
        return self.alone or self.java >= 19


#: A session of which nothing is known.
UNKNOWN = Session()
