"""The filesystem connector without Spark: what is read, what is written, and what is refused."""

from __future__ import annotations

import gzip
import itertools
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.filesystem import files, spark
from penstock.connectors.filesystem.factory import FilesystemConnector
from penstock.connectors.filesystem.files import Files, Folder, hidden_name, overwrite, publish, read
from penstock.connectors.filesystem.spec import FilesystemSinkSpec
from penstock.errors import CheckpointError, ExecutionError, OptionsError, RecordError, SchemaError, UnsupportedError
from penstock.spi import Batch, Column, ColumnKind, Output, TableDefinition, Task, TaskResults, WriterFactory
from penstock.types import BIGINT, INT, STRING, TimestampType, arrow_schema, parse_columns
from tests.committers import Memory, context_of

COLUMNS = "id BIGINT, name STRING, price DECIMAL(8, 2), at TIMESTAMP(3)"
ROWS = [
    {"id": 1, "name": 'a, "b"', "price": Decimal("1.50"), "at": None},
    {"id": None, "name": "ü", "price": None, "at": None},
]


def table(
    path: object, format: str, columns: str = COLUMNS, by: tuple[str, ...] = (), **options: str
) -> TableDefinition:
    fields = parse_columns(columns).fields
    given = {"connector": "filesystem", "path": str(path), "format": format, **options}
    return TableDefinition("t", tuple(Column(each.name, each.type) for each in fields), given, partitioned_by=by)


def content(
    path: object, format: str, columns: str = COLUMNS, by: tuple[str, ...] = (), **options: str
) -> list[dict[str, Any]]:
    """The rows of a table, in the order of its files."""
    scan = FilesystemConnector().scan(table(path, format, columns, by, **options))
    found = [rows for file in Folder.from_path(scan.options.path).files() for rows, _ in read(scan, file)]
    return [row for batch in found for row in batch.to_pylist()]


def write(sink: FilesystemSinkSpec, name: str, batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    files = Files(sink, name)
    try:
        for each in batches:
            files.write(each)
        return files.finish()
    finally:
        files.close()


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(parse_columns(COLUMNS)))


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_null_in_a_column_that_is_not_null_is_a_bad_row(format: str, tmp_path: Path):
    written = FilesystemConnector().sink(table(tmp_path, format))
    write(written, "rows", iter([batch(ROWS)]))
    place = "row 2" if format == "parquet" else "line 2"
    with pytest.raises(RecordError, match=f"{place}: column 'id' is BIGINT NOT NULL, and the record has no value"):
        content(tmp_path, format, COLUMNS.replace("BIGINT", "BIGINT NOT NULL"))
    assert [each["id"] for each in content(tmp_path, format)] == [1, None]


def test_null_in_a_column_that_is_not_null_is_left_out_with_its_line_where_errors_are_ignored(tmp_path: Path):
    (tmp_path / "a").write_text('{"id": 1}\n[{"id": 2}, {}]\n{"id": 3}\n')
    options = {"json.ignore-parse-errors": "true"}
    assert [each["id"] for each in content(tmp_path, "json", "id BIGINT NOT NULL", **options)] == [1, 3]


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
@pytest.mark.parametrize("scheme", ["", "file://"], ids=["path", "uri"])
def test_rows_are_read_as_they_were_written(format: str, scheme: str, tmp_path: Path):
    place = f"{scheme}{tmp_path / 'new'}"
    sink = FilesystemConnector().sink(table(place, format, **{"csv.null-literal": "n/a"} if format == "csv" else {}))
    assert write(sink, ".part-0-0", iter([batch(ROWS[:1]), batch([]), batch(ROWS[1:])])) == {".part-0-0": 2}
    assert Folder.from_path(place).files() == []

    publish(sink, "part-0-", [".part-0-0"])
    assert content(place, format, **{"csv.null-literal": "n/a"} if format == "csv" else {}) == ROWS
    assert pickle.loads(pickle.dumps(sink)) == sink


@pytest.mark.parametrize(
    ("name", "message"),
    [(None, "it is an empty line.*set 'csv.null-literal'"), ("a\nb", "it has a line feed.*use 'format' = 'json'")],
)
def test_a_row_that_would_be_no_line_is_refused(name: str | None, message: str, tmp_path: Path):
    sink = FilesystemConnector().sink(table(tmp_path, "csv", "name STRING"))
    rows = pa.RecordBatch.from_pydict({"name": ["x", name]}, schema=arrow_schema(parse_columns("name STRING")))
    with pytest.raises(RecordError, match=message):
        write(sink, ".part-0-0", iter([rows]))


def test_a_batch_that_is_published_again_replaces_its_files_and_no_other(tmp_path: Path):
    sink = FilesystemConnector().sink(table(tmp_path, "json", "id BIGINT"))
    for name in ("part-0-000", "part-1-000", "part-1-001", ".part-1-002"):
        (tmp_path / name).write_text(f'{{"id":"{name}"}}\n')
    write(sink, ".part-1-000", iter([pa.RecordBatch.from_pydict({"id": [7]})]))

    publish(sink, "part-1-", [".part-1-000"])

    assert sorted(each.name for each in tmp_path.iterdir()) == ["part-0-000", "part-1-000"]
    assert (tmp_path / "part-1-000").read_text() == '{"id":7}\n'


class Run(threading.Thread):
    """A run of a job that publishes the files of a batch: its name twice. It waits before each thing that it does."""

    def __init__(self, folder: Path, name: str):
        super().__init__(daemon=True)
        self.sink = FilesystemConnector().sink(table(folder, "json", "run STRING"))
        self.go, self.waits, self.ended, self.error = threading.Semaphore(0), threading.Semaphore(0), False, ""
        self.hidden = [hidden_name("part-7-", name, task, "0", "json") for task in range(2)]
        for each in self.hidden:
            write(self.sink, each, iter([pa.RecordBatch.from_pydict({"run": [name]})]))
        self.start()
        self.waits.acquire()

    def run(self) -> None:
        try:
            publish(self.sink, "part-7-", self.hidden)
        except ExecutionError as error:
            self.error = str(error)
        self.ended = True
        self.waits.release()

    def step(self, count: int) -> bool:
        """Go on for so many things, and no further; whether it has not ended."""
        while count and not self.ended:
            self.go.release()
            self.waits.acquire()
            count -= 1
        return not self.ended


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes runs wait before each thing that they do to files, and not for the disk."""

    def waiting(do: Callable[..., Any]) -> Callable[..., Any]:
        def waits(folder: Folder, *given: str) -> Any:
            run = threading.current_thread()
            if isinstance(run, Run):
                run.waits.release()
                run.go.acquire()
            return do(folder, *given)

        return waits

    monkeypatch.setattr(files, "sync_paths", lambda *_: None)
    for name in ("names", "reveal", "delete"):
        monkeypatch.setattr(Folder, name, waiting(getattr(Folder, name)))


def runs_in(folder: Path) -> list[str]:
    """Whose files can be seen."""
    return sorted(file.read_text().split('"')[3] for file in folder.glob("part-7-*"))


@pytest.mark.usefixtures("stepwise")
def test_of_runs_that_publish_a_batch_at_once_one_has_all_of_its_files_there(tmp_path: Path):
    for at in itertools.count():
        for until in itertools.count():
            folder = tmp_path / f"{at}-{until}"
            old, new = Run(folder, "a"), Run(folder, "b")
            more = old.step(at), new.step(until)
            for each in (old, new):  # each was frozen where it was, and wakes
                assert not each.step(99)
            seen = runs_in(folder)
            assert 2 in (seen.count("a"), seen.count("b")), (at, until, seen)
            for each, name in ((old, "a"), (new, "b")):
                if each.error:  # its files were deleted before they appeared
                    assert "Another run of the job has published the batch" in each.error
                    assert name not in seen
            Run(folder, "c").step(99)
            assert runs_in(folder) == ["c", "c"]
            if not more[1]:
                break
        if not more[0]:
            break
    assert min(at, until) >= 5  # things that a run does


@pytest.mark.usefixtures("stepwise")
def test_a_run_that_wakes_late_leaves_the_batch_as_the_next_one_has_published_it(tmp_path: Path):
    for at in itertools.count():
        folder = tmp_path / str(at)
        old = Run(folder, "a")
        frozen = old.step(at)
        new = Run(folder, "b")
        new.step(99)
        assert runs_in(folder) == ["b", "b"]
        old.step(99)
        assert runs_in(folder) == ["b", "b"]
        if not frozen:
            break


def test_runs_that_write_a_batch_at_once_have_a_file_each(tmp_path: Path):
    sink = FilesystemConnector().sink(table(tmp_path, "json", "run STRING"))
    old, new = (hidden_name("part-7-", run, 0, "0", "json") for run in ("aaa", "bbb"))
    rows = [pa.RecordBatch.from_pydict({"run": [name * 9]}) for name in ("old", "new")]

    def slowly() -> Iterator[pa.RecordBatch]:
        yield rows[0]
        write(sink, new, iter(rows[1:]))
        publish(sink, "part-7-", [new])
        yield rows[0]

    with pytest.raises(ExecutionError, match="cannot be written"):
        write(sink, old, slowly())
    assert content(tmp_path, "json", "run STRING") == rows[1].to_pylist()


def test_without_rows_there_is_no_file(tmp_path: Path):
    sink = FilesystemConnector().sink(table(tmp_path / "new", "json"))
    assert write(sink, ".part-0-0", iter([batch([])])) == {}
    publish(sink, "part-0-", [])

    assert not (tmp_path / "new").exists()


class Attempts:
    """Runs of a job that publish rows of one column ``id`` in one task, without Spark."""

    def __init__(self, folder: Path, *, overwrite: bool = False):
        self.sink = FilesystemConnector().sink(replace(table(folder, "json", "id BIGINT"), overwrite=overwrite))

    def publish(self, run: str, number: int, ids: range) -> int:
        """Publish the batch of this number with these rows, whose numbers are their positions too."""
        context: Any = SimpleNamespace(query_id="query", run_id=run)
        output = Output(0, "t", self.sink, self.sink.schema)
        batch = Batch(number, ({"row": ids.start},), ({"row": ids.stop},), 1)
        committer = spark.FilesCommitter([output], context)
        tasks = OneTask(committer.writers(), pa.RecordBatch.from_pydict({"id": list(ids)}))
        return committer.publish(batch, tasks).record_count


@dataclass
class OneTask:
    """The one task of a batch, in this process."""

    writers: WriterFactory
    rows: pa.RecordBatch

    state = ""
    computed = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        written = self.writers.run(Task(0, 1, instructions), [(0, self.rows, self.rows[:0])])
        return TaskResults([row for each in written for row in each.to_pylist()])


def test_a_table_that_is_overwritten_has_the_rows_of_the_batch_whoever_publishes_it_again(tmp_path: Path):
    for name in ("part-0-000", "deep/more.json", ".hidden", "_kept/other"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"id":0}\n')
    attempts = Attempts(tmp_path, overwrite=True)
    for run in ("first", "second"):
        assert attempts.publish(run, 0, range(1, 3)) == 2

        assert [row["id"] for row in content(tmp_path, "json", "id BIGINT")] == [1, 2]
        assert (tmp_path / ".hidden").exists()
        assert (tmp_path / "_kept/other").exists()
    attempts.publish("third", 0, range(0))
    assert content(tmp_path, "json", "id BIGINT") == []


def test_partitions_that_are_not_written_stay_when_others_are_overwritten(tmp_path: Path):
    by = ("day",)
    sink = FilesystemConnector().sink(table(tmp_path, "json", "id BIGINT, day STRING", by))
    for name, day in ((".part-0-0", "mo"), (".part-0-1", "tu")):
        write(sink, name, iter([pa.RecordBatch.from_pydict({"id": [1], "day": [day]})]))
        publish(sink, name[1:], [f"day={day}/{name}"])
    written = write(sink, ".part-1-0", iter([pa.RecordBatch.from_pydict({"id": [2, 3], "day": ["tu", "we"]})]))
    publish(sink, "part-1-", list(written))

    overwrite(sink, ["part-1-"], list(written))

    found = [tuple(row.values()) for row in content(tmp_path, "json", "id BIGINT, day STRING", by)]
    assert found == [(1, "mo"), (2, "tu"), (3, "we")]


def test_a_batch_of_other_rows_under_the_same_number_replaces_nothing(tmp_path: Path):
    attempts = Attempts(tmp_path)

    def ids() -> list[int]:
        return sorted(row["id"] for row in content(tmp_path, "json", "id BIGINT"))

    assert attempts.publish("a", 6, range(100, 110)) == 10
    attempts.publish("copy", 6, range(100, 105))  # when the copy was made, there were no more
    assert ids() == sorted([*range(100, 110), *range(100, 105)])
    attempts.publish("copy", 7, range(105, 110))
    for run in ("copy", "another"):  # a batch that is published again
        attempts.publish(run, 6, range(100, 105))
    assert ids() == sorted([*range(100, 110)] * 2)


DAYS = "shop STRING, id BIGINT, day DATE, open BOOLEAN"
SOLD = [
    {"shop": "a/b=1 %", "id": 1, "day": date(2026, 1, 2), "open": True},
    {"shop": None, "id": 2, "day": date(2026, 1, 2), "open": False},
    {"shop": "a/b=1 %", "id": 3, "day": date(2026, 1, 2), "open": True},
    {"shop": "Zürich", "id": 4, "day": None, "open": None},
]


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_partitions_are_folders_whose_names_are_columns(format: str, tmp_path: Path):
    by = ("day", "shop", "open")
    sink = FilesystemConnector().sink(table(tmp_path, format, DAYS, by))
    schema = arrow_schema(parse_columns(DAYS))
    rows = [pa.RecordBatch.from_pylist(part, schema=schema) for part in (SOLD[:3], [], SOLD[3:])]

    written = write(sink, ".part-0-0", iter(rows))
    assert Folder.from_path(str(tmp_path)).files() == []
    publish(sink, "part-0-", [*written])

    default = "__DEFAULT_PARTITION__"
    assert written == {
        "day=2026-01-02/shop=a%2Fb%3D1 %25/open=true/.part-0-0": 2,
        f"day=2026-01-02/shop={default}/open=false/.part-0-0": 1,
        f"day={default}/shop=Zürich/open={default}/.part-0-0": 1,
    }
    found = content(tmp_path, format, DAYS, by)
    assert sorted(found, key=repr) == sorted(SOLD, key=repr)
    assert [*found[0]] == ["shop", "id", "day", "open"]

    publish(sink, "part-0-", [*write(sink, ".part-0-0", iter(rows[:1]))])
    assert sorted(content(tmp_path, format, DAYS, by), key=repr) == sorted(SOLD[:3], key=repr)


def test_folders_that_are_no_partitions_are_named(tmp_path: Path):
    for folder, reason in (
        ("day=2026-01-02", r"is not in a partition folder day=\.\./open=\.\.; move it there"),
        ("day=soon/open=true", r"does not hold a value of its column \(.*\); rename the folder"),
    ):
        (tmp_path / folder / folder).mkdir(parents=True)
        (tmp_path / folder / "part").write_text('{"id":1,"shop":"a"}\n')
        with pytest.raises(ExecutionError, match=reason):
            content(tmp_path / folder, "json", DAYS, ("day", "open"))


def test_columns_that_cannot_name_folders_are_named():
    with pytest.raises(UnsupportedError) as caught:
        FilesystemConnector().sink(table("x", "json", "_a INT, b DOUBLE", ("_a", "b")))
    assert [each.reason for each in caught.value.problems] == [
        "column '_a': a folder of that name is hidden, and PARTITIONED BY does not take it",
        "column 'b': PARTITIONED BY does not take DOUBLE",
        "all columns are in PARTITIONED BY, and files need one",
    ]


def test_files_of_subfolders_are_read_and_hidden_ones_are_not(tmp_path: Path):
    for name in ("a.json", "b/c.json", ".hidden", "_SUCCESS", "_spark_metadata/0", "b/.part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'{{"name":"{name}"}}')

    assert content(tmp_path, "json", "name STRING") == [{"name": "a.json"}, {"name": "b/c.json"}]
    assert content(tmp_path / "a.json", "json", "name STRING") == [{"name": "a.json"}]


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_lines_are_found_wherever_a_block_ends(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "_BYTES", size)
    (tmp_path / "f.gz").write_bytes(gzip.compress(b'{"n":"a\\r"}\r\n\n\r\n{"n":"b"}\n{"n":"c"}'))
    scan = FilesystemConnector().scan(table(tmp_path, "json", "n STRING"))

    found = [
        (row["n"], int(at))
        for rows, lines in read(scan, *Folder.from_path(str(tmp_path)).files())
        for row, at in zip(rows.to_pylist(), lines, strict=True)
    ]
    assert found == [("a\r", 0), ("b", 3), ("c", 4)]


def test_a_column_that_a_parquet_file_lacks_is_null_and_others_are_cast(tmp_path: Path):
    pq.write_table(pa.table({"more": [1, 2], "id": pa.array([3, 4], pa.int32())}), tmp_path / "a.parquet")

    assert content(tmp_path, "parquet", "name STRING, id BIGINT") == [{"name": None, "id": 3}, {"name": None, "id": 4}]
    assert content(tmp_path, "parquet", "name STRING") == [{"name": None}] * 2


@pytest.mark.parametrize("int96", [True, False])
def test_moments_of_a_parquet_file_are_right_in_all_years_whatever_their_unit(int96: bool, tmp_path: Path):
    far = [datetime(1, 1, 1), datetime(1677, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    pq.write_table(
        pa.table({"a": pa.array(far, pa.timestamp("us"))}), tmp_path / "a", use_deprecated_int96_timestamps=int96
    )
    assert content(tmp_path, "parquet", "a TIMESTAMP(6)") == [{"a": each} for each in far]


def test_nanoseconds_of_a_parquet_file_are_cut(tmp_path: Path):
    nanos = pa.array([1_999, -1, -1_000, None], pa.int64())
    pq.write_table(
        pa.table({"a": nanos.view(pa.timestamp("ns")), "b": nanos.view(pa.timestamp("ns", "UTC"))}), tmp_path / "a"
    )
    wanted = [datetime(1970, 1, 1) + timedelta(microseconds=each) for each in (1, -1, -1)]
    assert content(tmp_path, "parquet", "a TIMESTAMP(9)") == [*({"a": each} for each in wanted), {"a": None}]
    zoned = [{"b": each.replace(tzinfo=UTC)} for each in wanted]
    assert content(tmp_path, "parquet", "b TIMESTAMP_LTZ(9)") == [*zoned, {"b": None}]


def test_a_line_that_cannot_be_decoded_is_named_or_ignored(tmp_path: Path):
    (tmp_path / "f").write_text('{"id":1}\n{"id":"x"}\n{"id":3}\n')

    with pytest.raises(RecordError, match=r"file '.*/f', line 2: .*") as caught:
        content(tmp_path, "json", "id BIGINT")
    assert (caught.value.format, caught.value.field) == ("json", "id")
    ignoring = content(tmp_path, "json", "id BIGINT", **{"json.ignore-parse-errors": "true"})
    assert ignoring == [{"id": 1}, {"id": None}, {"id": 3}]


def test_a_file_that_has_changed_since_the_job_began_is_no_part_of_it(tmp_path: Path):
    (tmp_path / "f").write_text('{"id":1}\n')
    scan = FilesystemConnector().scan(table(tmp_path, "json", "id BIGINT"))
    (file,) = Folder.from_path(str(tmp_path)).files()
    with (tmp_path / "f").open("a") as more:
        more.write('{"id":2}\n')
    with pytest.raises(CheckpointError, match=r"has 18 bytes; it had 9 bytes when the job began\. Put it back"):
        list(read(scan, file))
    (tmp_path / "f").unlink()
    with pytest.raises(CheckpointError, match="is not there any more; it had 9 bytes"):
        list(read(scan, file))


def source(path: object, documents: Memory, *, planned: bool = True) -> spark.FilesSource:
    """The source of a job with this checkpoint."""
    scan = FilesystemConnector().scan(table(path, "json", "id BIGINT"))
    return spark.FilesSource(scan, 0, replace(context_of(), checkpoint=documents, planned=planned))


def test_a_checkpoint_is_of_one_place(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text('{"id":1}\n')
    known = Memory()
    source(tmp_path / "a", known, planned=False)
    (tmp_path / "a" / "more").write_text('{"id":2}\n')
    for same in (tmp_path / "a", f"{tmp_path}/a/", f"file://{tmp_path}/a"):
        assert source(same, known).lag({"file": 0}) == 1
    with pytest.raises(CheckpointError, match=r"another source than table 't': path was '.*/a', and is '.*/b'; choose"):
        source(tmp_path / "b", known)


def test_files_are_not_listed_again_for_batches_that_were_planned(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"'memory' has batches but no 'penstock/source-0.json'.*restore it"):
        source(tmp_path, Memory())


def test_a_list_of_files_that_a_former_version_has_made_counts(tmp_path: Path):
    known = Memory(documents={"source-0": {"files": [{"path": "x", "size": 1}], "start": {"file": 1}}})
    assert source(tmp_path, known).has_ended(None)
    assert source(tmp_path, known).has_ended(None)
    with pytest.raises(CheckpointError, match="another source"):
        source(tmp_path / "b", known)


@pytest.mark.parametrize("other", [{"seed": 1}, {"source": {"cluster_id": "c"}, "start": {}}, {"values": "digest"}])
def test_the_document_of_another_connector_is_no_list_of_files(tmp_path: Path, other: dict[str, Any]):
    with pytest.raises(CheckpointError, match="another source than table 't': path was None"):
        source(tmp_path, Memory(documents={"source-0": other}))


def test_files_that_are_no_parquet_and_places_that_are_not_there_are_named(tmp_path: Path):
    (tmp_path / "f").write_text("no parquet")
    with pytest.raises(ExecutionError, match=r"file '.*/f' of table 't' cannot be read: .*; check that the file is"):
        content(tmp_path, "parquet")
    with pytest.raises(ExecutionError, match=r"path '.*/nowhere' cannot be read: .*; check that the folder exists"):
        content(tmp_path / "nowhere", "json")
    with pytest.raises(ExecutionError, match=r"path 'nothing://x': .*; write a path of this machine, or a URI"):
        content("nothing://x", "json")


def test_places_that_cannot_be_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sink = FilesystemConnector().sink(table(tmp_path / "file" / "in", "json", "id BIGINT"))
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ExecutionError, match=r"'.*/file/in/\.part' cannot be written: .*; check the folder's rights and"
    ):
        write(sink, ".part", iter([pa.RecordBatch.from_pydict({"id": [1]})]))

    def refused(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(Folder, "reveal", refused)
    with pytest.raises(ExecutionError, match=r"cannot be renamed: no; check the folder's rights, then start the job"):
        publish(replace(sink, options=replace(sink.options, path=str(tmp_path))), "part", [".part"])


def test_wrong_options_are_named():
    definition = table(" ", "jsn", **{"json.fail-on-missing-field": "true", "pat": "x"})
    with pytest.raises(OptionsError) as caught:
        FilesystemConnector().scan(definition)
    assert [(each.key, each.hint) for each in caught.value.problems] == [
        ("json.fail-on-missing-field", ""),
        ("pat", "did you mean 'path'?"),
        ("format", ""),
        ("path", "for example '/data/orders'"),
    ]
    with pytest.raises(OptionsError, match=r"'csv\.field-delimiter'"):
        FilesystemConnector().sink(table("x", "csv", **{"csv.field-delimiter": "long"}))


def test_columns_that_cannot_be_read_are_named():
    with pytest.raises(SchemaError, match="table 't'"):
        FilesystemConnector().scan(table("x", "csv", "m MAP<STRING, INT>"))
    definition = TableDefinition("t", (Column("o", BIGINT, ColumnKind.METADATA),), {"connector": "filesystem"})
    with pytest.raises(UnsupportedError, match="column 'o': there is no metadata 'o'"):
        FilesystemConnector().scan(definition)
    columns = (Column("o", INT, ColumnKind.METADATA, "file.size"),)
    with pytest.raises(UnsupportedError, match=r"metadata 'file\.size' is BIGINT NOT NULL, not INT"):
        FilesystemConnector().scan(replace(definition, columns=columns))
    columns = (Column("o", BIGINT, ColumnKind.METADATA, "file.size"),)
    with pytest.raises(UnsupportedError, match="no column of the table is in its files"):
        FilesystemConnector().scan(replace(table("x", "parquet"), columns=columns))
    with pytest.raises(UnsupportedError, match=r"metadata 'file\.size' is not written.*VIRTUAL"):
        FilesystemConnector().sink(replace(definition, columns=columns))


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_rows_know_their_file(format: str, tmp_path: Path):
    definition = table(tmp_path, format, "day STRING, id BIGINT", ("day",))
    sink = FilesystemConnector().sink(definition)
    rows = pa.RecordBatch.from_pylist([{"day": "a", "id": 1}, {"day": "a", "id": 2}])
    (written,) = write(sink, ".part-0", iter([rows]))
    publish(sink, "part-", [written])
    path = next(tmp_path.rglob("part-*"))
    keys = {"p": ("file.path", STRING), "file.name": ("", STRING), "s": ("file.size", BIGINT)}
    keys["m"] = ("file.modification-time", TimestampType(3, local_zone=True))
    metadata = [Column(name, type_, ColumnKind.METADATA, key, virtual=True) for name, (key, type_) in keys.items()]
    scan = FilesystemConnector().scan(replace(definition, columns=(metadata[0], *definition.columns, *metadata[1:])))
    (file,) = Folder.from_path(str(tmp_path)).files()
    ((found, _),) = read(scan, file)

    assert found.schema.types == arrow_schema(scan.schema).types
    modified = datetime.fromtimestamp(path.stat().st_mtime_ns // 1_000_000 / 1000, UTC)
    told = {"p": str(path), "file.name": path.name, "s": path.stat().st_size, "m": modified}
    assert found.to_pylist() == [{**told, "day": "a", "id": each} for each in (1, 2)]
    assert FilesystemConnector().sink(replace(definition, columns=(*definition.columns, *metadata))) == sink


def test_options_of_flinks_files_are_accepted_or_refused_by_name(tmp_path: Path):
    accepted = {"sink.rolling-policy.file-size": "128 MB", "auto-compaction": "true", "sink.parallelism": "2"}
    for side in (FilesystemConnector().scan, FilesystemConnector().sink):
        text = side(table(tmp_path, "json", **accepted)).describe()
        assert "note: 'sink.rolling-policy.file-size' has no effect: each batch writes its own files, of any" in text
        assert "note: 'auto-compaction' has no effect: files are not merged" in text
        assert text.count("note: ") == 3

    refused = {
        "source.monitor-interval": "a folder is not watched: .* start a job for the files that come later",
        "source.path.regex-pattern": "all files of a folder are read",
        "sink.partition-commit.policy.kind": "partitions are not committed",
        "partition.time-extractor.timestamp-pattern": "partitions are not committed",
        "sink.rolling-policy.rollover": "did you mean 'sink.rolling-policy.rollover-interval'",
    }
    for key, reason in refused.items():
        with pytest.raises(OptionsError, match=f"'{key}': .*{reason}"):
            FilesystemConnector().sink(table(tmp_path, "json", **{key: "1 min"}))
