"""Topics that are not for tables to write: those in which Kafka and penstock keep their own state."""

from __future__ import annotations

__all__ = ["is_reserved"]

#: Topics of Kafka's own, which brokers call internal once they are there. Some take writes from clients all the same.
_KAFKA = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})
#: Begins the names of penstock's own.
_PENSTOCK = "__penstock"


def is_reserved(topic: str) -> bool:
    """Whether a topic is Kafka's or penstock's own, by its name. A job may call its progress topic otherwise, and
    brokers may have further internal topics: see :attr:`penstock.kafka.session.TopicInfo.internal`."""
    return topic in _KAFKA or topic.startswith(_PENSTOCK)
