"""Topics and brokers: listing, creating, settings, and what the cluster as a whole can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from penstock.deadline import Deadline
from penstock.errors import KafkaError
from penstock.kafka.faults import Action, KafkaFault, fault_of
from penstock.kafka.reserved import is_reserved
from penstock.kafka.session import Session, TopicInfo
from penstock.options import java_pattern

_TOPIC, _BROKER = 2, 4
#: A type of resource, and a name.
_Resource = tuple[int, str]
#: How long brokers are waited for that are asked what is only good to know.
_OPTIONAL_MS = 3000
_ALREADY_EXISTS = 36


@dataclass(frozen=True)
class Feature:
    """A feature level that the cluster has finalized."""

    name: str
    level: int


def cluster_id(session: Session, *, deadline: Deadline | None = None) -> str:
    """The id of the cluster, the same whichever bootstrap address was used."""
    session.brokers(deadline)
    if session.cluster_id is None:
        session.metadata([], deadline or session.deadline())
    return session.cluster_id or ""


def matching_topics(session: Session, pattern: str, *, deadline: Deadline | None = None) -> dict[str, TopicInfo]:
    """Topics whose whole name matches a regular expression, as Java's ``Pattern.matches``.

    Kafka's internal topics and penstock's own (progress) are left out.
    """
    try:
        compiled = java_pattern(pattern)
    except ValueError as error:
        raise KafkaError(f"topic pattern '{pattern}' is no regular expression: {error}") from None
    topics = session.all_topics(deadline)
    return {
        name: info
        for name, info in topics.items()
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
    """Create a topic and wait until it has leaders; None when it existed already. -1 means the brokers' default."""
    deadline = deadline or session.deadline()

    def build() -> Any:
        Topic = CreateTopicsRequest.CreatableTopic
        settings = [Topic.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        topic = Topic(
            name=name, num_partitions=partitions, replication_factor=replication, assignments=[], configs=settings
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=session.config.request_timeout_ms, validate_only=False)

    def check(answer: Any) -> bool:
        topic = answer.topics[0]
        fault = fault_of(topic.error_code)
        if fault.code == _ALREADY_EXISTS:
            return False
        if fault.action is not Action.NONE:
            raise KafkaFault(fault.lacking("Create"), topic.error_message or "")
        return True

    created = session.ask_any(f"creating topic '{name}'", build, check, deadline)

    def led() -> TopicInfo:
        session.forget_topics([name])
        info = session.topic(name, deadline)
        for each in info.partitions:
            session.partition(name, each.partition, deadline)
        return info

    info = session.retrying(f"waiting for the leaders of topic '{name}'", deadline, led)
    return info.topic_id if created else None


def topic_configs(
    session: Session, names: Iterable[str], keys: Iterable[str] | None = None, *, deadline: Deadline | None = None
) -> dict[str, dict[str, str]] | None:
    """Settings of topics (all of them without ``keys``); None when DescribeConfigs is not granted."""
    resources = [(_TOPIC, name) for name in names]
    found = _configs(session, resources, keys, deadline)
    return None if found is None else {name: settings for (_, name), settings in found.items()}


def max_transaction_timeout_ms(session: Session, *, deadline: Deadline | None = None) -> int | None:
    """The brokers' ``transaction.max.timeout.ms``, the smallest of them; None when it may not be read (rule 19).

    All brokers are asked at once, and those that do not answer within a few seconds are left out: the setting is good
    to know, and a broker that is down must not hold up a start. Mostly it is the same everywhere.
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
            found = _described(session.wait(answer, patience, node))
        except KafkaFault:
            continue
        value = (found or {}).get((_BROKER, str(node)), {}).get(name)
        if value is None:
            return None
        values.append(int(value))
    return min(values, default=None)


def _configs(
    session: Session, resources: list[_Resource], keys: Iterable[str] | None, deadline: Deadline | None
) -> dict[_Resource, dict[str, str]] | None:
    if not resources:
        return {}
    wanted = None if keys is None else list(keys)
    what = "reading settings of " + ", ".join(name for _, name in resources)
    return session.ask_any(what, lambda: _describe_configs(resources, wanted), _described, deadline)


def _describe_configs(resources: Iterable[_Resource], keys: list[str] | None) -> Any:
    Resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            Resource(resource_type=kind, resource_name=name, configuration_keys=keys) for kind, name in resources
        ]
    )


def _described(answer: Any) -> dict[_Resource, dict[str, str]] | None:
    found = {}
    for result in answer.results:
        fault = fault_of(result.error_code)
        if fault.action is Action.DENIED:
            return None
        if fault.action is not Action.NONE:
            raise KafkaFault(fault, f"{result.resource_name}: {result.error_message or ''}")
        settings = {each.name: each.value for each in result.configs if each.value is not None}
        found[int(result.resource_type), str(result.resource_name)] = settings
    return found


def finalized_features(session: Session, *, deadline: Deadline | None = None) -> tuple[Feature, ...]:
    """Features that the cluster has finalized (ApiVersions v3, KIP-584); none on brokers below 2.7."""

    def build() -> Any:
        return ApiVersionsRequest(client_software_name="penstock", client_software_version="1", max_version=3)

    def check(answer: Any) -> tuple[Feature, ...]:
        fault = fault_of(answer.error_code)
        if fault.action is not Action.NONE:
            raise KafkaFault(fault)
        return tuple(Feature(each.name, each.max_version_level) for each in answer.finalized_features or ())

    return session.ask_any("asking for the cluster's features", build, check, deadline)


def transaction_version(session: Session, *, deadline: Deadline | None = None) -> int:
    """The finalized ``transaction.version``: 2 from Kafka 4.0 on where it was raised, 0 where it is not known."""
    features = finalized_features(session, deadline=deadline)
    return next((each.level for each in features if each.name == "transaction.version"), 0)
