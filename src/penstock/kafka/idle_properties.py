"""The properties of the Java client that have no effect here: those that are refused, and those that are accepted."""

from __future__ import annotations

from collections.abc import Mapping

_NO_JAVA = "Java classes and security providers are not loaded"
_ASSERTION = """
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
"""
_CREDENTIALS = (
    "the assertion grant (RFC 7523) is not supported; use client credentials: "
    "sasl.oauthbearer.client.credentials.client.id and .client.secret"
)

#: Properties that penstock sets itself or that would change what is trusted, with the reason and what to use.
REFUSED: Mapping[str, str] = {
    "auto.offset.reset.strategy": "Flink sets it by the offsets initializer; Kafka's own name is auto.offset.reset",
    "transactional.id": "it is made from the transactional id prefix and the query's name",
    "transaction.two.phase.commit.enable": "a micro-batch is one transaction and needs no second phase",
    "partitioner.class": "Java classes are not loaded; the sink option 'sink.partitioner' chooses partitions",
    "partitioner.ignore.keys": "the sink option 'sink.partitioner' chooses partitions",
    "interceptor.classes": "Java classes are not loaded, and no record would pass through them",
    "config.providers": "Java classes are not loaded, so references to a provider would not be replaced",
    "ssl.cipher.suites": "cipher suites cannot be chosen; use ssl.enabled.protocols",
    "security.providers": f"{_NO_JAVA}; TLS is the system's OpenSSL",
    "ssl.provider": f"{_NO_JAVA}; TLS is the system's OpenSSL",
    "ssl.engine.factory.class": f"{_NO_JAVA}; ssl.truststore.* and ssl.keystore.* have the certificates",
    "ssl.keymanager.algorithm": f"{_NO_JAVA}; the client's key is the first of ssl.keystore.*",
    "ssl.trustmanager.algorithm": f"{_NO_JAVA}; certificates are verified by OpenSSL with those of ssl.truststore.*",
    "ssl.secure.random.implementation": f"{_NO_JAVA}; random numbers are the system's",
    "sasl.client.callback.handler.class": f"{_NO_JAVA}; sasl.jaas.config and sasl.oauthbearer.* have the login",
    "sasl.login.class": f"{_NO_JAVA}; sasl.jaas.config and sasl.oauthbearer.* have the login",
    **dict.fromkeys(_ASSERTION.split(), _CREDENTIALS),
}

#: Values of refused properties, in lower case, that change nothing: Java's own.
_USUAL: Mapping[str, tuple[str, ...]] = {
    "security.providers": ("",),
    "ssl.provider": ("",),
    "ssl.engine.factory.class": ("", "org.apache.kafka.common.security.ssl.defaultsslenginefactory"),
    "ssl.keymanager.algorithm": ("", "sunx509", "newsunx509", "pkix"),
    "ssl.trustmanager.algorithm": ("", "sunx509", "pkix"),
    "ssl.secure.random.implementation": ("",),
    "ssl.cipher.suites": ("",),
    "sasl.client.callback.handler.class": ("",),
    "sasl.login.class": ("", "org.apache.kafka.common.security.authenticator.defaultlogin"),
}

#: Flink's connector overrides these.
SERIALIZERS = ("key.deserializer", "value.deserializer", "key.serializer", "value.serializer")
BY_CONNECTOR = "read by the Kafka connector"
BYTES = "penstock reads and writes bytes; formats decode and encode them"

#: The reasons why properties are accepted without effect.
_WITHOUT_MEANING: Mapping[str, str] = {
    "partitions are assigned by the engine, not by a consumer group": """
        session.timeout.ms heartbeat.interval.ms max.poll.interval.ms max.poll.records partition.assignment.strategy
        group.instance.id group.protocol group.remote.assignor exclude.internal.topics internal.leave.group.on.close
        share.acknowledgement.mode share.acquire.mode
    """,
    "metrics are reported by the engine": """
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms enable.metrics.push
        auto.include.jmx.reporter
    """,
    "all rows of a micro-batch are encoded together, so there is nothing to wait for": "linger.ms",
    "waiting is bounded by delivery.timeout.ms and, for transactions, by default.api.timeout.ms": "max.block.ms",
    "a client knows the topics of its table only": "metadata.max.idle.ms",
    BYTES: " ".join(SERIALIZERS),
    "rows without keys are spread evenly over all partitions": """
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    """,
    "the operating system sizes socket buffers": "receive.buffer.bytes send.buffer.bytes",
    "brokers are asked for again from the bootstrap servers whenever none answers": """
        metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms bootstrap.controllers
    """,
    BY_CONNECTOR: """
        partition.discovery.interval.ms flink.partition-discovery.interval-millis client.id.prefix
        commit.offsets.on.checkpoint register.consumer.metrics register.producer.metrics enable.auto.commit
        auto.commit.interval.ms
    """,
    "a connection asks for a token when it is opened; if it fails later, it is opened again": """
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    """,
    "the system's Kerberos library renews tickets": """
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor
    """,
    "the brokers verify tokens": """
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    """,
}

#: Properties that are accepted without effect, with the reason.
WITHOUT_MEANING: Mapping[str, str] = {
    name: reason for reason, names in _WITHOUT_MEANING.items() for name in names.split()
}


def is_usual(name: str, value: str) -> bool:
    """Whether this value of a refused property changes nothing."""
    return value.strip().lower() in _USUAL.get(name, ())
