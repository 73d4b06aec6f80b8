"""The batch that Spark is at, as Spark itself has it: what a query reads is what it has in memory, not in its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["Planned", "planned"]

#: The property of the thread that runs a query's batches which holds the query's id.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class Planned:
    """Where a batch begins and ends, by source in the order of Spark's log; ``start`` is empty for the first batch."""

    start: tuple[dict[str, Any], ...]
    end: tuple[dict[str, Any], ...]


def planned(spark: SparkSession) -> Planned:
    """The batch that the calling thread, which is one of ``foreachBatch``, was given."""
    session: Any = spark._jsparkSession
    query = session.streams().get(spark.sparkContext.getLocalProperty(_QUERY_ID)).streamingQuery()
    listed = query.sources()
    sources = [listed.apply(index) for index in range(listed.size())]
    return Planned(
        tuple(_positions(query.getStartOffsetsOfLatestBatch(), sources)),
        tuple(_positions(query.availableOffsets(), sources)),
    )


def _positions(progress: Any, sources: list[Any]) -> Iterator[dict[str, Any]]:
    for source in sources:
        offset = progress.get(source)
        if offset.isDefined():
            yield json.loads(offset.get().json())
