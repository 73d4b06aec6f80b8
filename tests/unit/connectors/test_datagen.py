"""The datagen connector without Spark: which rows are made, when they are due, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.datagen.factory import DatagenConnector
from penstock.connectors.datagen.spark import DatagenSource, Making, due, make_rows
from penstock.errors import CheckpointError, OptionsError, UnsupportedError
from penstock.spi import Column, ColumnKind, TableDefinition
from penstock.types import BIGINT, parse_columns
from tests.committers import Memory, context_of

EVERY_TYPE = (
    "b BOOLEAN, t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), w DECIMAL(38, 4), s STRING, "
    "v VARCHAR(5), c CHAR(3), y BYTES, dt DATE, tm TIME, ts TIMESTAMP(3), lz TIMESTAMP_LTZ(3), a ARRAY<INT>, "
    "m MAP<STRING, DOUBLE>, r ROW<x INT, y STRING>"
)
END = {"row": 1000, "from": 1_700_000_000_000, "to": 1_700_000_001_000}


def table(columns: str, **options: str) -> TableDefinition:
    fields = parse_columns(columns).fields
    given = {
        "connector": "datagen",
        **{key.replace("__", ".").replace("_", "-"): text for key, text in options.items()},
    }
    return TableDefinition("t", tuple(Column(each.name, each.type) for each in fields), given)


def making(columns: str, whole: bool = False, **options: str) -> Making:
    return Making(DatagenConnector().scan(table(columns, **options)), 0, 0, 42, "Europe/Berlin", whole)


def rows(columns: str, count: int = 1000, **options: str) -> pa.RecordBatch:
    found = make_rows(making(columns, **options), range(count), range(count), {**END, "row": count})
    found.validate(full=True)
    return found


def test_a_row_is_the_same_wherever_a_batch_is_cut():
    given = making(EVERY_TYPE, fields__s__var_len="true", fields__i__null_rate="0.3", fields__ts__max_past="1 h")
    whole = make_rows(given, range(1000), range(1000), END)
    parts = [make_rows(given, range(first, first + 250), range(1000), END) for first in range(0, 1000, 250)]

    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()
    assert make_rows(given, range(1000), range(1000), END).equals(whole)
    other = Making(given.scan, 0, 0, 43, "Europe/Berlin", False)
    assert not make_rows(other, range(1000), range(1000), END).column("l").equals(whole.column("l"))


def test_numbers_are_from_the_least_to_the_most():
    found = rows(
        "i INT, n DECIMAL(4, 1), d DOUBLE, l BIGINT, t TINYINT",
        count=5000,
        **{f"fields__{name}__min": "-2" for name in "ind"},
        **{f"fields__{name}__max": "2" for name in "ind"},
    )

    assert set(found["i"].to_pylist()) == {-2, -1, 0, 1, 2}
    assert {str(each) for each in found["n"].to_pylist()} == {f"{tenth / 10:.1f}" for tenth in range(-20, 21)} - {
        "-0.0"
    }
    assert all(-2 <= each <= 2 for each in found["d"].to_pylist())
    assert min(found["l"].to_pylist()) < -(2**62) < 2**62 < max(found["l"].to_pylist())
    assert set(found["t"].to_pylist()) == set(range(-128, 128))


def test_text_has_its_length():
    found = rows(
        "s STRING, w STRING, v VARCHAR(7), c CHAR(3), y BYTES, a ARRAY<STRING>",
        fields__w__length="20",
        fields__w__var_len="true",
        fields__y__length="4",
        fields__a__length="2",
        fields__a__element__length="1",
    )

    lengths = {name: {len(each) for each in found[name].to_pylist()} for name in found.schema.names[:6]}
    assert lengths == {"s": {100}, "w": set(range(1, 21)), "v": {7}, "c": {3}, "y": {4}, "a": {2}}
    assert {len(part) for each in found["a"].to_pylist() for part in each} == {1}
    assert set("".join(found["s"].to_pylist())) == set("0123456789abcdef")


def test_times_are_those_of_the_rows_in_the_zone_of_the_session():
    found = rows(
        "dt DATE, tm TIME, ts TIMESTAMP(3), lz TIMESTAMP_LTZ(3), old TIMESTAMP_LTZ(3)",
        count=4,
        fields__old__max_past="1 min",
    )

    assert [each.isoformat() for each in found["lz"].to_pylist()] == [
        f"2023-11-14T22:13:{second}+00:00" for second in ("20.250000", "20.500000", "20.750000", "21")
    ]
    assert found["ts"].to_pylist()[3].isoformat() == "2023-11-14T23:13:21"
    assert (found["dt"].to_pylist()[3].isoformat(), found["tm"].to_pylist()[3].isoformat()) == (
        "2023-11-14",
        "23:13:21",
    )
    ages = [
        (at - old).total_seconds() for at, old in zip(found["lz"].to_pylist(), found["old"].to_pylist(), strict=True)
    ]
    assert all(0 <= age <= 60 for age in ages)
    assert len(set(ages)) > 1


def test_a_sequence_goes_from_its_start_to_its_end_and_ends_the_table():
    options = {
        "fields__id__kind": "sequence",
        "fields__id__start": "-1",
        "fields__id__end": "5",
        "fields__s__kind": "sequence",
        "fields__s__start": "1",
        "fields__s__end": "100",
    }
    scan = DatagenConnector().scan(table("id DECIMAL(5, 1), s STRING, x INT", number_of_rows="50", **options))

    assert (scan.rows, scan.capabilities.bounded) == (7, True)
    found = rows("id DECIMAL(5, 1), s STRING, x INT", count=7, **options)
    assert [str(each) for each in found["id"].to_pylist()] == ["-1.0", "0.0", "1.0", "2.0", "3.0", "4.0", "5.0"]
    assert found["s"].to_pylist() == list("1234567")
    assert pickle.loads(pickle.dumps(scan)) == scan


def test_a_part_of_the_values_is_null():
    found = rows("i INT, r ROW<x INT, y STRING>", fields__i__null_rate="0.25", fields__r__y__null_rate="1")

    assert 150 < found["i"].null_count < 350
    assert {each["y"] for each in found["r"].to_pylist()} == {None}


def test_keys_of_a_map_are_there_once():
    found = rows("m MAP<BOOLEAN, INT>", fields__m__length="5")["m"].to_pylist()

    assert all(len(dict(each)) == len(each) for each in found)
    assert max(map(len, found)) == 2


def test_rows_are_due_by_their_rate_and_not_for_the_time_in_which_no_job_ran():
    given = making("i INT", rows_per_second="10")
    first = {"row": 0, "from": 1000, "to": 1000}

    assert due(given, first, 1000, 1099) == first
    second = due(given, first, 1000, 1250)
    assert second == {"row": 2, "from": 1000, "to": 1200}
    assert due(given, second, 1000, 1300) == {"row": 3, "from": 1200, "to": 1300}
    assert due(given, second, 9000, 9100) == {"row": 3, "from": 9000, "to": 9100}


def test_a_table_ends_and_gives_all_its_rows_at_once_where_a_job_reads_what_is_there():
    first = {"row": 0, "from": 1000, "to": 1000}
    given = making("i INT", rows_per_second="10", number_of_rows="5")

    assert due(given, first, 1000, 9000)["row"] == 5
    end = due(making("i INT", True, rows_per_second="10", number_of_rows="5"), first, 1000, 1001)
    assert end["row"] == 5
    assert due(given, end, 1000, 20000) == end


PROBLEMS = {
    "fields__i__kind": ("ordered", "expected 'random' or 'sequence', not 'ordered'"),
    "fields__i__min": ("many", "expected a number, not 'many'"),
    "fields__i__max": ("3000000000", "is beyond the range of INT"),
    "fields__j__min": ("1", "the column has no such option"),
    "fields__s__min": ("1", "the column has no such option"),
    "fields__s__length": ("0", "expected a length from 1 to 1000000, not 0"),
    "fields__s__var_len": ("maybe", "expected true or false, not 'maybe'"),
    "fields__c__length": ("2", "CHAR(3) always has the length 3 (leave it out)"),
    "fields__c__var_len": ("true", "CHAR(3) always has the length 3"),
    "fields__n__null_rate": ("0.5", "the column is INT NOT NULL (leave it out, or NOT NULL)"),
    "fields__i__null_rate": ("2", "expected a number from 0 to 1, not 2"),
    "fields__ts__max_past": ("long", "expected a duration"),
    "rows_per_second": ("0", "expected a number between 1 and 2147483647, not '0'"),
    "number_of_rows": ("-1", "expected 1 or more rows, not '-1'"),
    "rows_per_minute": ("1", "unknown option (did you mean 'rows-per-second'?)"),
}


@pytest.mark.parametrize(("option", "given", "reason"), [(key, *each) for key, each in PROBLEMS.items()])
def test_a_wrong_option_is_named(option: str, given: str, reason: str):
    definition = table("i INT, s STRING, c CHAR(3), n INT NOT NULL, ts TIMESTAMP(3)", **{option: given})
    with pytest.raises(OptionsError) as caught:
        DatagenConnector().scan(definition)

    (problem,) = caught.value.problems
    assert problem.key in definition.options
    assert reason in str(problem)


def test_a_sequence_needs_both_ends_of_a_type_that_has_one():
    with pytest.raises(OptionsError) as caught:
        DatagenConnector().scan(
            table(
                "b BOOLEAN, i INT, t TINYINT",
                fields__b__kind="sequence",
                fields__b__start="1",
                fields__b__end="1",
                fields__i__kind="sequence",
                fields__i__start="5",
                fields__t__kind="sequence",
                fields__t__start="1",
                fields__t__end="200",
            )
        )

    assert [f"{each.key}: {each.reason}" for each in caught.value.problems] == [
        "fields.b.kind: BOOLEAN cannot be a sequence; use random",
        "fields.i.end: is required for a sequence",
        "fields.t.end: the sequence from 1 to 200 is beyond the range of TINYINT",
    ]


def test_metadata_columns_are_refused():
    definition = TableDefinition("t", (Column("o", BIGINT, ColumnKind.METADATA),), {"connector": "datagen"})
    with pytest.raises(UnsupportedError, match="column 'o': connector 'datagen' has no metadata columns"):
        DatagenConnector().scan(definition)


def source(columns: str, documents: Memory, *, planned: bool = True, **options: str) -> DatagenSource:
    """The source of a job with this checkpoint."""
    spark: Any = SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"})
    given = replace(context_of(), spark=spark, checkpoint=documents, planned=planned)
    return DatagenSource(DatagenConnector().scan(table(columns, **options)), 0, given)


def test_a_checkpoint_is_of_rows_that_are_made_in_one_way():
    known = Memory()
    source("id BIGINT", known, planned=False, fields__id__max="9")
    seed = known.documents["source-0"]["seed"]
    source("id BIGINT", known, fields__id__max="9", rows_per_second="5", number_of_rows="7")
    assert known.documents["source-0"]["seed"] == seed
    with pytest.raises(CheckpointError, match=r"table 't': fields was {'id.max': '9'}, and is {'id.max': '8'}; choose"):
        source("id BIGINT", known, fields__id__max="8")


def test_rows_are_not_made_with_another_seed_for_batches_that_were_planned():
    with pytest.raises(CheckpointError, match=r"has batches but no 'penstock/source-0.json'"):
        source("id BIGINT", Memory())


def test_a_seed_that_a_former_version_has_drawn_counts():
    known = Memory(documents={"source-0": {"seed": 42, "start": {"row": 3}}})
    for _ in range(2):
        assert source("id BIGINT", known, number_of_rows="3").has_ended(None)
    assert known.documents["source-0"]["seed"] == 42
    with pytest.raises(CheckpointError, match="another source"):
        source("id BIGINT", known, fields__id__max="9")


@pytest.mark.parametrize("other", [{"files": []}, {"source": {"path": "local:/a"}, "files": []}])
def test_the_document_of_another_connector_has_no_seed(other: dict[str, Any]):
    with pytest.raises(CheckpointError, match="another source than table 't': fields was None"):
        source("id BIGINT", Memory(documents={"source-0": other}))
