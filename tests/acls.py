"""Brokers that let nobody do anything without an ACL, and granting rights on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.waiting import eventually

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster

#: (kind of resource, name, operation), as Kafka's tools write them.
Right = tuple[str, str, str]


@contextmanager
def guarded_cluster(users: int, **properties: str) -> Iterator[KafkaCluster]:
    """A broker with ``user-1`` and so on, who have no rights; what comes in plain text may do everything.

    ``properties`` are the broker's, with ``_`` for ``.``.
    """
    from penstock_testing.services import KafkaCluster, Security

    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:ANONYMOUS",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    names = {f"user-{number}": f"secret-{number}" for number in range(1, users + 1)}
    with KafkaCluster(security=Security("SASL_PLAINTEXT", "PLAIN", names), properties=settings) as cluster:
        yield cluster


def grant(admin: KafkaAdminClient, user: str, rights: Iterable[Right]) -> None:
    """Gives a user these rights, and returns when the broker knows them."""
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    allow, principal = ACLPermissionType.ALLOW, f"User:{user}"
    acls = [
        ACL(principal, "*", ACLOperation[operation], allow, ResourcePattern(ResourceType[kind], name))
        for kind, name, operation in rights
    ]
    admin.create_acls(acls)
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    theirs = ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    eventually(lambda: len(admin.describe_acls(theirs)[0]) >= len(acls))
