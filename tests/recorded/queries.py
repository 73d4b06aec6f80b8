"""Random queries over random changelogs, and the tables that Flink ends with, in ``queries.json``.

    python -m tests.recorded.queries PYTHON

``PYTHON`` has PyFlink 2.2. The queries of a database are one job of Flink; a database is kept once it is recorded, so
recording can be stopped at any time and go on later. Delete the file to record all of them again.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gate.sides import Side, SideError, flink
from tests.queries import random_query

DATABASES, QUERIES = 43, 25
_RECORDED = Path(__file__).with_name("queries.json")
#: The tables of :data:`tests.queries.TABLES` with the kinds of their changes, and the columns of the results.
COLUMNS = {
    "a": ["k INT", "v STRING", "n BIGINT NOT NULL", "ts TIMESTAMP(3)"],
    "b": ["k BIGINT", "v STRING", "n INT"],
    "c": ["k INT", "v STRING", "n BIGINT NOT NULL"],
}
KINDS = {"a": "I", "b": "I,UA,D", "c": "I,UB,UA,D"}
RESULT = ["k BIGINT", "v STRING", "n BIGINT"]
_SETTINGS = {"parallelism.default": "1", "table.local-time-zone": "UTC", "taskmanager.numberOfTaskSlots": "4"}

#: The kind of a change as Flink shows it, and the row.
Change = tuple[str, list[Any]]
#: A row with the number of its occurrences.
Rows = list[tuple[list[Any], int]]


def recorded() -> list[dict[str, Any]]:
    """The databases: the ``changes`` of each table, and ``queries`` with their ``rows``."""
    found: list[dict[str, Any]] = json.loads(_RECORDED.read_text("utf-8"))["databases"]
    return found


def program(database: Mapping[str, Any], queries: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    """A program of :mod:`tests.programs` with these queries, of which number n fills the table ``result_n``."""
    tables = [
        {
            "name": name,
            "schema": columns,
            "primary_key": ["k"] if name == "b" else None,
            "watermark": "ts AS ts" if name == "a" else None,
            "changelog_mode": KINDS[name],
            "before": database["changes"][name][: len(database["changes"][name]) // 2],
            "after": database["changes"][name][len(database["changes"][name]) // 2 :],
        }
        for name, columns in COLUMNS.items()
    ]
    sinks = [
        {"name": f"result_{at}", "schema": RESULT, "primary_key": None, "options": {}} for at in range(len(queries))
    ]
    return {
        "name": f"database {number}",
        "tables": tables,
        "sinks": sinks,
        "sql": [_statements([each["sql"] for each in queries])],
        "run": {"end_of_input": "finite"},
    }


def _statements(queries: Sequence[str]) -> str:
    inserts = "; ".join(f"INSERT INTO result_{at} {query}" for at, query in enumerate(queries))
    return f"EXECUTE STATEMENT SET BEGIN {inserts}; END"


def record(python: str) -> None:
    """Ask Flink for the databases that are not recorded yet."""
    databases = recorded() if _RECORDED.exists() else []
    side = flink(python)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        for number in range(len(databases), DATABASES):
            rng = random.Random(number)
            changes = _changes(rng)
            queries = list(dict.fromkeys(random_query(rng, rng.choice([1, 1, 2, 2, 3, 4, 5])) for _ in range(QUERIES)))
            with tempfile.TemporaryDirectory(prefix="queries-") as folder:
                for name, each in changes.items():
                    (Path(folder) / name).write_text("".join(f"{line}\n" for line in _lines(name, each)), "utf-8")
                found = list(_asked(side, queries, Path(folder)))
            databases.append({"changes": changes, "queries": found})
            _RECORDED.write_text(_document(databases), "utf-8")
            print(f"{number + 1} of {DATABASES} databases", file=sys.stderr, flush=True)
    finally:
        side.close()


def _changes(rng: random.Random) -> dict[str, list[Change]]:
    """Changes of the tables: additions to a in the order of time, changes of b by its key, and changes of c."""
    size = rng.choice([4, 10, 16])
    added = [["+I", [*_row(rng), f"2024-01-01 00:00:{at:02}"]] for at in sorted(rng.sample(range(60), size))]
    keyed: dict[Any, list[Any]] = {}
    by_key: list[Change] = []
    plain: list[list[Any]] = []
    changed: list[Change] = []
    for _ in range(size):
        row = [rng.randrange(4), *_row(rng)[1:]]
        old = keyed.pop(row[0], None)
        if old is not None and rng.random() < 0.4:
            by_key.append(("-D", old))
        else:
            by_key += [("+I", row)] if old is None else [("-U", old), ("+U", row)]
            keyed[row[0]] = row
        gone = plain.pop(rng.randrange(len(plain))) if plain and rng.random() < 0.5 else None
        if gone is not None and rng.random() < 0.6:
            changed.append(("-D", gone))
            continue
        plain.append(_row(rng))
        changed += [("+I", plain[-1])] if gone is None else [("-U", gone), ("+U", plain[-1])]
    return {"a": [(kind, values) for kind, values in added], "b": by_key, "c": changed}


def _row(rng: random.Random) -> list[Any]:
    return [rng.choice([None, 0, 1, 2, 3]), rng.choice([None, "a", "b"]), rng.randrange(4)]


def _lines(table: str, changes: Sequence[Change]) -> Iterator[str]:
    """The changes as Flink reads them."""
    names = [each.split()[0] for each in COLUMNS[table]]
    for kind, values in changes:
        row = dict(zip(names, values, strict=True))
        before, after = (row, None) if kind in ("-U", "-D") else (None, row)
        yield json.dumps(row if table == "a" else {"before": before, "after": after, "op": "c" if after else "d"})


def _asked(side: Side, queries: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    """The queries with their rows, or without those that Flink refuses."""
    into = Path(tempfile.mkdtemp(dir=folder))
    statements = [_created(name, columns, folder / name) for name, columns in COLUMNS.items()]
    statements += [_created(f"result_{at}", RESULT, into / str(at)) for at in range(len(queries))]
    try:
        side.run({"settings": _SETTINGS, "statements": [*statements, _statements(queries)]})
    except SideError as error:
        print(f"{len(queries)} queries: {error}", file=sys.stderr, flush=True)
        if len(queries) == 1:
            yield {"sql": queries[0], "refused": str(error).partition("\n")[0]}
            return
        half = len(queries) // 2
        yield from _asked(side, queries[:half], folder)
        yield from _asked(side, queries[half:], folder)
        return
    for at, query in enumerate(queries):
        yield {"sql": query, "rows": _rows(into / str(at))}


def _created(name: str, columns: Sequence[str], path: Path) -> str:
    constraints = {"a": ["WATERMARK FOR ts AS ts"], "b": ["PRIMARY KEY (k) NOT ENFORCED"]}.get(name, [])
    return (
        f"CREATE TABLE {name} ({', '.join([*columns, *constraints])}) WITH ('connector' = 'filesystem', "
        f"'path' = '{path.as_uri()}', 'format' = '{'json' if name == 'a' else 'debezium-json'}')"
    )


def _rows(folder: Path) -> Rows:
    """The rows that changes in files end with."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for path in sorted(folder.rglob("part-*"), key=lambda path: int(path.name.rpartition("-")[2])):
        for line in path.read_text("utf-8").splitlines():
            change = json.loads(line)
            added = change["after"] is not None
            rows[tuple((change["after"] if added else change["before"]).values())] += 1 if added else -1
    assert all(count >= 0 for count in rows.values()), folder
    return sorted(([list(row), count] for row, count in rows.items() if count), key=str)


def _document(databases: Sequence[Mapping[str, Any]]) -> str:
    """One line for the changes of a database, and one for each query."""
    parts = [
        f'{{"changes": {json.dumps(each["changes"])}, "queries": [\n'
        + ",\n".join(json.dumps(query, separators=(",", ":")) for query in each["queries"])
        + "\n]}"
        for each in databases
    ]
    return '{"flink": "2.2.0", "databases": [\n' + ",\n".join(parts) + "\n]}\n"


if __name__ == "__main__":
    record(sys.argv[1])
