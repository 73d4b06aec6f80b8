"""What makes kernels of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel
from penstock.plan.expressions import Call

#: Makes the kernel of a call in a session; None if there is none for its types or its constants.
Maker: TypeAlias = Callable[[Call, Session], Kernel | None]


def either(first: Maker, second: Maker) -> Maker:
    """Makes the kernel of ``first``, or of ``second`` if it has none."""
    return lambda call, session: first(call, session) or second(call, session)
