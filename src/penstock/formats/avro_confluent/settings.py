"""The settings of a schema registry's client: addresses, credentials, TLS and timeouts, from a table's options.

The format also accepts properties with the names of Confluent's Java client. If an option and a property set the same
thing, the option wins, as in Flink.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from penstock.errors import Problem, nearest
from penstock.options import TEXT, Codec, Property, number
from penstock.tls import TLS_PROPERTIES, Tls, read_tls

_SSL = "schema.registry."
_MILLISECONDS = number(1)

#: The client's properties that have an effect, without ``schema.registry.ssl.*``.
PROPERTIES: Mapping[str, Property] = {
    "basic.auth.credentials.source": Property(TEXT, "As the option `basic-auth.credentials-source`."),
    "basic.auth.user.info": Property(TEXT, "As the option `basic-auth.user-info`.", secret=True),
    "bearer.auth.credentials.source": Property(TEXT, "As the option `bearer-auth.credentials-source`."),
    "bearer.auth.token": Property(TEXT, "As the option `bearer-auth.token`.", secret=True),
    "http.connect.timeout.ms": Property(_MILLISECONDS, "Longest wait for a connection, 60000 by default."),
    "http.read.timeout.ms": Property(_MILLISECONDS, "Longest wait for a part of an answer, 60000 by default."),
    "retries.wait.ms": Property(_MILLISECONDS, "First wait before the registry is asked again, 1000 by default."),
    "retries.max.wait.ms": Property(_MILLISECONDS, "Longest wait before it is asked again, 20000 by default."),
}
#: The settings that some of the properties set.
_TIMES = {
    "http.connect.timeout.ms": "connect_ms",
    "http.read.timeout.ms": "read_ms",
    "retries.wait.ms": "wait_ms",
    "retries.max.wait.ms": "longest_wait_ms",
}


@dataclass(frozen=True)
class RegistryAddress:
    """The URL of a registry without secrets, and the user and password that it contained."""

    url: str
    login: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.url


def _parse_addresses(given: str) -> tuple[RegistryAddress, ...]:
    return tuple(_parse_address(each.strip()) for each in given.split(",") if each.strip())


def _parse_address(given: str) -> RegistryAddress:
    if "@" not in given:
        return RegistryAddress(given.rstrip("/"))
    # Everything before the last @ is a login, even if the address is invalid then: it may be a secret.
    before, _, behind = given.rpartition("@")
    scheme, slashes, login = before.partition("//")
    return RegistryAddress(f"{scheme}{slashes}{behind}".rstrip("/"), unquote(login))


def _format_addresses(addresses: tuple[RegistryAddress, ...]) -> str:
    def format_address(each: RegistryAddress) -> str:
        return each.url.replace("//", f"//{quote(each.login, safe=':')}@", 1) if each.login else each.url

    return ",".join(map(format_address, addresses))


#: Addresses separated by commas; each may have user and password before the host.
URLS = Codec("String", _parse_addresses, _format_addresses)


@dataclass(frozen=True, kw_only=True)
class RegistrySettings:
    """The connection to one registry. Equal settings share a client. Times are milliseconds."""

    addresses: tuple[RegistryAddress, ...]
    authorization: str = field(default="", repr=False)
    tls: Tls = field(default_factory=Tls)
    timeout_ms: float = 120_000
    connect_ms: int = 60_000
    read_ms: int = 60_000
    wait_ms: int = 1_000
    longest_wait_ms: int = 20_000

    def authorization_for(self, address: RegistryAddress) -> str:
        """The value of the Authorization header, or an empty string."""
        return _encode_basic(address.login) if address.login and not self.authorization else self.authorization


def read_settings(
    addresses: tuple[RegistryAddress, ...], given: Mapping[str, str], timeout_ms: float, own: Mapping[str, str]
) -> tuple[RegistrySettings, list[Problem]]:
    """The settings from addresses and properties, and the problems of the properties.

    ``given`` are the client's properties. ``own`` are options that set properties, by the option's key. Problems name
    the key that the user wrote.
    """
    problems: list[Problem] = []
    written = {name: f"properties.{name}" for name in given} | {_client_property(key): key for key in own}
    properties = {**given, **{_client_property(key): value for key, value in own.items()}}
    values: dict[str, Any] = {}
    for name, value in properties.items():
        if name in PROPERTIES:
            try:
                values[name] = PROPERTIES[name].read(value)
            except ValueError as malformed:
                problems.append(Problem(str(malformed), written[name]))
        elif name.removeprefix(_SSL) not in TLS_PROPERTIES or not name.startswith(_SSL):
            known = [*PROPERTIES, *(_SSL + each for each in TLS_PROPERTIES)]
            hint = nearest(name, known) or f"known are {', '.join(known[: len(PROPERTIES)])} and {_SSL}ssl.*"
            problems.append(Problem("is not a property of the registry's client", written[name], hint=hint))
    tls, unfit = read_tls({name.removeprefix(_SSL): each for name, each in properties.items() if name.startswith(_SSL)})
    problems += [Problem(each.reason, written.get(_SSL + each.key, each.key), hint=each.hint) for each in unfit]
    authorization, refused = _build_authorization(values, written)
    times = {name: values[key] for key, name in _TIMES.items() if key in values}
    found = RegistrySettings(addresses=addresses, authorization=authorization, tls=tls, timeout_ms=timeout_ms, **times)
    return found, problems + refused


def _client_property(option: str) -> str:
    """The client's property that an option sets, as in Flink's RegistryAvroFormatFactory."""
    return _SSL + option if option.startswith("ssl.") else option.replace("-", ".")


def check_addresses(addresses: tuple[RegistryAddress, ...]) -> Iterator[Problem]:
    """The problems of the addresses of a registry."""
    if not addresses:
        yield Problem("expected the address of a schema registry", "url", hint="for example http://localhost:8081")
    for each in addresses:
        try:
            parts = urlsplit(each.url)
            fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            yield Problem(f"expected http://host:port or https://host:port, not '{each.url}'", "url")


def _build_authorization(values: Mapping[str, Any], written: Mapping[str, str]) -> tuple[str, list[Problem]]:
    """The header for all addresses and its problems. It is empty if there is none, or if each address has its own."""
    basic, bearer = "basic.auth.credentials.source", "bearer.auth.credentials.source"
    if basic in values and bearer in values:
        return "", [Problem(f"cannot be combined with '{written[basic]}'", written[bearer], hint="keep one of the two")]
    source = values.get(basic)
    if source == "USER_INFO" or (source is None and bearer not in values and "basic.auth.user.info" in values):
        login = values.get("basic.auth.user.info", "")
        if ":" in login:
            return _encode_basic(login), []
        return "", [Problem("expected 'user:password'", written.get("basic.auth.user.info", "basic-auth.user-info"))]
    if source is not None and source != "URL":
        return "", [_unknown_source(source, ("URL", "USER_INFO"), written[basic])]
    source = values.get(bearer)
    if source == "STATIC_TOKEN" or (source is None and basic not in values and "bearer.auth.token" in values):
        token = values.get("bearer.auth.token", "").strip()
        if token and token.isascii() and token.isprintable():
            return f"Bearer {token}", []
        return "", [Problem("expected a token", written.get("bearer.auth.token", "bearer-auth.token"))]
    if source is not None:
        return "", [_unknown_source(source, ("STATIC_TOKEN",), written[bearer])]
    return "", []


def _unknown_source(source: str, known: tuple[str, ...], key: str) -> Problem:
    return Problem(f"'{source}' is not a supported source of credentials", key, hint=f"use {' or '.join(known)}")


def _encode_basic(login: str) -> str:
    return "Basic " + b64encode(login.encode()).decode()
