"""Topics that tables must not write: those with the state of Kafka and penstock."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # options are checked without the client
    from penstock.kafka.session import Session

#: Kafka's own topics, which brokers report as internal once they exist. Some accept writes from clients nevertheless.
_KAFKA = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})
#: The prefix of penstock's own topics.
_PENSTOCK = "__penstock"


def is_reserved(topic: str) -> bool:
    """Whether a topic is Kafka's or penstock's own, by its name. A job's progress topic may have another name, and
    brokers may have more internal topics: see :attr:`penstock.kafka.session.TopicInfo.internal`."""
    return topic in _KAFKA or topic.startswith(_PENSTOCK)


def is_out_of_reach(session: Session, topic: str, progress_topics: Collection[str]) -> bool:
    """Whether the tables of a job with these progress topics must not write ``topic``: it is reserved, one of these
    progress topics, or internal to the cluster."""
    return topic in progress_topics or is_reserved(topic) or session.topic(topic).internal
