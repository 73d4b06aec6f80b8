"""Every error that Kafka can answer with, and the action that it calls for (rule "each error has one action").

Errors are translated only here. Code that talks to Kafka looks at the :class:`Action`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

import kafka.errors

from penstock.errors import (
    AbortableError,
    AuthenticationError,
    AuthorizationError,
    FencedError,
    KafkaError,
    PenstockError,
    RetriableError,
    SequenceError,
)


class Action(Enum):
    """What to do about an error."""

    NONE = "no error"
    ACKNOWLEDGED = "the broker has this batch already: count it as done"
    RETRY = "wait and send the same again, with the same sequence"
    REFRESH = "as RETRY, after asking who leads the partition now"
    COORDINATOR = "as RETRY, after asking who coordinates the group or transaction now"
    ABORT = "abort the transaction and retry the batch"
    OUTCOME = "find out first whether the transaction was committed"
    DENIED = "a right is missing: stop"
    REFUSED = "the login or the certificate is not accepted: stop"
    FATAL = "stop"

    @property
    def retriable(self) -> bool:
        """Whether the same request may be sent again."""
        return self in {Action.RETRY, Action.REFRESH, Action.COORDINATOR}


_ERRORS: Mapping[Action, type[PenstockError]] = {
    Action.RETRY: RetriableError,
    Action.REFRESH: RetriableError,
    Action.COORDINATOR: RetriableError,
    Action.ABORT: AbortableError,
    Action.OUTCOME: FencedError,
    Action.DENIED: AuthorizationError,
    Action.REFUSED: AuthenticationError,
}
_SEQUENCE_CODES = {45, 59}  # OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID


@dataclass(frozen=True)
class Fault:
    """One error: Kafka's code (-1000 for errors of the client itself) and name, the action, and a hint."""

    code: int
    name: str
    action: Action
    hint: str = ""

    def lacking(self, operation: str) -> Fault:
        """The same fault. If a right on a topic is missing, the hint names the operation to grant."""
        if self.name != "TOPIC_AUTHORIZATION_FAILED":
            return self
        return replace(self, hint=f"grant the principal {operation} on the topic")

    def error(self, label: str, detail: str | None = None) -> PenstockError:
        """The error to raise: ``label`` names the operation, ``detail`` is the broker's own message."""
        text = f"{label}: {self.name}"
        if detail and detail != self.name:
            text += f" ({detail})"
        cls = SequenceError if self.code in _SEQUENCE_CODES else _ERRORS.get(self.action, KafkaError)
        return cls(f"{text}; {self.hint}" if self.hint else text)


class KafkaFault(Exception):
    """A fault for the code that decides whether to retry. Never leaves this package.

    ``detail`` is the broker's message or, for errors in the client, the cause.
    """

    def __init__(self, fault: Fault, detail: str = ""):
        super().__init__(fault, detail)
        self.fault, self.detail = fault, detail


# Code and name, as in org.apache.kafka.common.protocol.Errors of Kafka 4.3.
_CODES: Mapping[Action, str] = {
    Action.NONE: "0 NONE",
    Action.ACKNOWLEDGED: "46 DUPLICATE_SEQUENCE_NUMBER",
    Action.RETRY: """
        2 CORRUPT_MESSAGE  14 COORDINATOR_LOAD_IN_PROGRESS  27 REBALANCE_IN_PROGRESS  51 CONCURRENT_TRANSACTIONS
        70 FETCH_SESSION_ID_NOT_FOUND  71 INVALID_FETCH_SESSION_EPOCH  78 OFFSET_NOT_AVAILABLE
        88 UNSTABLE_OFFSET_COMMIT  89 THROTTLING_QUOTA_EXCEEDED  106 FETCH_SESSION_TOPIC_ID_ERROR
        122 SHARE_SESSION_NOT_FOUND  123 INVALID_SHARE_SESSION_EPOCH
    """,
    Action.REFRESH: """
        3 UNKNOWN_TOPIC_OR_PARTITION  5 LEADER_NOT_AVAILABLE  6 NOT_LEADER_OR_FOLLOWER
        7 REQUEST_TIMED_OUT  8 BROKER_NOT_AVAILABLE  9 REPLICA_NOT_AVAILABLE  13 NETWORK_EXCEPTION
        19 NOT_ENOUGH_REPLICAS  20 NOT_ENOUGH_REPLICAS_AFTER_APPEND  41 NOT_CONTROLLER
        56 KAFKA_STORAGE_ERROR  72 LISTENER_NOT_FOUND  74 FENCED_LEADER_EPOCH  75 UNKNOWN_LEADER_EPOCH
        80 PREFERRED_LEADER_NOT_AVAILABLE  83 ELIGIBLE_LEADERS_NOT_AVAILABLE  84 ELECTION_NOT_NEEDED
        100 UNKNOWN_TOPIC_ID  103 INCONSISTENT_TOPIC_ID  108 NEW_LEADER_ELECTED  129 REBOOTSTRAP_REQUIRED
    """,
    Action.COORDINATOR: "15 COORDINATOR_NOT_AVAILABLE  16 NOT_COORDINATOR",
    Action.ABORT: """
        22 ILLEGAL_GENERATION  25 UNKNOWN_MEMBER_ID  45 OUT_OF_ORDER_SEQUENCE_NUMBER  48 INVALID_TXN_STATE
        49 INVALID_PRODUCER_ID_MAPPING  59 UNKNOWN_PRODUCER_ID  82 FENCED_INSTANCE_ID
        110 FENCED_MEMBER_EPOCH  113 STALE_MEMBER_EPOCH  120 TRANSACTION_ABORTABLE
    """,
    Action.OUTCOME: "47 INVALID_PRODUCER_EPOCH  90 PRODUCER_FENCED",
    Action.DENIED: """
        29 TOPIC_AUTHORIZATION_FAILED  30 GROUP_AUTHORIZATION_FAILED  31 CLUSTER_AUTHORIZATION_FAILED
        53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED  65 DELEGATION_TOKEN_AUTHORIZATION_FAILED
    """,
    Action.REFUSED: "33 UNSUPPORTED_SASL_MECHANISM  34 ILLEGAL_SASL_STATE  58 SASL_AUTHENTICATION_FAILED",
    Action.FATAL: """
        -1 UNKNOWN_SERVER_ERROR  1 OFFSET_OUT_OF_RANGE  4 INVALID_FETCH_SIZE  10 MESSAGE_TOO_LARGE
        11 STALE_CONTROLLER_EPOCH  12 OFFSET_METADATA_TOO_LARGE  17 INVALID_TOPIC
        18 RECORD_LIST_TOO_LARGE  21 INVALID_REQUIRED_ACKS  23 INCONSISTENT_GROUP_PROTOCOL
        24 INVALID_GROUP_ID  26 INVALID_SESSION_TIMEOUT  28 INVALID_COMMIT_OFFSET_SIZE
        32 INVALID_TIMESTAMP  35 UNSUPPORTED_VERSION  36 TOPIC_ALREADY_EXISTS  37 INVALID_PARTITIONS
        38 INVALID_REPLICATION_FACTOR  39 INVALID_REPLICATION_ASSIGNMENT  40 INVALID_CONFIG
        42 INVALID_REQUEST  43 UNSUPPORTED_FOR_MESSAGE_FORMAT  44 POLICY_VIOLATION
        50 INVALID_TRANSACTION_TIMEOUT  52 TRANSACTION_COORDINATOR_FENCED  54 SECURITY_DISABLED
        55 OPERATION_NOT_ATTEMPTED  57 LOG_DIR_NOT_FOUND  60 REASSIGNMENT_IN_PROGRESS
        61 DELEGATION_TOKEN_AUTH_DISABLED  62 DELEGATION_TOKEN_NOT_FOUND
        63 DELEGATION_TOKEN_OWNER_MISMATCH  64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        66 DELEGATION_TOKEN_EXPIRED  67 INVALID_PRINCIPAL_TYPE  68 NON_EMPTY_GROUP  69 GROUP_ID_NOT_FOUND
        73 TOPIC_DELETION_DISABLED  76 UNSUPPORTED_COMPRESSION_TYPE  77 STALE_BROKER_EPOCH
        79 MEMBER_ID_REQUIRED  81 GROUP_MAX_SIZE_REACHED  85 NO_REASSIGNMENT_IN_PROGRESS
        86 GROUP_SUBSCRIBED_TO_TOPIC  87 INVALID_RECORD  91 RESOURCE_NOT_FOUND  92 DUPLICATE_RESOURCE
        93 UNACCEPTABLE_CREDENTIAL  94 INCONSISTENT_VOTER_SET  95 INVALID_UPDATE_VERSION
        96 FEATURE_UPDATE_FAILED  97 PRINCIPAL_DESERIALIZATION_FAILURE  98 SNAPSHOT_NOT_FOUND
        99 POSITION_OUT_OF_RANGE  101 DUPLICATE_BROKER_REGISTRATION  102 BROKER_ID_NOT_REGISTERED
        104 INCONSISTENT_CLUSTER_ID  105 TRANSACTIONAL_ID_NOT_FOUND  107 INELIGIBLE_REPLICA
        109 OFFSET_MOVED_TO_TIERED_STORAGE  111 UNRELEASED_INSTANCE_ID  112 UNSUPPORTED_ASSIGNOR
        114 MISMATCHED_ENDPOINT_TYPE  115 UNSUPPORTED_ENDPOINT_TYPE  116 UNKNOWN_CONTROLLER_ID
        117 UNKNOWN_SUBSCRIPTION_ID  118 TELEMETRY_TOO_LARGE  119 INVALID_REGISTRATION
        121 INVALID_RECORD_STATE  124 FENCED_STATE_EPOCH  125 INVALID_VOTER_KEY  126 DUPLICATE_VOTER
        127 VOTER_NOT_FOUND  128 INVALID_REGULAR_EXPRESSION  130 STREAMS_INVALID_TOPOLOGY
        131 STREAMS_INVALID_TOPOLOGY_EPOCH  132 STREAMS_TOPOLOGY_FENCED  133 SHARE_SESSION_LIMIT_REACHED
    """,
}

_HINTS: Mapping[str, str] = {
    "OFFSET_OUT_OF_RANGE": "the log does not hold this offset, either no longer or not yet",
    "UNKNOWN_TOPIC_OR_PARTITION": "check the topic's name, and whether it exists",
    "MESSAGE_TOO_LARGE": "lower batch.size, or raise the topic's max.message.bytes",
    "OFFSET_METADATA_TOO_LARGE": "raise the brokers' offset.metadata.max.bytes to 4096, which is its default",
    "INVALID_TOPIC": "topic names have letters, digits, '.', '_' and '-' only",
    "RECORD_LIST_TOO_LARGE": "lower batch.size, or raise the topic's segment.bytes",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync",
    "INVALID_GROUP_ID": "set properties.group.id",
    "TOPIC_AUTHORIZATION_FAILED": "grant the principal the operation on the topic",
    "GROUP_AUTHORIZATION_FAILED": "grant the principal Read on the group",
    "CLUSTER_AUTHORIZATION_FAILED": "grant the principal the operation on the cluster",
    "INVALID_TIMESTAMP": "check the records' timestamps against message.timestamp.before.max.ms and after.max.ms",
    "UNSUPPORTED_SASL_MECHANISM": "check sasl.mechanism against the listener",
    "ILLEGAL_SASL_STATE": "check security.protocol and sasl.mechanism against the listener",
    "UNSUPPORTED_VERSION": "the broker is too old for this operation",
    "INVALID_PARTITIONS": "check the number of partitions",
    "INVALID_REPLICATION_FACTOR": "fewer brokers are up than replicas were asked for",
    "INVALID_CONFIG": "check the topic's settings",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "the topic's messages are older than format 2",
    "POLICY_VIOLATION": "a policy of the brokers forbids it",
    "INVALID_TRANSACTION_TIMEOUT": "lower transaction.timeout.ms, or raise the brokers' transaction.max.timeout.ms",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "grant the principal Write and Describe on the transactional id",
    "SECURITY_DISABLED": "the broker has no authorizer configured",
    "SASL_AUTHENTICATION_FAILED": "check user name, password and sasl.mechanism",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "grant the principal the operation on the token",
    "UNSUPPORTED_COMPRESSION_TYPE": "use another compression.type",
    "INVALID_RECORD": "the broker refused a record: a compacted topic needs a key in every record",
}

_FAULTS: Mapping[int, Fault] = {
    int(code): Fault(int(code), name, action, _HINTS.get(name, ""))
    for action, text in _CODES.items()
    for code, name in zip(text.split()[::2], text.split()[1::2], strict=True)
}


def fault_from_code(code: int) -> Fault:
    """The fault of an error code in a broker's answer. An unknown code, from a newer broker, is fatal."""
    return _FAULTS.get(code) or Fault(code, f"ERROR_{code}", Action.FATAL, "an error code that penstock does not know")


def check_code(code: int, detail: str = "", operation: str = "") -> None:
    """Raises :class:`KafkaFault` for an error code. ``operation`` is the right that the request needs on a topic."""
    fault = fault_from_code(code)
    if fault.action is not Action.NONE:
        raise KafkaFault(fault.lacking(operation) if operation else fault, detail)


# --- errors that arise in the client ---------------------------------------------------------------------------

CLIENT_CODE = -1000

_WRONG_PROTOCOL = "check security.protocol against the listener: the answer is not Kafka's protocol"

# By class of kafka.errors; the most specific class wins.
_CLIENT_CLASSES: Mapping[Action, str] = {
    Action.FATAL: """
        KafkaError BrokerResponseError CommitFailedError IllegalArgumentError IllegalStateError KafkaConfigurationError
        KafkaProtocolError InvalidReceiveError NoOffsetForPartitionError LogTruncationError UnrecognizedBrokerVersion
        UnsupportedCodecError IncompatibleBrokerVersion
    """,
    Action.RETRY: "RetriableError MetadataEmptyBrokerList QuotaViolationError TooManyInFlightRequests",
    Action.REFRESH: """
        InvalidMetadataError Cancelled KafkaConnectionError CorrelationIdError KafkaTimeoutError NodeNotReadyError
        UnknownBrokerIdError StaleMetadata
    """,
    Action.ABORT: "TransactionAbortedError",
    Action.DENIED: "AuthorizationError",
}
_CLIENT: Mapping[str, Action] = {name: action for action, text in _CLIENT_CLASSES.items() for name in text.split()}
_CLIENT_HINTS: Mapping[str, str] = {
    "KafkaProtocolError": _WRONG_PROTOCOL,
    "InvalidReceiveError": _WRONG_PROTOCOL,
    "UnrecognizedBrokerVersion": "the broker is too old",
    "UnsupportedCodecError": "use another compression.type",
    "IncompatibleBrokerVersion": _HINTS["UNSUPPORTED_VERSION"],
}


def fault_from_exception(error: BaseException) -> tuple[Fault, str]:
    """The fault of an exception from the client library, and a description of it."""
    if isinstance(error, KafkaFault):
        return error.fault, error.detail
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return _tls(cause)
        cause = cause.__cause__ or cause.__context__
    detail = str(error.args[0]) if error.args else ""
    name = type(error).__name__
    for cls in type(error).__mro__:
        if cls.__module__ == kafka.errors.__name__ and cls.__name__ in _CLIENT:
            if cls.__name__ == "BrokerResponseError":
                break
            return Fault(CLIENT_CODE, name, _CLIENT[cls.__name__], _CLIENT_HINTS.get(cls.__name__, "")), detail
        code = getattr(cls, "errno", None)
        if isinstance(code, int) and issubclass(cls, kafka.errors.BrokerResponseError):
            return fault_from_code(code), detail
    action = Action.REFRESH if isinstance(error, OSError) else Action.FATAL
    return Fault(CLIENT_CODE, name, action), detail or repr(error)


def _tls(error: ssl.SSLError) -> tuple[Fault, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "check ssl.truststore.* and the names in the broker's certificate"
        reason = getattr(error, "verify_message", str(error))
        return Fault(CLIENT_CODE, "certificate not trusted", Action.REFUSED, hint), reason
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Fault(CLIENT_CODE, "connection closed during TLS", Action.REFRESH), ""
    hint = "check security.protocol against the listener, and ssl.keystore.* where it asks for a certificate"
    return Fault(CLIENT_CODE, "TLS failed", Action.REFUSED, hint), getattr(error, "reason", None) or str(error)
