"""Digests of text and bytes."""

from __future__ import annotations

from penstock.flow.kernels import rowwise
from penstock.flow.kernels.texts import encodings
from penstock.plan.overloads import overloads
from penstock.plan.scalar_functions import Function
from penstock.types import STRING

GROUP = "Digests"
_TEXT = overloads(STRING, "s", "y")

FUNCTIONS = (
    Function("MD5", "MD5(a)", kernel=rowwise.MD5, overloads=_TEXT),
    Function("SHA1", "SHA1(a)", kernel=rowwise.SHA1, overloads=_TEXT),
    Function("SHA224", "SHA224(a)", kernel=rowwise.SHA224, overloads=_TEXT),
    Function("SHA256", "SHA256(a)", kernel=rowwise.SHA256, overloads=_TEXT),
    Function("SHA384", "SHA384(a)", kernel=rowwise.SHA384, overloads=_TEXT),
    Function("SHA512", "SHA512(a)", kernel=rowwise.SHA512, overloads=_TEXT),
    Function("SHA2", "SHA2(a, bits)", kernel=encodings.SHA2, overloads=overloads(STRING, "si", nullable=True)),
)
