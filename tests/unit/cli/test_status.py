"""``penstock status`` on the checkpoint that a job would have left."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.committed import STATE, write_state
from penstock.engine.checkpoint.savepoints import write_savepoint
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.schema_log import append_versions
from penstock.flow.state.storage import Storage
from penstock.flow.state.table_totals import TableTotals, count_totals
from penstock.schemas import SchemaVersion, Side, TableSchema
from penstock.spi import Batch
from penstock.types import parse_columns

END = {"changes": {"id": "x", "partitions": {"0": {"offset": 1200, "epoch": 0}, "1": {"offset": 7, "epoch": 0}}}}


def make_checkpoint(folder: Path, rows: dict[str, int], refused: dict[str, int], begun: int = 0) -> str:
    """The folder of the checkpoint of a job after batch 2, which has read this of its tables. ``begun`` batches are
    planned after it."""
    place = read_location(str(folder))
    place.write("job", {"job": "sync", "query_id": "q", "sources": ["source"], "sinks": []})
    for log, text, last in (("offsets", f"v1\n{{}}\n{json.dumps(END)}\n", 2 + begun), ("commits", "v1\n{}", 2)):
        (folder / log).mkdir()
        (folder / log / str(last)).write_text(text)
    storage = Storage.from_uri(place.folder(STATE))
    schema = TableSchema(parse_columns("id INT"))
    versions = [
        SchemaVersion(Side.SOURCE, table, number, schema, ("new columns `n` INT",), time_ms=number * 1000)
        for number, table in enumerate(rows, 1)
    ]
    files = append_versions(storage, (), versions, 0) if versions else ()
    totals = TableTotals().add(storage, count_totals(rows, refused), "totals")
    state = Manifest(2, schemas=files, refused=sum(refused.values()), totals=totals).write(storage, "m")
    write_state(place, Batch(2, ({},), (END,), 1), state)
    return str(folder)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return make_checkpoint(tmp_path / "sync", {"shop.orders": 1203, "shop.items": 4000}, {"shop.orders": 2, "": 1})


def test_the_job_its_offsets_and_its_tables(checkpoint, capsys):
    assert main(["status", checkpoint]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"job 'sync', after batch 2, committed \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, .* ago", lines[0])
    assert [each.split() for each in lines[2:5]] == [
        ["source", "topic", "partition", "next", "offset"],
        ["source", "changes", "0", "1,200"],
        ["source", "changes", "1", "7"],
    ]
    assert lines[6] == "2 tables, 5,203 rows read, 3 records left out, 1 of them of no table"
    assert [re.split(r"\s{2,}", each) for each in lines[7:]] == [
        ["table", "rows", "left out", "version", "last change", "what"],
        ["shop.orders", "1,203", "2", "1", "1970-01-01 00:00:01 UTC", "new columns `n` INT"],
        ["shop.items", "4,000", "2", "1970-01-01 00:00:02 UTC", "new columns `n` INT"],
    ]


def test_it_is_a_document_too(checkpoint, capsys):
    assert main(["status", checkpoint, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("time_ms") > 0
    assert found == {
        "job": "sync",
        "batch": 2,
        "begun": None,
        "partitions": [
            {"source": "source", "topic": "changes", "partition": 0, "offset": 1200},
            {"source": "source", "topic": "changes", "partition": 1, "offset": 7},
        ],
        "tables": [
            {
                "table": "shop.orders",
                "rows": 1203,
                "refused": 2,
                "version": 1,
                "changed_ms": 1000,
                "what": ["new columns `n` INT"],
            },
            {
                "table": "shop.items",
                "rows": 4000,
                "refused": 0,
                "version": 2,
                "changed_ms": 2000,
                "what": ["new columns `n` INT"],
            },
        ],
        "unknown_refused": 1,
    }


def test_of_many_tables_those_are_shown_that_matter_most(tmp_path, capsys):
    rows = {f"shop.t{number:05}": number for number in range(10_000)}
    checkpoint = make_checkpoint(tmp_path / "sync", rows, {"shop.t00007": 1})
    assert main(["status", checkpoint, "--limit", "3"]) == 0
    *_, titles, first, second, third, more = capsys.readouterr().out.splitlines()
    assert titles.startswith("table")
    assert [each.split()[0] for each in (first, second, third)] == ["shop.t00007", "shop.t09999", "shop.t09998"]
    assert more == "and 9,997 more tables; --limit 0 shows all"
    assert main(["status", checkpoint, "--limit", "0"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6 + 2 + 10_000


def test_a_batch_that_was_begun_is_told(tmp_path, capsys):
    checkpoint = make_checkpoint(tmp_path / "sync", {}, {}, begun=1)
    assert main(["status", checkpoint]) == 0
    assert "batch 3 was begun; whether it is committed, the job or its next start knows" in capsys.readouterr().out


def test_a_savepoint_has_the_same(checkpoint, tmp_path, capsys):
    write_savepoint(read_location(checkpoint), read_location(str(tmp_path / "copy")))
    assert main(["status", str(tmp_path / "copy")]) == 0
    assert "2 tables, 5,203 rows read, 3 records left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--live"], "--live: needs the address of the brokers"),
        (["--bootstrap-servers", "localhost:1"], "--bootstrap-servers: the brokers are not asked without --live"),
    ],
)
def test_the_brokers_are_asked_only_if_that_is_said(checkpoint, capsys, options, error):
    assert main(["status", checkpoint, *options]) == 2
    assert error in capsys.readouterr().err
