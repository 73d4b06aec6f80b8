"""The jobs whose checkpoints a former version has left, and their records.

Names of topics, jobs and identities are fixed: they are in the files of the state, which have checksums.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: The commit that wrote the checkpoints.
COMMIT = "73058812"
ARCHIVE = Path(__file__).with_name(f"checkpoints-{COMMIT}.tar.xz")
#: The rounds of :func:`records`, and how many of them it read.
ROUNDS, READ = 4, 3

ORDERS, PEOPLE = "former-orders", "former-people"
#: The partitions of the topics of sources.
SOURCES = {ORDERS: 2, PEOPLE: 1}
_SOURCES = """
CREATE TABLE orders (id BIGINT, who STRING, item STRING, amount DECIMAL(10, 2), at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('connector' = 'kafka', 'topic' = 'former-orders',
  'properties.bootstrap.servers' = '{broker}', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE people (who STRING, city STRING, PRIMARY KEY (who) NOT ENFORCED) WITH ('connector' = 'upsert-kafka',
  'topic' = 'former-people', 'properties.bootstrap.servers' = '{broker}', 'key.format' = 'json',
  'value.format' = 'json');
"""

#: The columns of each sink of the job ``steps``, which names the step that keeps its state, and its query.
STEPS = {
    "grouped": (
        "who STRING, orders BIGINT, total DECIMAL(38, 2), largest DECIMAL(10, 2), items BIGINT, "
        "PRIMARY KEY (who) NOT ENFORCED",
        "SELECT who, COUNT(*), SUM(amount), MAX(amount), COUNT(DISTINCT item) FROM orders GROUP BY who",
    ),
    "grouped_changes": (
        "city STRING, people BIGINT, first_one STRING, PRIMARY KEY (city) NOT ENFORCED",
        "SELECT city, COUNT(*), MIN(who) FROM people GROUP BY city",
    ),
    "windows": (
        "item STRING, ends TIMESTAMP(3), orders BIGINT, total DECIMAL(38, 2)",
        "SELECT item, window_end, COUNT(*), SUM(amount) "
        "FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY item, window_start, window_end",
    ),
    "sessions": (
        "who STRING, begins TIMESTAMP(3), ends TIMESTAMP(3), orders BIGINT",
        "SELECT who, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE orders PARTITION BY who, "
        "DESCRIPTOR(at), INTERVAL '36' SECOND)) GROUP BY who, window_start, window_end",
    ),
    "best_in_window": (
        "ends TIMESTAMP(3), id BIGINT, amount DECIMAL(10, 2)",
        "SELECT window_end, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        "ORDER BY amount DESC) AS place FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE))) "
        "WHERE place = 1",
    ),
    "joined": (
        "id BIGINT, who STRING, city STRING",
        "SELECT o.id, o.who, p.city FROM orders AS o LEFT JOIN people AS p ON o.who = p.who",
    ),
    "deduplicated": (
        "who STRING, id BIGINT, PRIMARY KEY (who) NOT ENFORCED",
        "SELECT who, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY at DESC) AS place FROM orders) "
        "WHERE place = 1",
    ),
    "ranked": (
        "item STRING, place BIGINT, id BIGINT, PRIMARY KEY (item, place) NOT ENFORCED",
        "SELECT item, place, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY amount DESC) AS place "
        "FROM orders) WHERE place <= 2",
    ),
    "in_both": (
        "who STRING",
        "SELECT who FROM orders INTERSECT SELECT who FROM people",
    ),
    "materialized": (
        "city STRING, who STRING, PRIMARY KEY (city) NOT ENFORCED",
        "SELECT city, who FROM people",
    ),
    "sorted": (
        "id BIGINT, at TIMESTAMP(3)",
        "SELECT id, at FROM orders ORDER BY at",
    ),
}
#: The sinks that get changes without a key.
_CHANGES = {"joined", "in_both"}

#: What the job ``generated`` writes at least once: its state is named by its checkpoint alone.
GENERATED = (
    "k BIGINT, rows_of_k BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED",
    "SELECT MOD(id, 7), COUNT(*), SUM(id) FROM numbers GROUP BY MOD(id, 7)",
)
_NUMBERS = """
CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000');
"""

#: What the job ``two_targets`` writes to Kafka and to PostgreSQL. Its last batch was committed by PostgreSQL alone.
TWO_TARGETS = (
    "who STRING, orders BIGINT, PRIMARY KEY (who) NOT ENFORCED",
    "SELECT who, COUNT(*) FROM orders GROUP BY who",
)
_POSTGRES = """
CREATE TABLE in_postgres ({columns}) WITH ('connector' = 'postgres', 'url' = '{url}', 'table-name' = 'counts',
  'username' = '{user}', 'password' = '{password}');
"""


@dataclass(frozen=True)
class Database:
    """The address of a database, and who writes there."""

    url: str
    user: str
    password: str


def topic_of(job: str, sink: str) -> str:
    """The topic of a sink."""
    return f"{job}-{sink}"


def steps(broker: str, job: str = "steps") -> str:
    """The job ``steps``, or one with the same statements."""
    tables = "".join(_sink(broker, job, name, columns) for name, (columns, _) in STEPS.items())
    inserts = " ".join(f"INSERT INTO {name} {query};" for name, (_, query) in STEPS.items())
    return f"{_SOURCES.format(broker=broker)}{tables}EXECUTE STATEMENT SET BEGIN {inserts} END;"


def generated(broker: str, rows: int, job: str = "generated") -> str:
    """The job ``generated`` over this many rows."""
    columns, query = GENERATED
    sink = _sink(broker, job, "totals", columns, exactly_once=False)
    return f"{_NUMBERS.format(rows=rows)}{sink}INSERT INTO totals {query};"


def two_targets(broker: str, database: Database, job: str = "two_targets") -> str:
    """The job ``two_targets``."""
    columns, query = TWO_TARGETS
    postgres = _POSTGRES.format(columns=columns, url=database.url, user=database.user, password=database.password)
    tables = _SOURCES.format(broker=broker) + _sink(broker, job, "in_kafka", columns) + postgres
    return f"{tables}EXECUTE STATEMENT SET BEGIN INSERT INTO in_kafka {query}; INSERT INTO in_postgres {query}; END;"


def _sink(broker: str, job: str, name: str, columns: str, *, exactly_once: bool = True) -> str:
    given = {"properties.bootstrap.servers": broker, "topic": topic_of(job, name)}
    if "PRIMARY KEY" in columns:
        given |= {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
    else:
        given |= {"connector": "kafka", "format": "debezium-json" if name in _CHANGES else "json"}
    if exactly_once:
        given |= {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": f"tx-{job}"}
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({options});\n"


def records(number: int) -> Iterator[tuple[str, int, dict[str, str] | None, dict[str, object] | None]]:
    """The records of a round: their topics, partitions, keys and values."""
    for at in range(24):
        order = number * 24 + at
        person = order % 5
        minute, second = divmod(order * 7, 60)
        yield (
            ORDERS,
            person % 2,
            None,
            {
                "id": order,
                "who": f"p{person}",
                "item": "abc"[order * 5 % 3],
                "amount": f"{order * 37 % 101}.50",
                "at": f"2026-01-01 00:{minute:02}:{second:02}",
            },
        )
    for person in range(number, number + 3):
        yield PEOPLE, 0, {"who": f"p{person}"}, {"who": f"p{person}", "city": f"c{person * 10 + number}"}
    if number:
        yield PEOPLE, 0, {"who": f"p{number - 1}"}, None


def last_records() -> Iterator[tuple[str, int, None, dict[str, object]]]:
    """An order in each partition that closes all windows."""
    for partition in range(2):
        order = {"id": 9000 + partition, "who": f"p{partition}", "item": "d", "amount": "1.00"}
        yield ORDERS, partition, None, {**order, "at": "2026-01-02 00:00:00"}


def as_bytes(document: object) -> bytes | None:
    """The JSON of a key or a value; texts are JSON already, and None stays None."""
    if document is None:
        return None
    return (document if isinstance(document, str) else json.dumps(document)).encode()
