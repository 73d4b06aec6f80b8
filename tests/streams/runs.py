"""Runs a case on a broker: makes its topics, writes what it reads, and reads what it has written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from kafka.admin import KafkaAdminClient

from tests.spark.conftest import Topics
from tests.streams.cases import FIRST, Case, result


def run(case: Case, bootstrap: str, call: Callable[[str, str], str]) -> dict[str, Any]:
    """What ``call`` of the program's name and the prefix of its topics printed, and the records of each topic that it
    has written."""
    prefix = f"{case.name}-{uuid.uuid4().hex[:8]}-"
    wanted = {
        prefix + name: {"num_partitions": case.partitions.get(name, 1), "replication_factor": 1}
        for name in {**case.given, **dict.fromkeys(case.made)}
    }
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(wanted)
        admin.wait_for_topics(list(wanted), 60_000)
    _fill(case, bootstrap, prefix)
    printed = call(case.name, prefix)
    topics = Topics(bootstrap)
    records = {
        name: result(topics.read(prefix + name), prefix, placed=case.partitions.get(name, 1) > 1) for name in case.made
    }
    return {"printed": printed.replace(prefix, "").splitlines(), "records": records}


def _fill(case: Case, bootstrap: str, prefix: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for name, records in case.given.items():
        for number, each in enumerate(records):
            stamp = FIRST + 1000 * number
            producer.produce(
                prefix + name, each.value, each.key, each.partition, headers=[("h", b"x")], timestamp=stamp
            )
    assert producer.flush(60) == 0
