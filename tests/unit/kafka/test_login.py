"""What the sasl properties mean, mechanism by mechanism."""

from __future__ import annotations

import pytest

from penstock.kafka.login import (
    KerberosLogin,
    Login,
    PasswordLogin,
    TokenEndpoint,
    TokenFile,
    TokenLogin,
    UnsecuredToken,
)
from penstock.kafka.properties import ClientConfig, check
from penstock.tls import Tls

SASL = {"bootstrap.servers": "broker:9092", "security.protocol": "SASL_SSL"}
BEARER = {**SASL, "sasl.mechanism": "OAUTHBEARER"}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"
HTTPS = {**BEARER, URL: "https://id.example/token"}


def login(properties: dict[str, str]) -> Login | None:
    return ClientConfig.from_properties(properties).login


def reasons(properties: dict[str, str]) -> dict[str, str]:
    return {problem.key: str(problem) for problem in check(properties)}


def test_a_secured_table_in_the_spelling_of_flinks_cloud() -> None:
    """As in Flink's documentation: stores without a type, a shaded login module, and no comparison of host names."""
    folder = "/flink/usrlib/kafka.client"
    shaded = "org.apache.flink.kafka.shaded.org.apache.kafka.common.security.scram.ScramLoginModule"
    config = ClientConfig.from_properties(
        {
            **SASL,
            "ssl.truststore.location": f"{folder}.truststore.jks",
            "ssl.truststore.password": "test1234",
            "ssl.keystore.location": f"{folder}.keystore.jks",
            "ssl.keystore.password": "test1234",
            "ssl.endpoint.identification.algorithm": "",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{shaded} required username="username" password="password";',
        }
    )
    assert config.tls == Tls(
        truststore_location=f"{folder}.truststore.jks",
        truststore_password="test1234",
        keystore_location=f"{folder}.keystore.jks",
        keystore_password="test1234",
        endpoint_identification_algorithm="",
    )
    assert config.login == PasswordLogin("SCRAM-SHA-256", "username", "password")


class TestTokens:
    def test_credentials_are_given_as_properties_or_in_the_jaas_text(self) -> None:
        credentials = {
            "sasl.oauthbearer.client.credentials.client.id": "orders",
            "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
            "sasl.oauthbearer.scope": "kafka",
        }
        jaas = {
            "sasl.jaas.config": f'a.shaded.{MODULE} required clientId="orders" clientSecret="s3cret" scope="kafka";'
        }
        expected = TokenLogin(TokenEndpoint("https://id.example/token", "orders", "s3cret", "kafka"))
        assert login({**HTTPS, **credentials}) == expected
        assert login({**HTTPS, **jaas}) == expected
        assert login({**HTTPS, **credentials, "sasl.jaas.config": f"{MODULE} required;"}) == expected
        both = {**HTTPS, **jaas, "sasl.oauthbearer.scope": "properties win"}
        assert login(both) == TokenLogin(
            TokenEndpoint("https://id.example/token", "orders", "s3cret", "properties win")
        )

    def test_what_is_said_to_the_endpoint_and_beside_the_token(self) -> None:
        options = 'clientId=a clientSecret=b extension_logicalCluster="lkc-1" ssl.truststore.location="/ca.p12"'
        more = {
            "sasl.oauthbearer.header.urlencode": "true",
            "sasl.login.connect.timeout.ms": "500",
            "sasl.login.read.timeout.ms": "700",
            "sasl.login.refresh.window.factor": "0.5",
            "sasl.login.callback.handler.class": f"{MODULE.rpartition('.')[0]}.OAuthBearerLoginCallbackHandler",
        }
        tls = Tls(truststore_location="/ca.p12")
        source = TokenEndpoint("https://id.example/token", "a", "b", "", True, 500, 700, tls)
        expected = TokenLogin(source, (("logicalCluster", "lkc-1"),), 0.5)
        assert login({**HTTPS, **more, "sasl.jaas.config": f"{MODULE} required {options};"}) == expected

    def test_a_token_may_be_in_a_file(self) -> None:
        assert login({**BEARER, URL: "file:///run/a%20token"}) == TokenLogin(TokenFile("/run/a token"))

    def test_a_token_without_signature_has_the_claims_that_are_named(self) -> None:
        options = (
            'unsecuredLoginStringClaim_sub="anna" unsecuredLoginNumberClaim_level="2" '
            'unsecuredLoginListClaim_scope=",a,b" unsecuredLoginLifetimeSeconds="60" '
            'unsecuredLoginExtension_traceId="x"'
        )
        claims = (("sub", "anna"), ("level", 2.0), ("scope", ("a", "b")))
        found = login({**BEARER, "sasl.jaas.config": f"{MODULE} required {options};"})
        assert found == TokenLogin(UnsecuredToken(claims, 60.0), (("traceId", "x"),))

    @pytest.mark.parametrize(
        ("properties", "key", "expected"),
        [
            (BEARER, URL, "unsecuredLoginStringClaim_sub"),
            ({**BEARER, URL: "ftp://id.example"}, URL, "file:///path"),
            ({**BEARER, URL: "https://id.example:port/"}, URL, "a port"),
            ({**BEARER, URL: "https://anna:s3cret@id.example/"}, URL, "without user and password"),
            (HTTPS, "sasl.oauthbearer.client.credentials.client.secret", "clientSecret in sasl.jaas.config"),
            (
                {**HTTPS, "sasl.jaas.config": f"{MODULE} required clientId=a clientSecret=s3cret extension_auth=b;"},
                "sasl.jaas.config",
                "extension_auth: expected a name of letters",
            ),
            (
                {
                    **HTTPS,
                    "sasl.jaas.config": f"{MODULE} required clientId=a clientSecret=s3cret ssl.truststore.type=X;",
                },
                "sasl.jaas.config",
                "ssl.truststore.type: expected one of",
            ),
            (
                {**BEARER, "sasl.jaas.config": f"{MODULE} required unsecuredLoginStringClaim_name=s3cret;"},
                "sasl.jaas.config",
                "no unsecuredLoginStringClaim_sub",
            ),
            (
                {**BEARER, "sasl.jaas.config": f"{MODULE} required unsecuredLoginNumberClaim_sub=s3cret;"},
                "sasl.jaas.config",
                "expected numbers",
            ),
            (
                {**HTTPS, "sasl.jaas.config": 'a.b.PlainLoginModule required username="a" password="s3cret";'},
                "sasl.jaas.config",
                "does not belong to OAUTHBEARER",
            ),
            (
                {**HTTPS, "sasl.login.callback.handler.class": "com.example.OwnHandler"},
                "sasl.login.callback.handler.class",
                "Java classes are not loaded",
            ),
            (
                {**HTTPS, "sasl.oauthbearer.jwt.retriever.class": "a.JwtBearerJwtRetriever"},
                "sasl.oauthbearer.jwt.retriever.class",
                "ClientCredentialsJwtRetriever",
            ),
            ({**HTTPS, "sasl.login.refresh.window.factor": "2"}, "sasl.login.refresh.window.factor", "from 0.5 to 1"),
        ],
    )
    def test_a_problem_names_its_option_and_no_secret(
        self, properties: dict[str, str], key: str, expected: str
    ) -> None:
        found = reasons(properties)
        assert expected in found[key]
        assert "s3cret" not in str(found)


class TestKerberos:
    def test_without_a_login_module_the_users_tickets_are_used(self) -> None:
        assert login(SASL) == KerberosLogin()
        assert login({**SASL, "sasl.kerberos.service.name": "broker"}) == KerberosLogin("broker")

    def test_a_keytab(self) -> None:
        jaas = f'{KRB5} required useKeyTab=true storeKey=true keyTab="/etc/k.keytab" principal="anna@EXAMPLE.COM";'
        expected = KerberosLogin("kafka", "anna@EXAMPLE.COM", "/etc/k.keytab")
        assert login({**SASL, "sasl.mechanism": "GSSAPI", "sasl.jaas.config": jaas}) == expected

    def test_a_cache_of_tickets(self) -> None:
        jaas = f'{KRB5} required useTicketCache=true ticketCache="krb5cc_7" serviceName="broker";'
        assert login({**SASL, "sasl.jaas.config": jaas}) == KerberosLogin("broker", ticket_cache="krb5cc_7")

    @pytest.mark.parametrize(
        ("jaas", "expected"),
        [
            (f"{KRB5} required;", "useTicketCache=true"),
            (f'{KRB5} required useKeyTab=true keyTab="/k";', "needs keyTab and principal"),
            (f'{KRB5} required useTicketCache=true serviceName="broker";', "serviceName"),
            ('a.b.PlainLoginModule required username="a" password="s3cret";', "does not belong to GSSAPI"),
        ],
    )
    def test_a_problem_says_what_was_expected(self, jaas: str, expected: str) -> None:
        found = reasons({**SASL, "sasl.jaas.config": jaas, "sasl.kerberos.service.name": "kafka"})
        assert expected in found["sasl.jaas.config"]
        assert "s3cret" not in str(found)
