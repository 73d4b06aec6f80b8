"""Compilation of loops with numba: to machine code that is cached on disk and releases the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

from numba import njit
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

_F = TypeVar("_F", bound=Callable[..., Any])

#: A numpy array inside compiled code, where numba, not the annotation, decides the element type.
Vector: TypeAlias = Any

#: A number inside compiled code whose width and sign matter; the annotation int would hide them.
Word: TypeAlias = Any


def compiled(function: _F) -> _F:
    """``function`` compiled on first call. Integers are 64-bit and wrap; arrays are not bounds-checked."""
    return cast(_F, njit(cache=True, nogil=True)(function))


def inlined(function: _F) -> _F:
    """``function`` compiled into each of its callers, for hot paths: passing an array takes longer than reading a
    field."""
    return cast(_F, njit(cache=True, nogil=True, forceinline=True)(function))


@intrinsic  # type: ignore[untyped-decorator]
def borrow(_: Any, array: Any) -> Any:
    """``array`` without reference counting, for compiled code. Otherwise a call that is not inlined increments and
    decrements the count of each array argument, with a locked instruction each.

    Borrow only the arguments of a compiled function, or parts of them; its caller keeps them alive. An array that is
    created inside has no other owner: it would be freed at the last use of its variable, and the borrowed one would
    dangle.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        made = context.make_array(signature.return_type)(context, builder)
        populate_array(
            made, data=given.data, shape=given.shape, strides=given.strides, itemsize=given.itemsize, meminfo=None
        )
        return made._getvalue()

    return array(array), build
