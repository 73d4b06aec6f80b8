"""The progress topic of a cluster: created if it is missing, and checked."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from penstock.deadline import Deadline
from penstock.delivery import Claim, Progress
from penstock.errors import AuthorizationError, CheckpointError, KafkaError, RetriableError
from penstock.kafka import partitioner
from penstock.kafka.progress import records
from penstock.kafka.progress.records import DEFAULT_MAX_MESSAGE_BYTES, Seal, encode_record, encode_value
from penstock.kafka.record_batches import RecordTooLargeError
from penstock.kafka.session import Session, TopicInfo
from penstock.kafka.topics import create_topic, read_topic_configs

TOPIC = "__penstock_progress"
#: Why a progress topic with another id cannot be used.
RECREATED = "it was deleted and created again, and the record of published batches is lost with it"


@dataclass(frozen=True)
class ProgressTopic:
    """The progress topic of a cluster. ``warnings`` name settings that make it less durable than possible. ``seal``
    marks the records of a query; without it all records are believed, which is for display only."""

    name: str
    topic_id: UUID | None
    partitions: int
    warnings: tuple[str, ...] = ()
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    seal: Seal | None = None
    #: A bootstrap address, for the commands in messages.
    address: str = "HOST:PORT"

    @property
    def place(self) -> str:
        """The topic, for messages."""
        return f"progress topic '{self.name}'"

    def partition_of(self, transactional_id: str) -> int:
        """The partition of an id's records: one for all of them, so that their order is known."""
        key = pa.array([transactional_id.encode()], pa.binary())
        return int(partitioner.by_key(key, self.partitions, fallback=0)[0])


def ensure_progress_topic(
    session: Session, name: str = TOPIC, *, partitions: int = 8, topic_id: UUID | None = None
) -> ProgressTopic:
    """The progress topic: created if it is missing, else verified (rule "progress topics are durable").

    ``topic_id`` is the id in the checkpoint. Raises CheckpointError if the topic has another one, KafkaError if it
    would lose progress (not compacted), and an error with the command to run if it is missing and may not be created.
    """
    deadline = session.deadline()
    replication = min(3, len(session.brokers(deadline)))
    try:
        info = session.topics([name], deadline).get(name)
        if info is None and topic_id is not None and (info := _find_elsewhere(session, name, deadline)) is None:
            raise CheckpointError(
                f"progress topic '{name}' is gone, and the record of published batches is lost with it; its id in the "
                f"checkpoint is {topic_id}. Check the cluster, or continue with --adopt-progress"
            )
        if info is None:
            configs = _topic_settings(replication)
            create_topic(
                session, name, partitions=partitions, replication=replication, configs=configs, deadline=deadline
            )
            info = session.topic(name, deadline)
    except RetriableError:
        raise
    except KafkaError as error:
        options = " ".join(f"--config {key}={value}" for key, value in _topic_settings(replication).items())
        hint = (
            f"progress topic '{name}' is missing, or its use is not allowed. To create it, run: kafka-topics.sh "
            f"--bootstrap-server {session.config.bootstrap_servers[0]} --create --topic {name} --partitions "
            f"{partitions} --replication-factor {replication} {options}; and grant Read, Write and Describe on it"
        )
        cls = AuthorizationError if isinstance(error, AuthorizationError) else KafkaError
        raise cls(f"{error}. {hint}") from error
    if topic_id is not None and info.topic_id is not None and info.topic_id != topic_id:
        raise CheckpointError(
            f"progress topic '{name}' has id {info.topic_id}, and {topic_id} in the checkpoint: {RECREATED}. Check the "
            "cluster, or continue with --adopt-progress"
        )
    keys = ["cleanup.policy", "unclean.leader.election.enable", "min.insync.replicas", "max.message.bytes"]
    settings = (read_topic_configs(session, [name], keys, deadline=deadline) or {}).get(name, {})
    address = session.config.bootstrap_servers[0]
    for key, wanted, harm in _VITAL:
        if settings.get(key, wanted) != wanted:
            raise KafkaError(
                f"progress topic '{name}' has {key}={settings[key]}, which {harm}; run kafka-configs.sh "
                f"--bootstrap-server {address} --alter --topic {name} --add-config {key}={wanted}"
            )
    warnings = []
    fewest = min(len(each.replicas) for each in info.partitions)
    if fewest < replication:
        warnings.append(f"progress topic '{name}' has {fewest} replicas; {replication} are possible")
    if fewest >= 3 and settings.get("min.insync.replicas") == "1":
        warnings.append(f"progress topic '{name}' has min.insync.replicas=1; 2 are safer")
    largest = int(settings.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
    return ProgressTopic(name, info.topic_id, len(info.partitions), tuple(warnings), largest, address=address)


def _find_elsewhere(session: Session, name: str, deadline: Deadline) -> TopicInfo | None:
    """A topic that one broker did not know, perhaps because it had just restarted; None if it does not exist."""
    session.forget_topics([name])
    try:
        return session.topic(name, deadline)
    except RetriableError:
        raise
    except KafkaError as error:
        if any(session.known_epochs([name], deadline)):
            raise RetriableError(
                f"{error}. Another broker knows the topic: check that all brokers are healthy"
            ) from error
        return None


#: With other settings progress may be lost unnoticed, so that a batch is published twice.
_VITAL = (
    ("cleanup.policy", "compact", "deletes progress"),
    ("unclean.leader.election.enable", "false", "may elect a leader that lacks committed progress"),
)


def _topic_settings(replication: int) -> dict[str, str]:
    return {
        **{key: wanted for key, wanted, _ in _VITAL},
        "min.insync.replicas": "2" if replication >= 3 else "1",
        # Every batch writes a record, and every start reads them all: compact early and often.
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.1",
    }


def encode_progress(
    topic: ProgressTopic, transactional_id: str, record: Progress | Claim
) -> tuple[int, memoryview, int]:
    """An encoded batch of ``record``: partition, bytes, record count, the parameters of :meth:`Producer.submit`.

    Raises KafkaError for a record that is larger than the topic allows.
    """
    key, value = records.record_key(transactional_id, type(record)), encode_value(transactional_id, record, topic.seal)
    try:
        batch = encode_record(key, value, topic.partition_of(transactional_id), topic.max_message_bytes)
    except RecordTooLargeError as error:
        raise KafkaError(
            f"the progress record of transactional id '{transactional_id}' has {error.size} bytes, above the "
            f"max.message.bytes of topic '{topic.name}', which is {topic.max_message_bytes}: it holds two offsets for "
            f"each source partition. Run kafka-configs.sh --bootstrap-server {topic.address} --alter --topic "
            f"{topic.name} --add-config max.message.bytes={2 * error.size}, and start the job again"
        ) from None
    return batch.partition, batch.data, batch.count
