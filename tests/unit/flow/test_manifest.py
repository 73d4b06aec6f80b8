"""Manifests: what was committed is read, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CheckpointError
from penstock.flow.graph.exchange import EXCHANGE
from penstock.flow.state.kept_output import OUTPUT_VERSION, KeptFile, KeptOutput
from penstock.flow.state.manifest import Manifest, Sinks, check_state, merge_reports
from penstock.flow.state.segments import END, SegmentRef
from penstock.flow.state.storage import Storage
from penstock.flow.time.watermarks import OperatorTime


def ref(file, low=0, high=END, newest=1):
    return SegmentRef(file, 0, 100, 10, low, high, newest, "keyed")


def report(low, high, *refs, uid="groups", table="rows"):
    tables = {table: [each.to_json() for each in refs]}
    return json.dumps({"uid": uid, "low": low, "high": high, "tables": tables}).encode()


@pytest.fixture
def storage(tmp_path):
    return Storage.from_uri(str(tmp_path / "state"))


def test_a_manifest_is_read_by_its_reference(storage):
    seen = {"groups": OperatorTime(1000, 3)}
    written = Manifest(7, {"groups": {"rows": (ref("a"), ref("b", 5, 9))}}, operator_times=seen)
    reference = written.write(storage, "7.manifest")
    assert Manifest.read(storage, reference) == written
    assert written.files() == {"a", "b"}
    assert Manifest.read(storage, "") == Manifest()


def test_a_manifest_that_is_not_the_committed_one_is_refused(storage, tmp_path):
    reference = Manifest(7).write(storage, "7.manifest")
    path = tmp_path / "state" / "7.manifest"
    path.write_bytes(path.read_bytes().replace(b"7", b"8"))
    with pytest.raises(CheckpointError, match=r"'7\.manifest'.*is not the one that was committed"):
        Manifest.read(storage, reference)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"'7\.manifest'.*is missing"):
        Manifest.read(storage, reference)


def test_tables_that_may_lack_a_batch_are_those_that_were_not_written_before_it_was_committed(storage):
    had = Sinks(("kafka 'a' topic",), ("print 'r'",))
    reference = Manifest(7, sinks=had).write(storage, "7.manifest")
    assert Manifest.read(storage, reference).sinks == had
    for now, everywhere, lacking in (
        (had, False, []),
        (Sinks(("kafka 'a' topic",), ()), False, []),
        (Sinks((), ("kafka 'a' topic", "print 'r'")), False, ["kafka 'a' topic"]),
        (Sinks((), ("kafka 'a' topic", "print 'r'")), True, []),
        (Sinks(("kafka 'a' topic",), ("print 'r'", "print 'r'")), True, ["print 'r'"]),
        (Sinks(("kafka 'a' topic",), ("kafka 'r' topic",)), True, ["kafka 'r' topic"]),
    ):
        assert now.find_lacking(had, everywhere=everywhere) == lacking, now


def test_a_start_looks_for_the_files_of_its_state(storage):
    storage.write("a", [b"1"])
    storage.write("b", [b"2"])
    reference = Manifest(7, {"groups": {"rows": (ref("a"), ref("b", 5, 9))}}).write(storage, "7.manifest")
    assert check_state(storage, reference).batch == 7
    storage.delete("b")
    with pytest.raises(CheckpointError, match=r"'b' in '.*state' is missing"):
        check_state(storage, reference)


def test_the_output_of_a_batch_is_kept_beside_its_state(storage, tmp_path):
    rows = pa.table({"edge": [1, 2], "data": [b"a", b"b"]})
    with KeptFile(storage, "7.output-1") as file:
        assert [file.append(pa.py_buffer(each)) for each in (b"abc", b"de")] == [0, 3]
        assert file.finish()
    assert storage.open(file.name).to_pybytes() == b"abcde"
    kept = KeptOutput.write(storage, "7.output", rows, (("a", "b"), ("c",)), json.loads(file.to_json()))
    reference = Manifest(7, output=kept).write(storage, "7.manifest")
    found = Manifest.read(storage, reference)
    assert found.output == kept
    assert found.output.read(storage) == rows
    assert "7.output" not in found.files(), "it is deleted when all targets have it"


def test_kept_output_that_is_changed_or_missing_is_refused(storage, tmp_path):
    kept = KeptOutput.write(storage, "7.output", pa.table({"data": [b"abc"]}), (("a",),), {})
    path = tmp_path / "state" / "7.output"
    path.write_bytes(path.read_bytes().replace(b"abc", b"abd"))
    with pytest.raises(CheckpointError, match=r"'7\.output', which holds the output of batch 7.*content has changed"):
        kept.read(storage)
    path.unlink()
    with pytest.raises(
        CheckpointError, match=r"'7\.output' in .*batch 7, which some targets of the job have and oth.*: restore"
    ):
        kept.read(storage)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda path: path.write_bytes(b"abd"), r"'7\.output-1-.*', which holds the output of batch 7.*has changed"),
        (Path.unlink, r"'7\.output-1-.*' in .* is missing, which holds the output of batch 7"),
    ],
    ids=["changed", "missing"],
)
def test_a_file_of_a_task_that_is_changed_or_missing_is_refused_with_the_output(storage, tmp_path, damage, expected):
    with KeptFile(storage, "7.output-1") as file:
        file.append(pa.py_buffer(b"abc"))
        file.finish()
    kept = KeptOutput.write(storage, "7.output", pa.table({"edge": [1]}), (("a",),), json.loads(file.to_json()))
    damage(tmp_path / "state" / file.name)
    with pytest.raises(CheckpointError, match=expected):
        kept.read(storage)


def test_a_task_without_output_keeps_no_file(storage):
    with KeptFile(storage, "7.output-1") as file:
        assert not file.finish()
    assert list(storage.files()) == []


def test_kept_output_of_another_version_is_refused(storage):
    kept = KeptOutput.write(storage, "7.output", pa.table({"data": [b"abc"]}), (("a",),), {})
    reference = Manifest(7, output=replace(kept, version=OUTPUT_VERSION + 1)).write(storage, "7.manifest")
    found = Manifest.read(storage, reference).output
    with pytest.raises(CheckpointError, match=rf"'7\.output' .*batch 7, .*has version {OUTPUT_VERSION + 1}, and"):
        found.read(storage)


def test_the_rows_of_kept_output_are_those_of_its_version():
    """Whoever changes what tasks send changes OUTPUT_VERSION too: a batch may be in one target before an upgrade, and
    in the other after it."""
    columns = "kind int8, target int32, owner int32, scan int32, task int32, ordinal int32, count int64, file string, "
    columns += "position int64, bytes int64, data binary"
    assert (OUTPUT_VERSION, ", ".join(f"{each.name} {each.type}" for each in EXCHANGE)) == (3, columns)


def test_owners_that_report_nothing_keep_their_part_of_the_state():
    before = Manifest(1, {"groups": {"rows": (ref("a"),)}, "other": {"rows": (ref("x"),)}})
    after = merge_reports(before, 2, [report(0, 100, replace(ref("a"), high=100, rows=0), ref("b", 0, 100, 2))])
    assert after.operators["groups"]["rows"] == (ref("a"), ref("b", 0, 100, 2))
    assert after.operators["other"] == before.operators["other"]
    assert after.batch == 2


def test_an_owner_that_has_merged_its_part_leaves_that_of_others():
    before = Manifest(1, {"groups": {"rows": (ref("a"),)}})
    after = merge_reports(before, 2, [report(0, 100, ref("b", 0, 100, 2))])
    assert after.operators["groups"]["rows"] == (ref("a", 100), ref("b", 0, 100, 2))


def test_a_key_range_may_become_empty():
    before = Manifest(1, {"groups": {"rows": (ref("a", 0, 100),)}})
    assert merge_reports(before, 2, [report(0, END)]).operators["groups"]["rows"] == ()


def test_a_manifest_of_another_version_is_refused(storage, monkeypatch):
    monkeypatch.setattr("penstock.flow.state.manifest.VERSION", 2)
    reference = Manifest(7).write(storage, "7.manifest")
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match=r"has version 2, and this penstock reads version 1; run the version that"
    ):
        Manifest.read(storage, reference)


def test_no_batch_is_earlier_than_the_one_before_it():
    before = Manifest(7, time_ms=5000)
    assert merge_reports(before, 8, [], 4000).time_ms == 5000
    assert merge_reports(before, 8, [], 6000).time_ms == 6000
