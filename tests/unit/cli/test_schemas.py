"""``penstock schemas`` on the checkpoint that a job would have left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.committed import STATE, write_state
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.schema_log import append_versions
from penstock.flow.state.storage import Storage
from penstock.schemas import SchemaVersion, Side, TableSchema
from penstock.spi import Batch
from penstock.types import parse_columns


def version(side: Side, number: int, columns: str, change: str, **others: str) -> SchemaVersion:
    schema = TableSchema(parse_columns(columns), ("id",) if side is Side.SINK else ())
    return SchemaVersion(side, "shop.orders", number, schema, (change,), batch=number, time_ms=number * 1000, **others)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """The folder of a checkpoint whose job has found a table, and a column of it."""
    place = read_location(str(tmp_path / "sync"))
    place.write("job", {"job": "sync", "query_id": "q", "sources": ["source"], "sinks": []})
    for log, text in (("offsets", "v1\n{}\n{}\n"), ("commits", "v1\n{}")):
        (tmp_path / "sync" / log).mkdir()
        (tmp_path / "sync" / log / "2").write_text(text)
    storage = Storage.from_uri(place.folder(STATE))
    files: tuple[str, ...] = ()
    at = "topic 't', partition 0, offset 7"
    for versions in (
        [version(Side.SOURCE, 1, "id INT", "new table with `id` INT"), version(Side.SINK, 1, "id INT", "new table")],
        [
            version(Side.SOURCE, 2, "id INT, n INT", "new columns `n` INT", place=at),
            version(Side.SINK, 2, "id INT, n INT", "new columns `n` INT", outcome="no right to alter it"),
        ],
    ):
        files = append_versions(storage, files, versions, versions[0].batch)
    state = Manifest(2, schemas=files, refused=3).write(storage, "m")
    write_state(place, Batch(2, ({},), ({},), 1), state)
    return str(tmp_path / "sync")


def test_the_present_tables(checkpoint, capsys):
    assert main(["schemas", checkpoint]) == 0
    job, refused, titles, source, sink = capsys.readouterr().out.splitlines()
    assert (job, refused) == ("job 'sync', after batch 2", "3 records were left out so far")
    assert titles.split() == ["side", "table", "version", "columns", "key", "last", "change", "what"]
    assert source.split()[:4] == ["source", "shop.orders", "2", "2"]
    assert sink.endswith("1970-01-01 00:00:02 UTC  new columns `n` INT; refused: no right to alter it")


def test_the_history_of_a_table(checkpoint, capsys):
    assert main(["schemas", checkpoint, "--table", "shop.orders"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "source table 'shop.orders', version 1: batch 1, 1970-01-01 00:00:01 UTC"
    assert (
        "source table 'shop.orders', version 2: batch 2, 1970-01-01 00:00:02 UTC, topic 't', partition 0, offset 7"
        in lines
    )
    assert "  the sink did not follow: no right to alter it" in lines
    assert lines[-3:] == ["columns of sink table 'shop.orders' now, primary key id:", "  `id` INT", "  `n` INT"]


def test_the_history_as_json(checkpoint, capsys):
    assert main(["schemas", checkpoint, "--format", "json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["side"], each["number"]) for each in found] == [
        ("source", 1),
        ("sink", 1),
        ("source", 2),
        ("sink", 2),
    ]


def test_an_unknown_table(checkpoint, capsys):
    assert main(["schemas", checkpoint, "--table", "shop.order"]) == 2
    assert "the job knows no table 'shop.order' (did you mean 'shop.orders'?)" in capsys.readouterr().err
