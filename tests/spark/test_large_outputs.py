"""Output that is too large for the driver: tasks keep it, the owners of partitions publish it, and its bytes never pass
the driver."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine.runs import flows, write_tasks
from penstock.errors import BatchError, DatabaseError
from tests.spark.failpoints import before_commit, failures

COUNT = 12_000
#: Each row has about 400 bytes in two topics, or in a topic and a table.
TEXTS = "SELECT id, REPEAT(LPAD(CAST(id AS STRING), 10, '0'), 40) FROM s"
#: A dataflow with two outputs of the same rows, of which half come in another way.
BOTH = f"{TEXTS} WHERE MOD(id, 2) = 0 UNION ALL {TEXTS} WHERE MOD(id, 2) = 1"
COLUMNS = "id BIGINT, text STRING"


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that the driver gets of each Spark job of a batch. It publishes nothing by itself."""
    sizes: list[int] = []
    collect = flows.collect_rows

    def collecting(*arguments: Any, **options: Any) -> Any:
        rows, doubt = collect(*arguments, **options)
        sizes.append(rows.nbytes)
        return rows, doubt

    for module in (flows, write_tasks):
        monkeypatch.setattr(module, "collect_rows", collecting)
    monkeypatch.setattr(write_tasks, "_MOST_BYTES_OF_DRIVER", 0)
    return sizes


def text(number: int) -> str:
    return f"{number:010}" * 40


@pytest.mark.rule("tasks run once")
def test_the_owners_of_partitions_publish_what_operators_have_made(jobs, topics, topic, collected, monkeypatch):
    source, sink = topic(2), topic(4)
    topics.write_ids(source, COUNT)
    before_commit(monkeypatch, failures(1, lambda: BatchError("the first attempt fails")))
    keyed = {"key_format": "json", "key_fields": "id", "value_format": "json"}
    jobs.run(
        jobs.bounded("s", "id BIGINT", source)
        + jobs.exactly_once("t", COLUMNS, sink, **keyed).replace("'format' = 'json', ", "")
        + f"INSERT INTO t {BOTH};"
    )
    found = topics.read(sink)
    assert sorted((each.json["id"], each.json["text"]) for each in found) == [(n, text(n)) for n in range(COUNT)]
    assert {each.partition for each in found} == {0, 1, 2, 3}
    assert len(topics.read(sink, "read_uncommitted")) == 2 * COUNT
    assert len(collected) == 3, "the operators ran once, the owners for each attempt"
    assert max(collected) < 50_000
    assert any("batch 0 is retried: the first attempt fails" in each for each in jobs.warnings)


@pytest.mark.slow
@pytest.mark.rule("the first commit binds the attempt")
def test_two_targets_get_large_output_that_tasks_have_kept(jobs, topics, topic, db, collected, monkeypatch):
    """The job dies between the two commits; the next run gives Kafka the files that tasks of the first have kept."""
    source, sink = topic(2), topic(2)
    topics.write_ids(source, COUNT)
    db.rows("CREATE TABLE p (id bigint, text text)")
    before_commit(monkeypatch, failures(1, lambda: DatabaseError("stopped before the commit")))
    sql = (
        jobs.bounded("s", "id BIGINT", source)
        + jobs.exactly_once("t", COLUMNS, sink)
        + db.table("p", COLUMNS, sink_delivery__guarantee="exactly-once")
        + f"EXECUTE STATEMENT SET BEGIN INSERT INTO t {BOTH}; INSERT INTO p {BOTH}; END;"
    )
    with pytest.raises(DatabaseError, match="before the commit"):
        jobs.run(sql)
    state = jobs.checkpoint() / "state"
    kept = sum(each.stat().st_size for each in state.glob("*.output-*.rows"))
    assert kept > COUNT * 400 * 2
    assert topics.read(sink) == []
    assert db.rows("SELECT count(*), count(DISTINCT id) FROM p") == [(COUNT, COUNT)]
    before = len(collected)

    jobs.run(sql)
    assert len(collected) == before + 1, "no operator runs again"
    assert sorted((each.json["id"], each.json["text"]) for each in topics.read(sink)) == [
        (n, text(n)) for n in range(COUNT)
    ]
    assert db.rows("SELECT count(*), count(DISTINCT id), min(text), max(text) FROM p") == [
        (COUNT, COUNT, text(0), text(COUNT - 1))
    ]
    assert max(collected) < 100_000 + 4 * (1 << 18)
    assert list(state.glob("*.output*")) == []
