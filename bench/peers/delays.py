"""The records of the latency of a job that computes: JSON, through a filter, to JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable


class FilteredJson:
    """Documents with a number, all of which pass the filter."""

    def statements(self, bootstrap: str, source: str, sink: str) -> str:
        """A job with an expression."""
        kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'"
        columns = "number BIGINT, note STRING"
        return f"""
            CREATE TABLE src ({columns}) WITH (
              {kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset');
            CREATE TABLE snk ({columns}) WITH ({kafka}, 'topic' = '{sink}',
              'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sink}');
            INSERT INTO snk SELECT number, UPPER(note) FROM src WHERE number >= 0;
            """

    def value(self, number: int) -> bytes:
        """A document of about 100 bytes."""
        return f'{{"number":{number},"note":"{"x" * 75}"}}'.encode()

    def find_answered(self, value: bytes) -> Iterable[int]:
        """The number in the result."""
        return (json.loads(value)["number"],)
