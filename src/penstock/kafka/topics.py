"""Topics and brokers: listing and creating topics, settings, and the features of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from penstock.deadline import Deadline
from penstock.errors import KafkaError
from penstock.kafka.faults import Action, KafkaFault, check_code, fault_from_code
from penstock.kafka.reserved import is_reserved
from penstock.kafka.session import Session, TopicInfo
from penstock.options import java_pattern

_TOPIC, _BROKER = 2, 4
#: A type of resource, and a name.
_Resource = tuple[int, str]
#: How long to wait for answers that are not essential.
_OPTIONAL_MS = 3000
_ALREADY_EXISTS = 36
#: The most topics that a message names.
_MOST_SHOWN = 3


def cluster_id(session: Session) -> str:
    """The id of the cluster; it does not depend on the bootstrap address."""
    session.brokers()
    if session.cluster_id is None:
        session.metadata([], session.deadline())
    return session.cluster_id or ""


def find_matching_topics(session: Session, pattern: str) -> dict[str, TopicInfo]:
    """Topics whose whole name matches a regular expression, as with Java's ``Pattern.matches``.

    Leaves out Kafka's internal topics and penstock's own (progress).
    """
    try:
        compiled = java_pattern(pattern)
    except ValueError as error:
        raise KafkaError(f"topic pattern '{pattern}' is not a valid regular expression: {error}") from None
    return {
        name: info
        for name, info in session.all_topics().items()
        if compiled.fullmatch(name) and not info.internal and not is_reserved(name)
    }


def create_topic(
    session: Session,
    name: str,
    *,
    partitions: int = -1,
    replication: int = -1,
    configs: Mapping[str, str] | None = None,
    deadline: Deadline | None = None,
) -> UUID | None:
    """Create a topic and wait until it has leaders; None if it existed already. -1 means the brokers' default."""
    deadline = deadline or session.deadline()

    settings = [_Topic.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    (created,) = _create(session, [_make_topic(name, partitions, replication, settings)], deadline)
    infos = _await_leaders(session, [name], deadline)
    return infos[name].topic_id if created else None


def create_topics(session: Session, names: Collection[str], deadline: Deadline | None = None) -> None:
    """Create topics with the settings of the brokers, as far as they do not exist, and wait until they have leaders.
    Raises KafkaError; some may have been created then."""
    deadline, left = deadline or session.deadline(), sorted(names)
    while left:
        some, left = left[:_MOST_TOPICS], left[_MOST_TOPICS:]
        _create(session, [_make_topic(name) for name in some], deadline)
        _await_leaders(session, some, deadline)


_Topic = CreateTopicsRequest.CreatableTopic
#: The most topics of one request.
_MOST_TOPICS = 200


def _make_topic(name: str, partitions: int = -1, replication: int = -1, settings: Sequence[Any] = ()) -> Any:
    return _Topic(
        name=name, num_partitions=partitions, replication_factor=replication, assignments=[], configs=[*settings]
    )


def _create(session: Session, topics: Sequence[Any], deadline: Deadline) -> list[bool]:
    """Whether each was created; the others exist already."""
    label = f"creating {_show_topics([each.name for each in topics])}"

    def build() -> Any:
        return CreateTopicsRequest(topics=[*topics], timeout_ms=session.config.request_timeout_ms, validate_only=False)

    def check(answer: Any) -> list[bool]:
        for topic in answer.topics:
            if topic.error_code != _ALREADY_EXISTS:
                detail = topic.error_message or ""
                check_code(topic.error_code, f"topic '{topic.name}': {detail}" if len(topics) > 1 else detail, "Create")
        existing = {topic.name for topic in answer.topics if topic.error_code == _ALREADY_EXISTS}
        return [each.name not in existing for each in topics]

    return session.ask_any(label, build, check, deadline)


def _await_leaders(session: Session, names: Sequence[str], deadline: Deadline) -> dict[str, TopicInfo]:
    """The topics, which exist, when all their partitions have leaders."""

    def require_leaders() -> dict[str, TopicInfo]:
        session.forget_topics(names)
        found = session.topics(names, deadline)
        for name in names:  # a busy broker may not know one for a while
            found[name] = found.get(name) or session.topic(name, deadline, exists=True)
            for each in found[name].partitions:
                session.partition(name, each.partition, deadline)
        return found

    return session.retrying(f"waiting for the leaders of {_show_topics(names)}", deadline, require_leaders)


def _show_topics(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_SHOWN]))
    more = len(names) - _MOST_SHOWN
    return f"topic {shown}" + (f" and {more} others" if more > 0 else "")


def read_topic_configs(
    session: Session, names: Iterable[str], keys: Iterable[str] | None = None, *, deadline: Deadline | None = None
) -> dict[str, dict[str, str]] | None:
    """Settings of topics (all of them without ``keys``); None if DescribeConfigs is not granted."""
    if not (resources := [(_TOPIC, name) for name in names]):
        return {}
    wanted = None if keys is None else list(keys)
    label = "reading settings of " + ", ".join(name for _, name in resources)
    found = session.ask_any(label, lambda: _describe_configs(resources, wanted), _read_configs, deadline)
    return None if found is None else {name: settings for (_, name), settings in found.items()}


def max_transaction_timeout_ms(session: Session, *, deadline: Deadline | None = None) -> int | None:
    """The smallest ``transaction.max.timeout.ms`` of the brokers; None if it may not be read (rule "timeouts fit the
    brokers").

    Asks all brokers at once, and leaves out those that do not answer within a few seconds: the setting is usually the
    same everywhere, and a broker that is down must not delay a start.
    """
    name = "transaction.max.timeout.ms"
    patience = session.deadline(min((deadline or session.deadline()).left * 1000, _OPTIONAL_MS))
    asked = [
        (node, session.send(_describe_configs([(_BROKER, str(node))], [name]), node))
        for node in session.brokers(deadline)
    ]
    values = []
    for node, answer in asked:
        try:
            found = _read_configs(session.wait(answer, patience, node))
        except KafkaFault:
            continue
        value = (found or {}).get((_BROKER, str(node)), {}).get(name)
        if value is None:
            return None
        values.append(int(value))
    return min(values, default=None)


def _describe_configs(resources: Iterable[_Resource], keys: list[str] | None) -> Any:
    Resource = DescribeConfigsRequest.DescribeConfigsResource
    named = [Resource(resource_type=type_, resource_name=name, configuration_keys=keys) for type_, name in resources]
    return DescribeConfigsRequest(resources=named)


def _read_configs(answer: Any) -> dict[_Resource, dict[str, str]] | None:
    found = {}
    for result in answer.results:
        if fault_from_code(result.error_code).action is Action.DENIED:
            return None
        check_code(result.error_code, f"{result.resource_name}: {result.error_message or ''}")
        settings = {each.name: each.value for each in result.configs if each.value is not None}
        found[int(result.resource_type), str(result.resource_name)] = settings
    return found


def read_finalized_features(session: Session, *, deadline: Deadline | None = None) -> dict[str, int]:
    """The levels of the cluster's finalized features (ApiVersions v3, KIP-584); none on brokers below 2.7."""

    def build() -> Any:
        return ApiVersionsRequest(client_software_name="penstock", client_software_version="1", max_version=3)

    def check(answer: Any) -> dict[str, int]:
        check_code(answer.error_code)
        return {each.name: each.max_version_level for each in answer.finalized_features or ()}

    return session.ask_any("asking for the cluster's features", build, check, deadline)


def transaction_version(session: Session, *, deadline: Deadline | None = None) -> int:
    """The finalized ``transaction.version``: 2 since Kafka 4.0 unless it was not raised, 0 if it is not known."""
    return read_finalized_features(session, deadline=deadline).get("transaction.version", 0)
