"""No secret of a job's options is in a plan, a description, an error or a log."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.kafka.properties import ACTS, WITHOUT_MEANING, ClientConfig, check
from penstock.kafka.session import Session
from penstock.plan.explain import explain
from penstock.sql import parse_script

STORES = Path(__file__).parent / "tls" / "stores"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

#: One set of properties for each way to log in. Every secret in them holds "hush".
LOGINS = {
    "password": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM} required username="anna" password="hush-1";',
        "ssl.truststore.location": str(STORES / "trust.p12"),
        "ssl.truststore.password": "hush-2",
    },
    "client certificate": {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(STORES / "key.jks"),
        "ssl.keystore.password": "hush-3",
        "ssl.key.password": "hush-4",
    },
    "key as text": {
        "security.protocol": "SSL",
        "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nhush-5\n-----END PRIVATE KEY-----",
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----\nhush-6\n-----END CERTIFICATE-----",
        "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nhush-7\n-----END CERTIFICATE-----",
    },
    "token": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        "sasl.oauthbearer.client.credentials.client.id": "anna",
        "sasl.oauthbearer.client.credentials.client.secret": "hush-8",
        "sasl.jaas.config": f'{BEARER} required extension_key="hush-10" ssl.truststore.location="/no-such-file" '
        'ssl.truststore.password="hush-11";',
    },
    "unsigned token": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{BEARER} required unsecuredLoginStringClaim_sub="hush-12";',
    },
}


def statements(properties: dict[str, str]) -> str:
    login = "".join(f", 'properties.{key}' = '{value}'" for key, value in properties.items())
    table = "'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = '127.0.0.1:1', 'format' = 'json'"
    return (
        f"CREATE TABLE s (id INT) WITH ({table}{login});\n"
        f"CREATE TABLE t (id INT) WITH ({table}{login});\n"
        "INSERT INTO t SELECT id FROM s;\n"
    )


def test_every_property_that_is_secret_is_among_them() -> None:
    named = {key for properties in LOGINS.values() for key in properties}
    assert {key for key, each in ACTS.items() if each.secret} <= named
    words = ("password", "secret", "passphrase", ".key")
    suspect = {key for key in (*ACTS, *WITHOUT_MEANING) if key.endswith(words)}
    assert suspect <= named


def test_a_secret_of_a_property_that_is_refused() -> None:
    with pytest.raises(PenstockError) as raised:
        parse_script(statements({"sasl.oauthbearer.assertion.private.key.passphrase": "hush-9"}))
    assert "'properties.sasl.oauthbearer.assertion.private.key.passphrase': cannot be set" in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("properties", LOGINS.values(), ids=LOGINS)
def test_plans_and_descriptions(properties: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job,) = parse_script(statements(properties)).jobs
    scan = job.sinks[0].input.spec  # type: ignore[attr-defined]
    config = scan.client_config
    assert "hush" in str(dict(scan.client))
    for shown in (explain(job), repr(job), repr(scan), scan.describe(), repr(config), str(config.login)):
        assert "hush" not in shown
    (tmp_path / "job.sql").write_text(statements(properties))
    assert main(["check", str(tmp_path / "job.sql")]) == 0
    output = capsys.readouterr()
    assert "hush" not in output.out + output.err


@pytest.mark.parametrize(
    "options",
    [
        {
            "url": "https://anna:hush-1@registry",
            "ssl.keystore.password": "hush-2",
            "ssl.truststore.password": "hush-3",
            "properties.schema.registry.ssl.key.password": "hush-4",
        },
        {"url": "https://registry", "basic-auth.user-info": "anna:hush-5"},
        {"url": "https://registry", "properties": "bearer.auth.token:hush-6"},
        {"url": "https://registry", "bearer-auth.token": "hush-7"},
    ],
)
def test_credentials_for_a_schema_registry(
    options: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "".join(f", 'avro-confluent.{key}' = '{value}'" for key, value in options.items())
    script = statements({}).replace("'format' = 'json'", f"'format' = 'avro-confluent'{given}")
    (job,) = parse_script(script).jobs
    scan = job.sinks[0].input.spec  # type: ignore[attr-defined]
    assert "hush" in str(scan.value.options.to_text())
    for shown in (explain(job), repr(job), repr(scan), scan.describe(), repr(scan.value.options.settings)):
        assert "hush" not in shown
    for text in (script, script.replace(".url' = '", ".url' = 'x")):
        (tmp_path / "job.sql").write_text(text)
        assert main(["check", str(tmp_path / "job.sql")]) == (0 if text is script else 2)
        output = capsys.readouterr()
        assert "hush" not in output.out + output.err


@pytest.mark.parametrize("properties", LOGINS.values(), ids=LOGINS)
def test_errors_of_a_definition(properties: dict[str, str]) -> None:
    """Every property in turn under a name that does not exist, and every value cut short."""
    for key, value in properties.items():
        for changed in ({f"{key}x": value}, {key: value[:-4]}, {key: f"{value}\n'"}, {key: value.replace('"', "")}):
            left = {name: each for name, each in properties.items() if name != key}
            problems = check({"bootstrap.servers": "b:1", **left, **changed})
            assert "hush" not in "".join(map(repr, problems))


@pytest.mark.parametrize("properties", LOGINS.values(), ids=LOGINS)
def test_errors_and_logs_of_connecting(
    properties: dict[str, str], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of them gets anywhere: stores do not open, and nobody listens."""
    servers = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "100"}
    config = ClientConfig.from_properties({**servers, **properties})

    def connect() -> None:
        with closing(Session(config)) as session:
            session.brokers()

    with caplog.at_level(logging.DEBUG), pytest.raises(PenstockError) as raised:
        connect()
    cause: BaseException | None = raised.value
    while cause is not None:
        assert "hush" not in f"{cause} {cause!r}"
        cause = cause.__cause__ or cause.__context__
    output = capsys.readouterr()
    logged = "".join(f"{record.getMessage()} {record.args}" for record in caplog.records)
    assert "hush" not in output.out + output.err + logged
