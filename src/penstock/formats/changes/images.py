"""Messages with the complete row before and after a change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from penstock.formats.changes.decode import DELETE, INSERT, UPDATE, Changes, Images, operations
from penstock.formats.changes.envelopes import Faults, always, is_null


def image_changes(
    columns: Mapping[str, pa.Array], names: Mapping[str, int], op: str, path: Callable[[str], str], faults: Faults
) -> Changes:
    """One change per envelope with ``before``, ``after`` and ``op``.

    ``place`` returns the name of a field in error messages.
    """
    before, after = columns["before"], columns["after"]
    action = operations(names, columns[op], path(op), faults)
    for code, name in ((UPDATE, "an update"), (DELETE, "a delete")):
        reason = f"the field is missing or null in {name}; a table of PostgreSQL needs REPLICA IDENTITY FULL"
        faults.add((action == code) & is_null(before), always(path("before"), reason))
    faults.add(((action == INSERT) | (action == UPDATE)) & is_null(after), always(path("after"), _NO_IMAGE))
    every = np.arange(len(after))
    old, new = Images(before, every), Images(after, every)
    return Changes(action, every, before=old, after=new, removed=old, faults=faults)


_NO_IMAGE = "the field is missing or null; expected the row after the change"
