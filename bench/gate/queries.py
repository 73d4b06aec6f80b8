"""What is asked of every side: queries from JSON into an upsert-kafka table that is written exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.records import SCHEMA

_CHANGES = "id BIGINT, user_id BIGINT, amount DOUBLE"
#: The source option of jobs that end.
BOUNDED = {"scan.bounded.mode": "latest-offset"}
_TOTALS = "n BIGINT, s DOUBLE"


@dataclass(frozen=True)
class Source:
    """A topic as a table."""

    table: str
    columns: str
    topic: str
    format: str = "json"

    def statement(self, options: Mapping[str, str]) -> str:
        """CREATE TABLE with options beside those of the topic and its format, which upsert tables have of their own."""
        own = {} if options["connector"] == "upsert-kafka" else {"topic": self.topic, "format": self.format}
        return _table(self.table, self.columns, options | own)


@dataclass(frozen=True)
class Query:
    """A query over ``records`` messages of its sources. ``key`` is the primary key of its result.

    ``total`` is the sum of the column ``n`` over the rows of the result, which shows that no record is missing;
    without such a column it is the number of rows.
    """

    name: str
    sources: Sequence[Source]
    records: int
    key: str
    result: str
    select: str
    total: int

    def statements(
        self, bootstrap: str, target: str, source_options: Mapping[str, str], sink_options: Mapping[str, str]
    ) -> list[str]:
        """The job that writes the topic ``target``, in SQL that Flink and penstock share."""
        kafka = {"properties.bootstrap.servers": bootstrap}
        earliest = {"connector": "kafka", "scan.startup.mode": "earliest-offset"}
        made = [each.statement({**kafka, **earliest, **source_options}) for each in self.sources]
        sink = {**upserts(target), **kafka, **sink_options}
        return [
            *made,
            _table("snk", f"{self.result}, PRIMARY KEY ({self.key}) NOT ENFORCED", sink),
            f"INSERT INTO snk {self.select}",
        ]


def upserts(target: str) -> dict[str, str]:
    """The options of a table in the topic ``target`` that is written exactly once."""
    return {
        "connector": "upsert-kafka",
        "topic": target,
        "key.format": "json",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": target,
    }


def script(settings: Mapping[str, str], statements: Sequence[str]) -> str:
    """Settings and statements as one text."""
    return "".join(f"SET '{key}' = '{text}';\n" for key, text in settings.items()) + ";\n".join(statements) + ";\n"


def groups(name: str, topic: str, column: str, records: int) -> Query:
    """COUNT and SUM by a column of records that are only added."""
    return Query(
        name,
        [Source("src", SCHEMA, topic)],
        records,
        column,
        f"{column} BIGINT, {_TOTALS}",
        f"SELECT {column}, COUNT(*), SUM(amount) FROM src GROUP BY {column}",
        records,
    )


def changed_groups(name: str, topic: str, records: int) -> Query:
    """COUNT and SUM over changes, of which each second one moves a row to another group."""
    return Query(
        name,
        [Source("src", _CHANGES, topic, "debezium-json")],
        records,
        "user_id",
        f"user_id BIGINT, {_TOTALS}",
        "SELECT user_id, COUNT(*), SUM(amount) FROM src GROUP BY user_id",
        records // 2,
    )


def join(name: str, facts: str, users: str, records: int) -> Query:
    """Facts with the names of their users; half of the records are users."""
    return Query(
        name,
        [Source("facts", _CHANGES, facts), Source("users", "user_id BIGINT, name STRING", users)],
        records,
        "id",
        "id BIGINT, user_id BIGINT, amount DOUBLE, name STRING",
        "SELECT f.id, f.user_id, f.amount, u.name FROM facts AS f JOIN users AS u ON f.user_id = u.user_id",
        records // 2,
    )


def _table(name: str, columns: str, options: Mapping[str, str]) -> str:
    clause = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({clause})"
