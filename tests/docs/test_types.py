"""What the document about types says is what the formats write and read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cli.main import main
from penstock.errors import SchemaError
from penstock.formats.avro.derived_schema import derive_schema
from penstock.formats.avro.schema import Union, describe_type
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.options import JsonOptions
from penstock.spi import formats
from penstock.types import parse_columns

DOCUMENT = (Path(__file__).parents[2] / "docs" / "types.md").read_text("utf-8")


def lines() -> list[tuple[str, dict[str, str]]]:
    """Each type of the table with what stands under each format."""
    found = []
    for line in DOCUMENT.split("| type |")[1].split("\n\n")[0].split("\n")[2:]:
        types, *cells = (cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|"))
        for kind in re.findall("`([^`]+)`", types):
            found.append(
                (kind, dict(zip(("json", "csv", "raw", "avro"), (c.strip("` |") for c in cells), strict=True)))
            )
    return found


@pytest.mark.parametrize(("kind", "cells"), lines())
def test_a_value_is_written_as_the_table_has_it_and_read_again(kind: str, cells: dict[str, str]) -> None:
    schema = parse_columns(f"v {kind}")
    rows = JsonDecoder(schema, JsonOptions()).decode(pa.array([f'{{"v":{cells["json"]}}}'.encode()])).rows
    assert rows.column(0).null_count == 0
    for name in ("json", "csv", "raw"):
        fmt = formats.get(name)
        if not cells[name]:
            with pytest.raises(SchemaError, match=r"csv does not support MAP|raw format does not support"):
                fmt.encoder(schema, fmt.options.from_text({}))
            continue
        (message,) = fmt.encoder(schema, fmt.options.from_text({})).encode(rows).to_pylist()
        written = bytes.fromhex(cells[name]) if name == "raw" else cells[name].encode()
        assert message == (b'{"v":%s}' % written if name == "json" else written)
        assert fmt.decoder(schema, fmt.options.from_text({})).decode(pa.array([message])).rows.equals(rows)
    (field,) = derive_schema(schema, "LTZ" not in kind).fields
    assert isinstance(field.type, Union)
    assert describe_type(field.type.branches[1]).split(" '")[0] == cells["avro"]


def test_the_table_has_every_type() -> None:
    names = (
        "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL STRING CHAR VARCHAR BYTES BINARY VARBINARY DATE TIME"
    )
    names += " TIMESTAMP TIMESTAMP_LTZ ARRAY ROW MAP MULTISET"
    assert [re.sub(r"\W.*", "", kind) for kind, _ in lines()] == names.split()


@pytest.mark.parametrize(
    ("name", "null", "empty"),
    [("json", b'{"v":null}', None), ("csv", b"", "refused"), ("raw", None, "refused"), ("avro", b"\0", "refused")],
)
def test_what_null_is_and_what_nothing_is(name: str, null: bytes | None, empty: str | None) -> None:
    schema, fmt = parse_columns("v INT"), formats.get(name)
    encoder, decoder = (make(schema, fmt.options.from_text({})) for make in (fmt.encoder, fmt.decoder))
    rows = pa.RecordBatch.from_pydict({"v": pa.array([None], pa.int32())})
    assert encoder.encode(rows).to_pylist() == [null]
    read = decoder.decode(pa.array([None, b""], pa.binary()))
    assert read.rows.to_pylist() == ([{"v": None}] if name == "raw" else [])
    assert [bad.index for bad in read.bad] == ([1] if empty == "refused" else [])


def test_the_command_shows_what_the_document_shows(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    shell = DOCUMENT.split("```")[1]
    message, command, answer = re.fullmatch(r"\n\$ echo '(.*)' \|\n>   (.*)\n(.*)\n", shell).groups()  # type: ignore[union-attr]
    (tmp_path / "messages").write_text(message + "\n")
    assert main([*shlex.split(command)[1:], str(tmp_path / "messages")]) == 0
    assert capfdbinary.readouterr().out == f"{answer}\n".encode()
