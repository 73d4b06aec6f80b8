"""What is asked of every side: jobs without state, and Nexmark's queries, each from Kafka to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gate.queries import upserts
from bench.nexmark.queries import TABLES, is_upsert, statements
from bench.records import SCHEMA

_HALF = "category_id % 2 = 0"
#: How Spark does a work; it has no exactly-once sink, and cannot do Nexmark's queries from this SQL.
_BY_SPARK = {"read": "read", "read_json_filter": "filter", "copy_alo": "copy"}


@dataclass(frozen=True)
class Work:
    """Something to do with ``records`` messages of the topics ``sources``, by table."""

    name: str
    records: int
    sources: Mapping[str, str]

    @property
    def keyed(self) -> bool:
        """Whether rows of the result replace one another."""
        return self._query is not None and is_upsert(self._query)

    @property
    def written(self) -> bool:
        """Whether the result is in a topic."""
        return not self.name.startswith("read")

    @property
    def _query(self) -> str | None:
        return self.name.removeprefix("nexmark_") if self.name.startswith("nexmark_") else None

    def statements(self, bootstrap: str, target: str, sink: Mapping[str, str]) -> Sequence[str]:
        """The job in SQL that Flink and penstock share. ``sink`` has options of the target for one of them."""
        kafka = {"connector": "kafka", "properties.bootstrap.servers": bootstrap}
        source = {**kafka, "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
        if self._query is None:
            return self._plain_statements(kafka, source, target, sink)
        tables = {table: {**source, "topic": self.sources.get(table, "none"), "format": "json"} for table in TABLES}
        answer = upserts(target) | kafka if self.keyed else kafka | _exactly_once(target) | {"format": "json"}
        answer["connector"] = "upsert-kafka" if self.keyed else "kafka"
        return statements(self._query, {**tables, "answer": answer | sink, "side_input": source})

    def _plain_statements(
        self, kafka: Mapping[str, str], source: Mapping[str, str], target: str, sink: Mapping[str, str]
    ) -> Sequence[str]:
        json = "json" in self.name
        columns, form = (SCHEMA, "json") if json else ("v BYTES", "raw")
        into: dict[str, str] = {"connector": "blackhole"}
        if self.written:
            into = {**kafka, **_exactly_once(target), "format": form, **sink}
        if self.name.endswith("_alo"):
            into |= {"sink.delivery-guarantee": "at-least-once"}
            del into["sink.transactional-id-prefix"]
        return [
            _table("src", columns, {**source, "topic": self.sources["src"], "format": form}),
            _table("snk", columns, into),
            f"INSERT INTO snk SELECT * FROM src{f' WHERE {_HALF}' if json else ''}",
        ]

    def by_spark(self, bootstrap: str, target: str, folder: str) -> dict[str, Any] | None:
        """The task of Spark's side; None for works that it cannot do."""
        how = _BY_SPARK.get(self.name)
        if how is None:
            return None
        return {
            "how": how,
            "provider": "",
            "bootstrap": bootstrap,
            "source": self.sources["src"],
            "target": target,
            "columns": SCHEMA,
            "key": _HALF,
            "per_batch": 0,
            "folder": folder,
        }


#: Those without state.
PLAIN = ("read", "read_json_filter", "copy_alo", "copy_eo", "json_sql_json_eo")


def _exactly_once(target: str) -> dict[str, str]:
    return {"topic": target, "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": target}


def _table(name: str, columns: str, options: Mapping[str, str]) -> str:
    clause = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({clause})"
