"""The header filter: ``depart:toy|depart:book&!env:test``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.options import Codec


@dataclass(frozen=True)
class HeaderTerm:
    """Keeps records with the header ``key`` and the ``value`` (UTF-8), or, when ``negated``, those without it.

    ``joined`` is the operator between the earlier terms and this one: ``&``, ``|``, or empty for the first. Terms are
    evaluated from left to right; neither operator binds tighter.
    """

    key: str
    value: str
    negated: bool = False
    joined: str = ""


def _parse(text: str) -> tuple[HeaderTerm, ...]:
    terms: list[HeaderTerm] = []
    pieces = re.split(r"([&|])", text.strip())
    for index in range(0, len(pieces), 2):
        term = pieces[index].strip()
        key, colon, value = term.removeprefix("!").partition(":")
        if not colon or not key:
            raise ValueError("expected terms 'key:value' or '!key:value', joined by & or |")
        if key[0] in "(!":
            raise ValueError(f"'{key[0]}' cannot be used there: a term is negated once, and terms are not grouped")
        terms.append(HeaderTerm(key, value, term.startswith("!"), pieces[index - 1] if index else ""))
    return tuple(terms)


def _show(terms: tuple[HeaderTerm, ...]) -> str:
    return "".join(f"{term.joined}{'!' if term.negated else ''}{term.key}:{term.value}" for term in terms)


HEADER_FILTER = Codec("HeaderFilter", _parse, _show)


def match_headers(terms: tuple[HeaderTerm, ...], headers: pa.ListArray) -> NDArray[np.bool_]:
    """A mask of the records that the filter keeps. ``headers`` has a list of (key, value) for each record."""
    entries = headers.flatten()
    record = np.asarray(headers.value_parent_indices())
    keys, values = (entries.field(0), entries.field(1)) if len(entries) else (None, None)
    kept = np.zeros(len(headers), np.bool_)
    for term in terms:
        found = np.zeros(len(headers), np.bool_)
        if keys is not None:
            hits = pc.and_(pc.equal(keys, term.key), pc.equal(values, pa.scalar(term.value.encode(), pa.binary())))
            found[record[np.asarray(pc.fill_null(hits, False))]] = True
        result = ~found if term.negated else found
        kept = kept & result if term.joined == "&" else kept | result
    return kept
