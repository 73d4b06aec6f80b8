"""Change data decoded and shown the way tests want to read it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.spi import ChangeFormat, Decoded, formats
from penstock.types import RowKind, parse_columns

__all__ = ["decoded", "shown"]


def decoded(
    name: str, columns: str, *messages: str | bytes | None, metadata: tuple[str, ...] = (), **options: str
) -> Decoded:
    """Messages decoded by the format ``name``; options as in SQL with ``_`` for ``-`` and ``__`` for a full stop."""
    fmt = formats.get(name)
    assert isinstance(fmt, ChangeFormat)
    given = {key.replace("__", ".").replace("_", "-"): text for key, text in options.items()}
    decoder = fmt.decoder(parse_columns(columns), fmt.options.from_text(given), metadata)
    found = decoder.decode(
        pa.array([each.encode() if isinstance(each, str) else each for each in messages], pa.binary())
    )
    found.rows.validate(full=True)
    return found


def shown(found: Decoded) -> list[Any]:
    """Rows as (message, kind, values...)."""
    assert found.kinds is not None
    assert found.origin is not None
    return [
        (origin, RowKind(kind).short, *row.values())
        for origin, kind, row in zip(found.origin.tolist(), found.kinds.tolist(), found.rows.to_pylist(), strict=True)
    ]
