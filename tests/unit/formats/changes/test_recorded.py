"""What Flink 2.2 made of a corpus of messages and rows, and what is made of them here.

The answers are in ``tests/recorded``; the script beside them asks Flink for them anew.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.options import JsonOptions
from penstock.spi import ChangeFormat, formats
from penstock.types import Field, RowKind, RowType, arrow_schema, parse_columns

RECORDED = Path(__file__).parents[3] / "recorded"
CHANGES = json.loads((RECORDED / "change_data.json").read_text("utf-8"))
KINDS = {kind.short: kind for kind in RowKind}


def title(group: dict[str, Any]) -> str:
    options = group["options"][0] if isinstance(group["options"], list) else group["options"]
    return f"{group['format']} {group['columns'][:12]} {len(group.get('metadata', []))} {options}"


def plain(text: str) -> Any:
    """JSON with exact numbers and objects without an order."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def answers(group: dict[str, Any], options: dict[str, str]) -> list[dict[str, Any]]:
    """What is made here of the messages of a group."""
    fmt = formats.get(group["format"])
    schema = parse_columns(group["columns"])
    bound = fmt.options.from_text(options)
    if isinstance(fmt, ChangeFormat):
        decoder = fmt.decoder(schema, bound, group["metadata"])
        schema = RowType((*schema.fields, *(Field(key, fmt.metadata[key]) for key in group["metadata"])))
    else:
        decoder = fmt.decoder(schema, bound)
    messages = [case[0].encode("utf-8", "surrogateescape") for case in group["cases"]]
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == arrow_schema(schema)
    texts = JsonEncoder(schema, JsonOptions(decimal_as_plain_number=True)).encode(decoded.rows).to_pylist()
    origin = range(len(texts)) if decoded.origin is None else decoded.origin.tolist()
    kinds = [0] * len(texts) if decoded.kinds is None else decoded.kinds.tolist()
    found: list[dict[str, Any]] = [{"rows": []} for _ in messages]
    for index, kind, text in zip(origin, kinds, texts, strict=True):
        found[index]["rows"].append([RowKind(kind).short, plain(text)])
    for bad in decoded.bad if not decoder.ignores_errors else ():
        found[bad.index]["error"] = f"{bad.field}: {bad.reason}"
    return found


def differences(group: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Message and options to Flink's answer and the one here, where they differ."""
    found = {}
    for number, options in enumerate(group["options"]):
        for case, here in zip(group["cases"], answers(group, options), strict=True):
            there = case[1 + number]
            rows = [[kind, plain(text)] for kind, text in there["rows"]]
            if rows != here["rows"] or ("error" in there) != ("error" in here):
                shown = ", ".join(f"{key}={value}" for key, value in options.items())
                found[f"{case[0]} [{shown}]"] = (there.get("error") or rows, here.get("error") or here["rows"])
    return found


@pytest.mark.parametrize("group", CHANGES["decoded"], ids=title)
def test_changes_are_read_as_flink_reads_them(group: dict[str, Any]) -> None:
    assert differences(group) == {}
