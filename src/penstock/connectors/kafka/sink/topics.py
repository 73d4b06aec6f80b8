"""The topics that a table may write."""

from __future__ import annotations

from collections.abc import Collection

from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.errors import OptionsError, Problem
from penstock.kafka.session import Session


def find_writable_topics(
    session: Session, spec: KafkaSinkSpec, progress_topics: Collection[str], *, create: bool
) -> set[str]:
    """The topics that a table names. ``create`` lets the brokers create them, if they are configured to. Raises
    KafkaError for one that does not exist, and OptionsError for one that no table may write."""
    for name in spec.topics:
        topic = session.topic(name, create=create)
        if topic.internal or name in progress_topics:
            role = "an internal topic of Kafka" if topic.internal else "the job's own progress topic"
            reason = f"'{name}' is {role}, which no table may write"
            raise OptionsError((Problem(reason, "topic", f"table '{spec.table}'", "name another topic"),))
    return set(spec.topics)
