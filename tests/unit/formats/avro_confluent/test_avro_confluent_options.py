"""What the options of avro-confluent mean, and what is wrong with them, without a registry."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import OptionsError, SchemaError
from penstock.formats.avro_confluent.factory import FORMAT
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.options import MAP
from penstock.types import parse_columns

URL = {"url": "http://registry:8081"}


def bound(**given: str) -> AvroConfluentOptions:
    return AvroConfluentOptions.from_text({**URL, **given}, prefix="")


def problems(given: dict[str, str]) -> list[str]:
    with pytest.raises(OptionsError) as raised:
        AvroConfluentOptions.from_text({**URL, **given})
    return [f"{each.key}: {each.reason}" for each in raised.value.problems]


def test_defaults_are_flinks() -> None:
    found = bound()
    assert (found.subject, found.schema, found.auto_register, found.properties) == (None, None, True, ())
    assert found.legacy_timestamps
    assert found.settings.authorization == ""


def test_former_names_work() -> None:
    found = AvroConfluentOptions.from_text(
        {
            "schema-registry.url": "http://registry:8081",
            "schema-registry.subject": "s",
            "schema-registry.schema": '"int"',
        }
        | {"schema-registry.schema": '{"type": "record", "name": "r", "fields": []}'}
    )
    assert (str(found.addresses[0]), found.subject) == ("http://registry:8081", "s")


def test_a_registry_is_required() -> None:
    with pytest.raises(OptionsError, match=r"'avro-confluent\.url': is required .*http://localhost:8081"):
        AvroConfluentOptions.from_text({}, prefix="avro-confluent.")


def test_addresses_are_several_and_may_have_logins() -> None:
    found = bound(url="http://one:8081/, https://anna:p%40ss@two/path ,http://bert:pa/ss@three")
    assert [str(each) for each in found.addresses] == ["http://one:8081", "https://two/path", "http://three"]
    assert [each.login for each in found.addresses] == ["", "anna:p@ss", "bert:pa/ss"]
    assert AvroConfluentOptions.from_text(found.to_text()) == found


def test_properties_are_a_map_or_single_entries_and_options_win() -> None:
    whole = bound(properties="retries.wait.ms:5, 'http.read.timeout.ms':'7'", **{"properties.retries.wait.ms": "6"})
    assert whole.properties == (("http.read.timeout.ms", "7"), ("retries.wait.ms", "6"))
    assert (whole.settings.wait_ms, whole.settings.read_ms) == (6, 7)
    both = bound(**{"basic-auth.user-info": "a:option", "properties.basic.auth.user.info": "a:property"})
    assert both.settings == bound(**{"basic-auth.user-info": "a:option"}).settings
    trust = bound(
        **{
            "ssl.truststore.location": "/option",
            "properties.schema.registry.ssl.truststore.location": "/property",
            "properties.schema.registry.ssl.truststore.type": "PEM",
        }
    )
    assert (trust.settings.tls.truststore_location, trust.settings.tls.truststore_type) == ("/option", "PEM")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        ("b:1,a:2", (("a", "2"), ("b", "1"))),
        (" a : x:y , ", (("a", "x:y"),)),
        ("a:'x,''y'','", (("a", "x,'y',"),)),
        ('"a:b":c', (("a:b", "c"),)),
        ("a:", (("a", ""),)),
        ("'a:1,2',b:3", (("a", "1,2"), ("b", "3"))),
        ("'a':'1','b':'2'", (("a", "1"), ("b", "2"))),
    ],
)
def test_maps_are_written_as_in_flink(text: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert MAP.parse(text) == pairs
    assert MAP.parse(MAP.show(pairs)) == pairs


@pytest.mark.parametrize("text", ["a", "a:1,b", ":1"])
def test_a_value_that_is_not_a_map_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="pairs 'key:value'"):
        MAP.parse(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"url": ""}, ["url: expected the address of a schema registry"]),
        ({"url": "registry:8081"}, ["url: expected http://host:port or https://host:port, not 'registry:8081'"]),
        ({"url": "http://:8081"}, ["url: expected http://host:port or https://host:port, not 'http://:8081'"]),
        ({"url": "http://a:b"}, ["url: expected http://host:port or https://host:port, not 'http://a:b'"]),
        ({"schema": '"int"'}, ["schema: expected the schema of a record"]),
        ({"schema": "{"}, ["schema: an Avro schema must be a JSON document: "]),
        ({"auto.register.schemas": "yes"}, ["auto.register.schemas: expected true or false, not 'yes'"]),
        ({"request.timeout": "0 s"}, ["request.timeout: expected a duration greater than 0"]),
        ({"properties.max.retires": "3"}, ["properties.max.retires: is not a property of the registry's client"]),
        ({"properties.retries.wait.ms": "soon"}, ["properties.retries.wait.ms: expected a whole number, not 'soon'"]),
        (
            {"properties.http.read.timeout.ms": "0"},
            ["properties.http.read.timeout.ms: expected a number between 1 and 2147483647, not '0'"],
        ),
        ({"properties": "hush"}, ["properties: expected pairs 'key:value', joined by commas"]),
        (
            {"properties.schema.registry.ssl.truststore.type": "X"},
            ["properties.schema.registry.ssl.truststore.type: expected one of 'JKS', 'PKCS12', 'PEM', not 'X'"],
        ),
        ({"ssl.keystore.location": "s3://b/k"}, ["ssl.keystore.location: expected the path of a local file"]),
        ({"basic-auth.user-info": "hush"}, ["basic-auth.user-info: expected 'user:password'"]),
        ({"basic-auth.credentials-source": "USER_INFO"}, ["basic-auth.user-info: expected 'user:password'"]),
        (
            {"basic-auth.credentials-source": "SASL_INHERIT"},
            ["basic-auth.credentials-source: 'SASL_INHERIT' is not a supported source of credentials"],
        ),
        (
            {"properties.bearer.auth.credentials.source": "OAUTHBEARER"},
            ["properties.bearer.auth.credentials.source: 'OAUTHBEARER' is not a supported source of credentials"],
        ),
        ({"bearer-auth.credentials-source": "STATIC_TOKEN"}, ["bearer-auth.token: expected a token"]),
        ({"bearer-auth.token": "hush\nhush"}, ["bearer-auth.token: expected a token"]),
        (
            {"bearer-auth.credentials-source": "STATIC_TOKEN", "basic-auth.credentials-source": "URL"},
            ["bearer-auth.credentials-source: cannot be combined with 'basic-auth.credentials-source'"],
        ),
    ],
)
def test_problems_name_their_option(given: dict[str, str], expected: list[str]) -> None:
    found = problems(given)
    assert len(found) == len(expected)
    for each, start in zip(found, expected, strict=True):
        assert each.startswith(start)
        assert "hush" not in each


def test_no_secret_is_shown() -> None:
    secrets = {
        "url": "http://anna:hush@registry",
        "ssl.keystore.password": "hush",
        "ssl.truststore.password": "hush",
        "basic-auth.user-info": "anna:hush",
        "properties.basic.auth.user.info": "anna:hush",
        "properties.schema.registry.ssl.key.password": "hush",
    }
    for given in (secrets, {"bearer-auth.token": "hush", "bearer-auth.credentials-source": "STATIC_TOKEN"}):
        found = bound(**given)
        decoder = FORMAT.decoder(parse_columns("a INT"), found)
        assert "hush" not in repr((found, found.settings, decoder))
        assert "hush" in str(found.to_text())
        assert pickle.loads(pickle.dumps(found)) == found
        assert pickle.loads(pickle.dumps(found)).settings == found.settings


def test_writing_needs_a_subject() -> None:
    with pytest.raises(OptionsError, match="'subject': is required to write"):
        FORMAT.encoder(parse_columns("a INT"), bound())
    FORMAT.decoder(parse_columns("a INT"), bound())


def test_columns_that_do_not_fit_are_named_before_anything_is_read_or_written() -> None:
    with pytest.raises(SchemaError, match="legacy mapping of timestamps has no TIMESTAMP_LTZ"):
        FORMAT.decoder(parse_columns("a TIMESTAMP_LTZ(3)"), bound())
    given = bound(subject="s", schema='{"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}')
    for make in (FORMAT.decoder, FORMAT.encoder):
        with pytest.raises(SchemaError, match="'a'"):
            make(parse_columns("a INT"), given)
