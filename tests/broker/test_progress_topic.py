"""The settings without which a progress topic loses progress in silence (rule "progress topics are durable")."""

from __future__ import annotations

import uuid

import pytest
from kafka.protocol.admin import DescribeConfigsRequest

from penstock.errors import KafkaError
from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for


@pytest.fixture
def session(kafka):
    return session_for(ClientConfig.from_properties(kafka.client_settings()))


def own_settings(session, topic):
    """What is set at the topic itself, whatever brokers have as default."""
    Resource = DescribeConfigsRequest.DescribeConfigsResource
    answer = session.ask_any(
        "describing a topic",
        lambda: DescribeConfigsRequest(resources=[Resource(resource_type=2, resource_name=topic)]),
        lambda answer: answer,
    )
    return {each.name: each.value for each in answer.results[0].configs if each.config_source == 1}


@pytest.mark.rule("progress topics are durable")
def test_a_progress_topic_is_made_to_keep_what_was_committed(session):
    name = f"progress-{uuid.uuid4().hex[:8]}"
    ensure_progress_topic(session, name)
    assert own_settings(session, name).items() >= {
        ("cleanup.policy", "compact"),
        ("unclean.leader.election.enable", "false"),
    }


@pytest.mark.parametrize(
    ("setting", "value", "wanted", "harm"),
    [
        ("cleanup.policy", "delete", "compact", "deletes progress"),
        ("unclean.leader.election.enable", "true", "false", "may elect a leader that lacks committed progress"),
    ],
)
@pytest.mark.rule("progress topics are durable")
def test_a_progress_topic_that_loses_progress_is_refused(session, topic, setting, value, wanted, harm):
    name = topic(1, configs={"cleanup.policy": "compact", setting: value})
    with pytest.raises(KafkaError) as raised:
        ensure_progress_topic(session, name)
    assert f"progress topic '{name}' has {setting}={value}, which {harm}" in str(raised.value)
    assert f"--add-config {setting}={wanted}" in str(raised.value)
