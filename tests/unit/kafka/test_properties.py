from __future__ import annotations

import dataclasses
import pickle
import ssl

import pytest

from penstock.errors import OptionsError
from penstock.kafka.idle_properties import REFUSED, WITHOUT_MEANING
from penstock.kafka.login import LOGIN_PROPERTIES, PasswordLogin
from penstock.kafka.properties import (
    ACTS,
    ClientConfig,
    check,
    describe_without_effect,
    find_remarks,
    find_without_effect,
)
from penstock.tls import Tls, build_tls_context

SERVERS = {"bootstrap.servers": "broker-1:9092,[::1]:9093"}
SASL = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def reasons(properties: dict[str, str]) -> dict[str, str]:
    return {problem.key: str(problem) for problem in check(properties)}


def test_defaults_are_those_of_java() -> None:
    config = ClientConfig.from_properties(SERVERS)
    assert config.bootstrap_servers == ("broker-1:9092", "[::1]:9093")
    assert (config.security_protocol, config.isolation_level, config.acks) == ("PLAINTEXT", "read_uncommitted", -1)
    assert (config.request_timeout_ms, config.default_api_timeout_ms) == (30_000, 60_000)
    assert config.enable_idempotence
    assert config.auto_offset_reset is None


def test_every_property_is_in_one_list() -> None:
    lists = [set(ACTS), set(REFUSED), set(WITHOUT_MEANING)]
    assert sum(map(len, lists)) == len(set().union(*lists))


#: Every client property that the documents name which penstock follows, with what becomes of it there.
NAMED = {
    "acts": "allow.auto.create.topics auto.offset.reset bootstrap.servers enable.idempotence group.id isolation.level "
    "max.in.flight.requests.per.connection acks retries sasl.jaas.config sasl.kerberos.service.name sasl.mechanism "
    "security.protocol ssl.endpoint.identification.algorithm ssl.keystore.location ssl.keystore.password "
    "ssl.truststore.location ssl.truststore.password transaction.timeout.ms",
    "connector": "auto.commit.interval.ms client.id.prefix commit.offsets.on.checkpoint enable.auto.commit "
    "flink.partition-discovery.interval-millis partition.discovery.interval.ms register.consumer.metrics",
    "overwritten": "key.deserializer value.deserializer",
    "refused": "auto.offset.reset.strategy",
}


@pytest.mark.parametrize(("name", "fate"), [(name, fate) for fate, names in NAMED.items() for name in names.split()])
def test_every_property_that_flinks_documents_name_has_its_place(name: str, fate: str) -> None:
    assert (name in ACTS) == (fate == "acts")
    assert (name in REFUSED) == (fate == "refused")
    assert (name in WITHOUT_MEANING) == (fate in ("connector", "overwritten"))
    if fate == "connector":
        assert WITHOUT_MEANING[name] == "read by the Kafka connector"


def test_every_property_that_acts_has_a_field_and_a_text() -> None:
    fields = {field.name for field in dataclasses.fields(ClientConfig)}
    fields |= {f"ssl_{field.name}" for field in dataclasses.fields(Tls)}
    for name, each in ACTS.items():
        assert each.doc.endswith("."), name
        assert name in LOGIN_PROPERTIES or name.replace(".", "_") in fields, name


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("acks", "all", "acks", -1),
        ("acks", "0", "acks", 0),
        ("fetch.max.bytes", " 1024 ", "fetch_max_bytes", 1024),
        ("isolation.level", "READ_COMMITTED", "isolation_level", "read_committed"),
        ("enable.idempotence", "False", "enable_idempotence", False),
        ("ssl.endpoint.identification.algorithm", "", "tls", Tls(endpoint_identification_algorithm="")),
        ("ssl.enabled.protocols", "TLSv1.3", "tls", Tls(enabled_protocols=("TLSv1.3",))),
        ("ssl.protocol", "TLSv1.2", "tls", Tls(protocol="TLSv1.2")),
        ("ssl.truststore.location", "/trust.jks", "tls", Tls(truststore_location="/trust.jks")),
        ("ssl.keystore.type", "pkcs12", "tls", Tls(keystore_type="PKCS12")),
        ("auto.offset.reset", "Earliest", "auto_offset_reset", "earliest"),
        ("compression.type", "ZSTD", "compression_type", "zstd"),
        ("compression.gzip.level", "-1", "compression_gzip_level", None),
        ("compression.gzip.level", "9", "compression_gzip_level", 9),
        ("retries", "3", "retries", 3),
        ("transaction.timeout.ms", "5000", "transaction_timeout_ms", 5000),
    ],
)
def test_values_are_read(name: str, value: str, field: str, expected: object) -> None:
    assert getattr(ClientConfig.from_properties({**SERVERS, name: value}), field) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("bootstrap.servers", "broker", "expected host:port, with commas between several, not 'broker'"),
        ("acks", "2", "expected 'all', '1' or '0', not '2'"),
        ("request.timeout.ms", "0", "expected a number between 1"),
        ("request.timeout.ms", "soon", "expected a whole number, not 'soon'"),
        ("check.crcs", "yes", "expected true or false"),
        ("isolation.level", "serializable", "'read_uncommitted', 'read_committed'"),
        ("ssl.truststore.type", "BCFKS", "expected one of 'JKS', 'PKCS12', 'PEM', not 'BCFKS'"),
        ("transactional.id", "x", "transactional id prefix"),
        ("compression.type", "lzo", "expected one of 'none', 'gzip', 'snappy', 'lz4', 'zstd', not 'lzo'"),
        ("compression.gzip.level", "0", "expected a level from 1 to 9"),
        ("compression.gzip.level", "10", "expected a number between -1 and 9, not '10'"),
        ("compression.lz4.level", "18", "expected a number between 1 and 17, not '18'"),
        ("compression.zstd.level", "23", "expected a number between -131072 and 22, not '23'"),
        ("compression.snappy.level", "1", "is not a property of a Kafka client"),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner", "'sink.partitioner'"),
        ("partitioner.ignore.keys", "true", "'sink.partitioner'"),
        ("interceptor.classes", "a.b.C", "Java classes are not loaded"),
        ("config.providers", "file", "Java classes are not loaded"),
        ("fetch.max.byte", "1", "did you mean 'fetch.max.bytes'?"),
        ("ssl.truststore.location", "oss://bucket/trust.jks", "not an address ('oss:'): nothing is fetched"),
        ("ssl.truststore.location", "https://ca.example/trust.pem", "put a copy of the file at one path"),
        ("ssl.keystore.location", "hdfs://namenode/key.p12", "not an address ('hdfs:')"),
        ("ssl.protocol", "TLSv1", "expected TLSv1.3, TLSv1.2 or TLS"),
        (
            "security.providers",
            "org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider",
            "TLS is the system's OpenSSL",
        ),
        ("ssl.provider", "BCFIPS", "TLS is the system's OpenSSL"),
        ("ssl.engine.factory.class", "a.b.C", "ssl.truststore.* and ssl.keystore.* have the certificates"),
        ("ssl.trustmanager.algorithm", "OneOfMine", "verified by OpenSSL"),
        ("ssl.keymanager.algorithm", "OneOfMine", "Java classes"),
        ("ssl.secure.random.implementation", "SHA1PRNG", "the system's"),
        ("sasl.client.callback.handler.class", "a.b.C", "sasl.jaas.config and sasl.oauthbearer.* have the login"),
        ("sasl.login.class", "a.b.C", "sasl.jaas.config"),
        ("sasl.oauthbearer.assertion.file", "/a", "use client credentials"),
        ("sasl.oauthbearer.assertion.private.key.passphrase", "x", "use client credentials"),
        ("ssl.keystore.key", "-----", "needs 'ssl.keystore.certificate.chain'"),
    ],
)
def test_a_problem_names_what_was_expected(name: str, value: str, expected: str) -> None:
    found = reasons({**SERVERS, name: value})
    assert list(found) == [name]
    assert expected in found[name]


@pytest.mark.parametrize(
    "name",
    ["zookeeper.connect", "zookeeper.session.timeout.ms", "schema.registry.url", "specific.avro.reader", "frobnicate"],
)
def test_what_no_client_has_is_remarked_and_has_no_effect(name: str) -> None:
    given = {**SERVERS, name: "x", "value.serializer": "y", "linger.ms": "5"}
    assert check(given) == ()
    assert ClientConfig.from_properties(given) == ClientConfig.from_properties(SERVERS)
    assert [remarked for remarked, _ in find_remarks(given)] == [name, "value.serializer"]


def test_nothing_about_security_is_accepted_without_effect() -> None:
    """What is left is about the renewal of tickets and tokens, and about what brokers verify."""
    words = ("security", "ssl.", "sasl.")
    left = {name for name in WITHOUT_MEANING if name.startswith(words)}
    renewal = ("sasl.login.refresh.", "sasl.login.retry.", "sasl.kerberos.")
    of_brokers = ("clock.skew", "expected.", "jwks.", "scope.claim.name", "sub.claim.name")
    assert {name for name in left if not name.startswith(renewal)} == {
        name for name in left if name.startswith(tuple(f"sasl.oauthbearer.{each}" for each in of_brokers))
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.trustmanager.algorithm", "PKIX"),
        ("ssl.keymanager.algorithm", "SunX509"),
        ("security.providers", ""),
        ("sasl.client.callback.handler.class", " "),
        ("ssl.engine.factory.class", "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"),
    ],
)
def test_java_s_own_value_of_a_refused_property_changes_nothing_and_is_accepted(name: str, value: str) -> None:
    given = {**SERVERS, name: value}
    assert ClientConfig.from_properties(given) == ClientConfig.from_properties(SERVERS)
    assert list(find_without_effect(given)) == [name]


@pytest.mark.parametrize("enabled", ["TLSv1.2,TLSv1.3", "TLSv1.2"])
def test_tls_1_2_leaves_1_3_out(enabled: str) -> None:
    tls = ClientConfig.from_properties({**SERVERS, "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": enabled}).tls
    context = build_tls_context(tls)
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    both = build_tls_context(ClientConfig.from_properties({**SERVERS, "ssl.protocol": "TLS"}).tls)
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_no_version_of_tls_is_a_problem() -> None:
    found = reasons({**SERVERS, "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"})
    assert list(found) == ["ssl.protocol"]
    assert "leaves no version, as ssl.enabled.protocols has TLSv1.3 only" in found["ssl.protocol"]


def test_properties_without_effect_are_told_in_one_line() -> None:
    names = ("max.poll.records", "linger.ms", "session.timeout.ms", "client.id.prefix", "key.serializer", "acks")
    line = describe_without_effect(find_without_effect(dict.fromkeys(names, "1")), "properties.")
    assert line == (
        "no effect here: 'properties.max.poll.records', 'properties.session.timeout.ms' (partitions are assigned by "
        "the engine, not by a consumer group), 'properties.linger.ms' (all rows of a micro-batch are encoded together, "
        "so there is nothing to wait for)"
    )
    assert describe_without_effect({}) == ""


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(OptionsError) as raised:
        ClientConfig.from_properties({"acks": "7", "lingerms": "1"}, where="table 'orders'")
    assert [problem.key for problem in raised.value.problems] == ["acks", "lingerms", "bootstrap.servers"]
    assert {problem.where for problem in raised.value.problems} == {"table 'orders'"}


def test_what_has_no_meaning_is_accepted() -> None:
    assert check({**SERVERS, "session.timeout.ms": "1", "enable.auto.commit": "true", "linger.ms": "3"}) == ()


@pytest.mark.parametrize(
    "jaas",
    [
        f'{SCRAM} required username="anna" password="s3 \\"cr;et";',
        f'org.apache.flink.kafka.shaded.{SCRAM} required username="anna" password="s3 \\"cr;et" ;',
        f"{SCRAM} required\n  password='s3 \"cr;et'\n  username=anna;",
    ],
)
def test_a_jaas_login_module_is_read(jaas: str) -> None:
    config = ClientConfig.from_properties({**SASL, "sasl.jaas.config": jaas})
    assert config.login == PasswordLogin("SCRAM-SHA-256", "anna", 's3 "cr;et')


def test_a_jaas_text_with_escaped_quotes_is_read() -> None:
    jaas = rf"{SCRAM} required username=\"anna\" password=\"pw\";"
    config = ClientConfig.from_properties({**SASL, "sasl.jaas.config": jaas})
    assert config.login == PasswordLogin("SCRAM-SHA-256", "anna", "pw")


@pytest.mark.parametrize(
    ("jaas", "expected"),
    [
        ("secret123", "expected 'org.apache.kafka"),
        (f'{SCRAM} required username="secret123";', "has no password"),
        ('a.b.PlainLoginModule required username="u" password="secret123";', "does not belong to SCRAM-SHA-256"),
    ],
)
def test_a_bad_jaas_text_is_refused_without_being_shown(jaas: str, expected: str) -> None:
    found = reasons({**SASL, "sasl.jaas.config": jaas})
    assert expected in found["sasl.jaas.config"]
    assert "secret123" not in str(found)


def test_sasl_needs_a_mechanism_that_is_supported() -> None:
    assert "expected one of 'PLAIN'" in reasons({**SASL, "sasl.mechanism": "AWS_MSK_IAM"})["sasl.mechanism"]
    assert "is required" in reasons(SASL)["sasl.jaas.config"]
    assert ClientConfig.from_properties({**SERVERS, "sasl.mechanism": "PLAIN"}).login is None
    forgotten = {
        **SERVERS,
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": f"{SCRAM} required username=a password=b;",
    }
    assert "set sasl.mechanism, whose default is GSSAPI" in reasons(forgotten)["sasl.jaas.config"]


def test_other_acks_and_no_retries_turn_idempotence_off_unless_it_is_asked_for() -> None:
    for given in ({"acks": "1"}, {"acks": "0"}, {"retries": "0"}, {"acks": "1", "retries": "0"}):
        assert not ClientConfig.from_properties({**SERVERS, **given}).enable_idempotence
        assert list(reasons({**SERVERS, **given, "enable.idempotence": "true"})) == list(given)
    assert ClientConfig.from_properties({**SERVERS, "acks": "all", "retries": "1"}).enable_idempotence
    window = "max.in.flight.requests.per.connection"
    assert list(reasons({**SERVERS, window: "6"})) == [window]
    assert reasons({**SERVERS, window: "6", "enable.idempotence": "false"}) == {}


def test_a_config_is_a_key_without_secrets_in_its_text() -> None:
    properties = {
        **SASL,
        "sasl.jaas.config": f'{SCRAM} required username="u" password="secret1";',
        "ssl.key.password": "secret2",
        "ssl.keystore.key": "secret3",
        "ssl.keystore.certificate.chain": "chain",
    }
    config = ClientConfig.from_properties(properties)
    assert "secret" not in repr(config)
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(ClientConfig.from_properties(properties))
