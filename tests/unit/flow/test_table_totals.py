"""What a job has read of each table, in its state."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from penstock.errors import CheckpointError
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.flow.state.table_totals import TableTotals, Total, count_totals


@pytest.mark.parametrize("tables", [3, 64, 65, 1000])
def test_the_totals_are_the_sums_of_all_batches(tmp_path, tables):
    storage, chance = Storage.from_uri(str(tmp_path)), random.Random(tables)
    names = [f"shop.t{number}" for number in range(tables)] + [""]
    rows, refused, found = Counter[str](), Counter[str](), TableTotals()
    for batch in range(40):
        chosen = chance.sample(names, chance.randint(0, min(len(names), 200)))
        read = {name: chance.randint(1, 9) for name in chosen}
        left = {name: chance.randint(1, 3) for name in chance.sample(names, 2)}
        found = found.add(storage, count_totals(read, left), f"{batch}.totals")
        rows.update(read)
        refused.update(left)
        reference = replace(Manifest(batch), totals=found).write(storage, f"{batch}.manifest")
        assert Manifest.read(storage, reference).totals == found
    expected = {name: Total(rows[name], refused[name]) for name in rows.keys() | refused.keys()}
    assert found.read(storage) == expected


def test_a_batch_of_few_tables_writes_little_however_many_there_are(tmp_path):
    storage, names = Storage.from_uri(str(tmp_path)), [f"shop.t{number}" for number in range(10_000)]
    found = TableTotals().add(storage, count_totals(dict.fromkeys(names, 1), {}), "first")
    written = []
    for batch in range(200):
        chosen = names[batch * 10 : batch * 10 + 10]
        found = found.add(storage, count_totals(dict.fromkeys(chosen, 1), {}), f"{batch}")
        reference = replace(Manifest(batch), totals=found).write(storage, f"{batch}.manifest")
        size = len(storage.open(reference.partition("#")[0]))
        assert size < 5_000
        written += [size, *(len(storage.open(each.name)) for each in found.files if each.name == f"{batch}")]
    assert sum(written) < 200 * 5_000  # the file of all tables has about 300,000 bytes
    assert len(found.files) < 10
    assert sum(each.rows for each in found.read(storage).values()) == 12_000


def test_the_files_are_part_of_the_state(tmp_path):
    storage = Storage.from_uri(str(tmp_path))
    names = {f"t{number}": 1 for number in range(65)}
    totals = TableTotals().add(storage, count_totals(names, {}), "0.totals")
    assert replace(Manifest(), totals=totals).files() == {"0.totals"}
    (tmp_path / "0.totals").unlink()
    with pytest.raises(CheckpointError, match=r"0\.totals"):
        TableTotals(totals.files).read(storage)
