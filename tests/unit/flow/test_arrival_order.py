"""What depends on the order of arrival: the result is that of one row after the other, however the rows are cut into
batches and divided among owners, also behind tables with a key and other operators with state."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.changelogs import PROGRAM_SEEDS
from tests.programs import Way, written

Row = tuple[Any, ...]
#: A row with its kind, as the programs have it.
Message = tuple[str, Row]
#: A row that is added (1) or taken back (-1).
Change = tuple[Row, int]

TABLES: dict[str, dict[str, Any]] = {
    "u": {"schema": ["id INT", "c INT", "a STRING"], "primary_key": ["id"], "changelog_mode": "UA,D"},
    "t": {"schema": ["id INT", "c INT", "a STRING", "p AS PROCTIME()"], "primary_key": None, "changelog_mode": "I"},
    "w": {
        "schema": ["id INT", "c INT", "a STRING", "ts TIMESTAMP(3)"],
        "primary_key": ["id"],
        "changelog_mode": "UA,D",
        "watermark": "ts AS ts",
    },
    "e": {
        "schema": ["id INT", "c INT", "a STRING", "ts TIMESTAMP(3)"],
        "primary_key": None,
        "changelog_mode": "I",
        "watermark": "ts AS ts - INTERVAL '1' SECOND",
    },
    "d": {"schema": ["c INT", "x INT"], "primary_key": ["c"], "changelog_mode": "UA,D"},
}
WAYS = (Way(), Way(owners=3), Way(1, 2), Way(2, 5, restart=True), Way(3))
MORE_WAYS = (*WAYS, Way(1), Way(4, 2, restart=True), Way(7, 3), Way(11, 5))


def rows_of(
    query: str, into: str, tables: Mapping[str, Sequence[Message]], way: Way, folder: Path, key: Sequence[str] = ()
) -> list[str]:
    """The table that a query makes of the messages of its tables; those of d come before all others."""
    first = {name: len(rows) // 2 for name, rows in tables.items()}
    first |= {"d": len(tables["d"]), "t": 0} if "d" in tables else {}
    program = {
        "name": query,
        "tables": [
            {
                "name": name,
                "bounded": False,
                **TABLES[name],
                "before": rows[: first[name]],
                "after": rows[first[name] :],
            }
            for name, rows in tables.items()
        ],
        "sinks": [{"name": "o", "schema": [into], "primary_key": [*key] or None, "options": {}}],
        "sql": [query],
        "run": {"end_of_input": "finite", "modes": ["streaming"]},
    }
    return sorted(written(program, way, str(folder))["o"].rows.elements())


# --- what one row after the other makes --------------------------------------------------------------------------


def normalized(messages: Sequence[Message]) -> list[Change]:
    """The changes that upserts and deletions by the first column make."""
    live: dict[Any, Row] = {}
    changes: list[Change] = []
    for kind, row in messages:
        old, new = live.pop(row[0], None), row if kind in ("+I", "+U") else None
        if new is not None:
            live[row[0]] = new
        if old != new:
            changes += [(old, -1)] if old is not None else []
            changes += [(new, 1)] if new is not None else []
    return changes


def lists(changes: Sequence[Change], key: Callable[[Row], Any], *, distinct: bool = False) -> dict[Any, list[str]]:
    """The values of the third column by group, in the order of arrival: what is taken back is the first equal one."""
    groups: dict[Any, list[Row]] = {}
    shown: dict[Any, list[str]] = {}
    for row, weight in changes:
        rows, values = groups.setdefault(key(row), []), shown.setdefault(key(row), [])
        if weight > 0:
            if not distinct or row[2] not in (each[2] for each in rows):
                values.append(row[2])
            rows.append(row)
        else:
            rows.pop(next(at for at, each in enumerate(rows) if each[2] == row[2]))
            if not distinct or row[2] not in (each[2] for each in rows):
                values.remove(row[2])
    return {each: [value for value in shown[each] if value is not None] for each, rows in groups.items() if rows}


def last_rows(changes: Sequence[Change], key: int) -> list[Row]:
    """The last row of each key; what is taken back is the first one that is equal."""
    rows: dict[Any, list[Row]] = {}
    for row, weight in changes:
        own = rows.setdefault(row[key], [])
        own.append(row) if weight > 0 else own.remove(row)
    return [own[-1] for own in rows.values() if own]


def joined(values: Sequence[str]) -> str:
    return ",".join(values) if values else "null"


# --- tables with a key -------------------------------------------------------------------------------------------

SIX = [("+U", (number, 1, f"a{number}")) for number in range(1, 7)]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_values_of_a_group_are_in_the_order_in_which_their_keys_arrived(way: Way, tmp_path: Path) -> None:
    query = "INSERT INTO o SELECT LISTAGG(a), FIRST_VALUE(a), LAST_VALUE(a) FROM u GROUP BY c"

    found = rows_of(query, "l STRING, f STRING, z STRING", {"u": SIX}, way, tmp_path)
    assert found == ["[a1,a2,a3,a4,a5,a6, a1, a6]"]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_table_with_another_key_keeps_the_last_message(way: Way, tmp_path: Path) -> None:
    query = "INSERT INTO o SELECT c, a FROM u"

    assert rows_of(query, "c INT, a STRING", {"u": SIX}, way, tmp_path, key=["c"]) == ["[1, a6]"]


def upserts(rng: random.Random) -> list[Message]:
    def message() -> Message:
        key = rng.randrange(4)
        if rng.random() < 0.25:
            return "-D", (key, None, None)
        return "+U", (key, rng.randrange(2), rng.choice(["x", "y", "z", None]))

    return [message() for _ in range(rng.randrange(2, 25))]


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_lists_over_upserts_are_those_of_one_row_after_the_other(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    messages = upserts(rng)
    query = "INSERT INTO o SELECT c, LISTAGG(a), LISTAGG(DISTINCT a), FIRST_VALUE(a), LAST_VALUE(a) FROM u GROUP BY c"
    every, different = (lists(normalized(messages), lambda row: row[1], distinct=each) for each in (False, True))
    meant = [
        f"[{c}, {joined(every[c])}, {joined(different[c])}, {joined(every[c][:1])}, {joined(every[c][-1:])}]"
        for c in every
    ]

    for number, way in enumerate(rng.sample(MORE_WAYS, 2)):
        into = "c INT, l STRING, d STRING, f STRING, z STRING"
        assert rows_of(query, into, {"u": messages}, way, tmp_path / str(number)) == sorted(meant), way


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_a_table_with_another_key_has_what_one_row_after_the_other_leaves(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    messages = upserts(rng)
    meant = [f"[{c}, {a}]".replace("None", "null") for _, c, a in last_rows(normalized(messages), 1)]

    for number, way in enumerate(rng.sample(MORE_WAYS, 2)):
        query = "INSERT INTO o SELECT c, a FROM u"
        found = rows_of(query, "c INT, a STRING", {"u": messages}, way, tmp_path / str(number), key=["c"])
        assert found == sorted(meant), way


# --- other operators ---------------------------------------------------------------------------------------------


def added(rng: random.Random) -> list[Message]:
    """Rows of t, each with a text of its own, which grows."""
    return [("+I", (rng.randrange(5), rng.randrange(3), f"{at:02d}")) for at in range(rng.randrange(2, 25))]


def replaced(messages: Sequence[Message]) -> list[Change]:
    return normalized([("+U", row) for _, row in messages])


def first_rows(messages: Sequence[Message]) -> list[Change]:
    return [(row, 1) for at, (_, row) in enumerate(messages) if row[0] not in [each[0] for _, each in messages[:at]]]


def largest(messages: Sequence[Message]) -> list[Change]:
    """The rows of the groups by c and id, with their largest text: since texts grow, the last one."""
    changes: list[Change] = []
    live: dict[Any, Row] = {}
    for _, row in messages:
        if row[:2] in live:
            changes.append((live[row[:2]], -1))
        live[row[:2]] = row
        changes.append((row, 1))
    return changes


_NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY p {}) AS n FROM t) WHERE n = 1"
#: What is between t and a list by c: the query, and the changes that it makes of the rows of t.
BELOW: dict[str, tuple[str, Callable[[Sequence[Message]], list[Change]]]] = {
    "a union of the table's own rows": (
        "(SELECT * FROM t WHERE id < 2 UNION ALL SELECT * FROM t WHERE id >= 2)",
        lambda messages: [(row, 1) for _, row in messages],
    ),
    "the last row of each id": (_NUMBERED.format("DESC"), replaced),
    "the first row of each id": (_NUMBERED.format("ASC"), first_rows),
    "groups": ("(SELECT c, id, MAX(a) AS a FROM t GROUP BY c, id)", largest),
    "different rows": ("(SELECT DISTINCT id, c, a FROM t)", lambda messages: [(row, 1) for _, row in messages]),
    "a join": (
        "(SELECT t.id, d.c, t.a FROM t JOIN d ON t.id = d.c)",
        lambda messages: [((row[0], row[0], row[2]), 1) for _, row in messages],
    ),
    "an outer join": (
        "(SELECT t.id, t.c, t.a FROM t LEFT JOIN d ON t.id = d.c)",
        lambda messages: [(row, 1) for _, row in messages],
    ),
    "rows that are in another table": (
        "(SELECT * FROM t WHERE id IN (SELECT c FROM d))",
        lambda messages: [(row, 1) for _, row in messages],
    ),
    "first rows of each key": (
        "(SELECT id, c, a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY a) AS n FROM t) WHERE n <= 9)",
        lambda messages: first_of_each(messages, 9),
    ),
}


def first_of_each(messages: Sequence[Message], count: int) -> list[Change]:
    found: list[Change] = []
    for _, row in messages:
        if [each[0] for each, _ in found].count(row[0]) < count:
            found.append((row, 1))
    return found


#: What depends on arrival: the query above, its columns and its key, and the rows that it ends with.
ABOVE: dict[str, tuple[str, str, tuple[str, ...], Callable[[Sequence[Change]], list[str]]]] = {
    "a list": (
        "SELECT c, LISTAGG(a) FROM {} GROUP BY c",
        "c INT, l STRING",
        (),
        lambda changes: [f"[{c}, {joined(values)}]" for c, values in lists(changes, lambda row: row[1]).items()],
    ),
    "a table with another key": (
        "SELECT c, a FROM {}",
        "c INT, a STRING",
        ("c",),
        lambda changes: [f"[{c}, {a}]" for _, c, a in last_rows(changes, 1)],
    ),
    "a first row among equal ones": (
        "SELECT c, a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY e) AS m FROM ("
        "SELECT *, 1 AS e FROM {})) WHERE m = 1",
        "c INT, a STRING",
        (),
        lambda changes: [f"[{c}, {a}]" for _, c, a in first_by_c(changes)],
    ),
}


def first_by_c(changes: Sequence[Change]) -> list[Row]:
    rows: dict[Any, Row] = {}
    for row, _ in changes:
        rows.setdefault(row[1], row)
    return [*rows.values()]


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("seed", PROGRAM_SEEDS[: 4 if len(PROGRAM_SEEDS) > 16 else 2])
def test_what_an_operator_gives_is_in_the_order_of_what_caused_it(
    below: str, above: str, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    source, changes = BELOW[below]
    query, into, key, meant = ABOVE[above]
    messages = added(rng)
    made = changes(messages)
    if above == "a first row among equal ones" and (min(weight for _, weight in made) < 0 or "outer" in below):
        return  # where rows change, the others of their columns tell equal ones apart
    tables = {"t": messages, **({"d": [("+U", (each, 0)) for each in range(5)] * 2} if " d" in source else {})}
    for number, way in enumerate((Way(), Way(owners=3), Way(4, 5))):
        found = rows_of(f"INSERT INTO o {query.format(source)}", into, tables, way, tmp_path / str(number), key)
        assert found == sorted(meant(made)), way


# --- queries at random -------------------------------------------------------------------------------------------

#: The ids that the table d has.
IN_D = (0, 1, 2)


def of_ids(changes: Sequence[Change], ids: Sequence[int]) -> list[Change]:
    return [(row, weight) for row, weight in changes if row[0] in ids]


def largest_of(changes: Sequence[Change]) -> list[Change]:
    """How the largest text of each c and id changes."""
    rows: dict[Row, list[str]] = {}
    found: list[Change] = []
    for (id_, c, a), weight in changes:
        own = rows.setdefault((id_, c), [])
        before = max(own, default=None)
        own.append(a) if weight > 0 else own.remove(a)
        after = max(own, default=None)
        if before != after:
            found += [((id_, c, each), by) for each, by in ((before, -1), (after, 1)) if each is not None]
    return found


#: What rows may go through: the query over one that has id, c and a, and the changes that it makes of those.
STEPS: dict[str, tuple[str, Callable[[Sequence[Change]], Sequence[Change]]]] = {
    "a filter": ("(SELECT id, c, a FROM {0} WHERE id < 3)", lambda changes: of_ids(changes, (0, 1, 2))),
    "a union": ("(SELECT id, c, a FROM {0} WHERE id < 2 UNION ALL SELECT id, c, a FROM {0} WHERE id >= 2)", list),
    "a join": ("(SELECT x.id, x.c, x.a FROM {0} AS x JOIN d ON x.id = d.c)", lambda changes: of_ids(changes, IN_D)),
    "an outer join": ("(SELECT x.id, x.c, x.a FROM {0} AS x LEFT JOIN d ON x.id = d.c)", list),
    "another table": (
        "(SELECT id, c, a FROM {0} WHERE id IN (SELECT c FROM d))",
        lambda changes: of_ids(changes, IN_D),
    ),
    "different rows": ("(SELECT DISTINCT id, c, a FROM {0})", list),
    "groups": ("(SELECT id, c, MAX(a) AS a FROM {0} GROUP BY id, c)", largest_of),
}


def of_groups(changes: Sequence[Change]) -> list[str]:
    made = lists(changes, lambda row: row[1]).items()
    return [f"[{c}, {joined(own)}, {joined(own[:1])}, {joined(own[-1:])}, [{', '.join(own)}]]" for c, own in made]


#: What goes by arrival: the query, its columns and its key, and the rows that it ends with.
ENDS: dict[str, tuple[str, str, tuple[str, ...], Callable[[Sequence[Change]], list[str]]]] = {
    "values in order": (
        "SELECT c, LISTAGG(a), FIRST_VALUE(a), LAST_VALUE(a), ARRAY_AGG(a) FROM {} GROUP BY c",
        "c INT, l STRING, f STRING, z STRING, r ARRAY<STRING>",
        (),
        of_groups,
    ),
    "a table with another key": ABOVE["a table with another key"],
}


def random_source(rng: random.Random) -> tuple[str, str, list[Message], list[Change]]:
    """A table, the query of it, its messages, and the changes of id, c and a. Each message has a text of its own, which
    grows, so that nothing is as it was before: what changes there and back within a batch has not changed."""
    if rng.random() < 0.5:
        keyed = [
            (kind, (*row[:2], f"{at:02d}" if row[2] or kind == "+U" else None))
            for at, (kind, row) in enumerate(upserts(rng))
        ]
        return "u", "u", keyed, normalized(keyed)
    messages = added(rng)
    source = rng.choice(["t", "t", "the last row of each id", "the first row of each id"])
    if source == "t":
        return "t", "t", messages, [(row, 1) for _, row in messages]
    query, changes = BELOW[source]
    return "t", query.join(("(SELECT id, c, a FROM ", ")")), messages, changes(messages)


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_what_goes_by_arrival_is_in_that_order_behind_steps_at_random(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    table, source, messages, changes = random_source(rng)
    steps = rng.sample([*STEPS], rng.randrange(3))
    if table == "u" and "groups" in steps:  # a group falls back to a text of before when its largest is taken back
        steps.remove("groups")
    for step in steps:
        source, changes = STEPS[step][0].format(source), [*STEPS[step][1](changes)]
    query, into, key, meant = ENDS[rng.choice([*ENDS])]
    tables = {table: messages}
    if " d" in source:
        tables["d"] = [("+U", (each, 0)) for each in IN_D] * 2
    for number, way in enumerate(rng.sample(MORE_WAYS, 2)):
        found = rows_of(f"INSERT INTO o {query.format(source)}", into, tables, way, tmp_path / str(number), key)
        assert found == sorted(meant(changes)), (source, way)


# --- windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    "windows",
    [
        "TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
        "HOP(TABLE w, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' MINUTE)",
        "SESSION(TABLE w PARTITION BY c, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    ],
)
def test_lists_of_windows_are_in_the_order_of_arrival(windows: str, way: Way, tmp_path: Path) -> None:
    rows = [("+U", (number, 1, f"a{number}", f"2026-01-01 10:00:0{number}")) for number in range(1, 7)]
    query = (
        f"INSERT INTO o SELECT c, LISTAGG(a), FIRST_VALUE(a) FROM TABLE({windows}) GROUP BY c, window_start, window_end"
    )

    found = rows_of(query, "c INT, l STRING, f STRING", {"w": rows}, way, tmp_path)
    assert found == ["[1, a1,a2,a3,a4,a5,a6, a1]"]


SESSION = """INSERT INTO o SELECT c, LISTAGG(a), FIRST_VALUE(a), LAST_VALUE(a) FROM TABLE(
    SESSION(TABLE {} PARTITION BY c, DESCRIPTOR(ts), INTERVAL '100' SECOND)) GROUP BY c, window_start, window_end"""


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_rows_of_a_session_are_in_the_order_of_time_and_those_of_one_time_as_they_arrived(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    table = rng.choice("ew")
    messages: list[Message] = []
    latest = 60
    for at in range(rng.randrange(2, 30)):
        latest += rng.choice([0, 0, 0, 0, 0, 1, 3, 300])
        second = latest - (rng.randrange(2) if table == "e" else 0)  # as late as the watermark lets rows be
        time = f"2026-01-01 {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        messages.append(("+U" if table == "w" else "+I", (at, rng.randrange(2), f"{at:02d}", time)))

    def seconds(row: Row) -> int:
        return 3600 * int(row[3][11:13]) + 60 * int(row[3][14:16]) + int(row[3][17:])

    sessions: dict[int, list[list[Row]]] = {0: [], 1: []}
    for _, row in sorted(messages, key=lambda each: seconds(each[1])):
        own = sessions[row[1]]
        if not own or seconds(row) - seconds(own[-1][-1]) > 100:
            own.append([])
        own[-1].append(row)
    texts = [(c, [row[2] for row in rows]) for c, own in sessions.items() for rows in own]
    meant = sorted(f"[{c}, {joined(each)}, {each[0]}, {each[-1]}]" for c, each in texts)

    for number, way in enumerate(rng.sample(MORE_WAYS, 2)):
        into = "c INT, l STRING, f STRING, z STRING"
        found = rows_of(SESSION.format(table), into, {table: messages}, way, tmp_path / str(number))
        assert found == meant, way


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_first_of_rows_of_one_time_is_that_which_arrived_first(way: Way, tmp_path: Path) -> None:
    rows = [("+I", (number % 2, number, f"a{number}", "2026-01-01 10:00:00")) for number in range(6)]
    both = "(SELECT * FROM e WHERE c < 4 UNION ALL SELECT * FROM e WHERE c >= 4)"
    numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts {{}}) AS n FROM {both}"

    for order, meant in (("ASC", ["[0, a0]", "[1, a1]"]), ("DESC", ["[0, a4]", "[1, a5]"])):
        query = f"INSERT INTO o SELECT id, a FROM ({numbered.format(order)}) WHERE n = 1"
        assert rows_of(query, "id INT, a STRING", {"e": rows}, way, tmp_path / order) == meant


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_rows_of_closed_windows_are_in_the_order_of_time(way: Way, tmp_path: Path) -> None:
    """Of windows that close in one batch, too."""
    rows = [("+I", (number % 3, 1, f"a{number}", f"2026-01-01 10:0{number}:00")) for number in range(9)]
    windows = "TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    closed = f"SELECT id, MAX(a) AS a FROM {windows} GROUP BY id, window_start, window_end"

    found = rows_of(f"INSERT INTO o SELECT LISTAGG(a) FROM ({closed})", "l STRING", {"e": rows}, way, tmp_path)
    assert found == ["[" + ",".join(f"a{number}" for number in range(9)) + "]"]
