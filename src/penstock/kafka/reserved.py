"""Topics that are not for tables to write: those in which Kafka and penstock keep their own state."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # options are checked without the client
    from penstock.kafka.session import Session

#: Topics of Kafka's own, which brokers call internal once they are there. Some take writes from clients all the same.
_KAFKA = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})
#: Begins the names of penstock's own.
_PENSTOCK = "__penstock"


def is_reserved(topic: str) -> bool:
    """Whether a topic is Kafka's or penstock's own, by its name. A job may call its progress topic otherwise, and
    brokers may have further internal topics: see :attr:`penstock.kafka.session.TopicInfo.internal`."""
    return topic in _KAFKA or topic.startswith(_PENSTOCK)


def is_out_of_reach(session: Session, topic: str, progress_topics: Collection[str]) -> bool:
    """Whether no table of a job with these progress topics may write ``topic``: reserved, the job's own, or internal by
    what the cluster says."""
    return topic in progress_topics or is_reserved(topic) or session.topic(topic).internal
