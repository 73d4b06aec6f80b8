from __future__ import annotations

import ssl

import kafka.errors
import pytest

from penstock.errors import (
    AbortableError,
    AuthenticationError,
    AuthorizationError,
    FencedError,
    KafkaError,
    RetriableError,
    SequenceError,
)
from penstock.kafka import faults
from penstock.kafka.faults import Action, fault_from_code, fault_from_exception

CLASSES = [each for each in vars(kafka.errors).values() if isinstance(each, type) and issubclass(each, Exception)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.rule("each error has one action")
def test_every_error_of_the_library_is_mapped(cls: type[Exception]) -> None:
    code = getattr(cls, "errno", None)
    if code is not None:
        assert fault_from_code(code).name != f"ERROR_{code}"
    else:
        assert cls.__name__ in faults._CLIENT


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (Action.RETRY, "CORRUPT_MESSAGE CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS"),
        (Action.REFRESH, "NOT_LEADER_OR_FOLLOWER FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_OR_PARTITION"),
        # A leader that is cut off from its followers may have been deposed.
        (Action.REFRESH, "NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND REQUEST_TIMED_OUT"),
        (Action.COORDINATOR, "NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE"),
        (
            Action.ABORT,
            "TRANSACTION_ABORTABLE OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_ID_MAPPING UNKNOWN_PRODUCER_ID "
            "UNKNOWN_MEMBER_ID",
        ),
        (Action.OUTCOME, "INVALID_PRODUCER_EPOCH PRODUCER_FENCED"),
        (Action.ACKNOWLEDGED, "DUPLICATE_SEQUENCE_NUMBER"),
        (Action.FATAL, "MESSAGE_TOO_LARGE UNSUPPORTED_VERSION INVALID_TRANSACTION_TIMEOUT"),
        (Action.DENIED, "TOPIC_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        (Action.REFUSED, "SASL_AUTHENTICATION_FAILED"),
    ],
)
@pytest.mark.rule("each error has one action")
def test_each_error_has_one_action(action: Action, names: str) -> None:
    by_name = {fault.name: fault for fault in map(fault_from_code, range(-1, 134))}
    for name in names.split():
        assert by_name[name].action is action, name


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (6, RetriableError),
        (45, SequenceError),
        (59, SequenceError),
        (120, AbortableError),
        (90, FencedError),
        (29, AuthorizationError),
        (58, AuthenticationError),
        (10, KafkaError),
    ],
)
def test_an_error_names_what_was_attempted(code: int, cls: type[Exception]) -> None:
    error = fault_from_code(code).error("writing to topic 'a', partition 3", "from the broker")
    assert type(error) is cls
    assert str(error).startswith(f"writing to topic 'a', partition 3: {fault_from_code(code).name} (from the broker)")


def test_a_missing_right_on_a_topic_is_named() -> None:
    assert "grant the principal Write on the topic" in str(fault_from_code(29).lacking("Write").error("writing"))
    for code in (0, 30, 53):
        assert fault_from_code(code).lacking("Write") == fault_from_code(code)


def test_a_code_of_a_newer_broker_is_fatal() -> None:
    assert fault_from_code(9999).action is Action.FATAL
    assert fault_from_code(9999).name == "ERROR_9999"
    unknown = kafka.errors.for_code(9999)()
    assert fault_from_exception(unknown)[0].action is Action.FATAL


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (kafka.errors.KafkaConnectionError("x"), Action.REFRESH),
        (kafka.errors.RequestTimedOutError(), Action.REFRESH),
        (kafka.errors.NodeNotReadyError(), Action.REFRESH),
        (kafka.errors.SaslAuthenticationFailedError("no"), Action.REFUSED),
        (kafka.errors.TopicAuthorizationFailedError(), Action.DENIED),
        (kafka.errors.InvalidReceiveError(), Action.FATAL),
        (ConnectionResetError(), Action.REFRESH),
        (ValueError("encoding"), Action.FATAL),
        (ssl.SSLEOFError(), Action.REFRESH),
        (ssl.SSLError(1, "wrong version number"), Action.REFUSED),
    ],
    ids=lambda each: each.__class__.__name__ if isinstance(each, Exception) else each.name,
)
def test_exceptions_of_the_library_are_mapped(error: Exception, action: Action) -> None:
    assert fault_from_exception(error)[0].action is action


def test_the_most_specific_cause_is_a_tls_error() -> None:
    error = kafka.errors.KafkaConnectionError("Handshake failed")
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.__cause__.verify_message = "self-signed certificate"
    fault, detail = fault_from_exception(error)
    assert (fault.action, detail) == (Action.REFUSED, "self-signed certificate")
