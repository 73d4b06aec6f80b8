"""The one way in which formats compile a loop: to machine code, kept on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

from numba import njit

__all__ = ["Vector", "Word", "compiled"]

_F = TypeVar("_F", bound=Callable[..., Any])

#: A numpy array inside compiled code, where numba, not the annotation, decides the element type.
Vector: TypeAlias = Any

#: A number inside compiled code whose width and sign matter, so that it must not be taken for a Python int.
Word: TypeAlias = Any


def compiled(function: _F) -> _F:
    """``function`` compiled on first call. Integers are 64-bit and wrap; arrays are not bounds-checked."""
    return cast(_F, njit(cache=True, nogil=True)(function))
