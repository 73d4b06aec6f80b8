"""The one way in which formats compile a loop: to machine code, kept on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

from numba import njit
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = [
    "Vector",
    "Word",
    "borrowed",
    "compiled",
    "inlined",
]

_F = TypeVar("_F", bound=Callable[..., Any])

#: A numpy array inside compiled code, where numba, not the annotation, decides the element type.
Vector: TypeAlias = Any

#: A number inside compiled code whose width and sign matter, so that it must not be taken for a Python int.
Word: TypeAlias = Any


def compiled(function: _F) -> _F:
    """``function`` compiled on first call. Integers are 64-bit and wrap; arrays are not bounds-checked."""
    return cast(_F, njit(cache=True, nogil=True)(function))


def inlined(function: _F) -> _F:
    """``function`` compiled into each of its callers, for hot paths: handing it an array takes longer than a field."""
    return cast(_F, njit(cache=True, nogil=True, forceinline=True)(function))


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(_: Any, array: Any) -> Any:
    """``array`` without its count of references, for compiled code: a call that is not inlined counts one up and down,
    with a locked instruction each, for every array that it is handed.

    Only arguments of a compiled function may be borrowed (into the variable of the same name, if one likes): whoever
    calls it keeps them. An array that is made inside has no other owner. It would be freed when its own variable is
    last used, or given another array, and what was borrowed of it would dangle.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        made = context.make_array(signature.return_type)(context, builder)
        populate_array(
            made, data=given.data, shape=given.shape, strides=given.strides, itemsize=given.itemsize, meminfo=None
        )
        return made._getvalue()

    return array(array), build
