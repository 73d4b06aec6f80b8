"""The properties ``sasl.*``: how a client logs in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import OptionsError, Problem
from penstock.kafka.jaas import LoginModule, login_module
from penstock.options import BOOLEAN, TEXT, Codec, Property, number, one_of, read_properties
from penstock.tls import Tls, read_tls


@dataclass(frozen=True)
class PasswordLogin:
    """A name and its password, for PLAIN and SCRAM."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class UnsecuredToken:
    """A token without a signature, made by the client, for development. ``lifetime`` is in seconds."""

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...] = field(repr=False)
    lifetime: float = 3600.0


@dataclass(frozen=True)
class TokenFile:
    """A file with a token, which is read for each connection."""

    path: str


@dataclass(frozen=True)
class TokenEndpoint:
    """The server that issues tokens for the client's own credentials (RFC 6749, section 4.4)."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    urlencode: bool = False
    connect_ms: int | None = None
    read_ms: int | None = None
    tls: Tls = field(default_factory=Tls)


@dataclass(frozen=True)
class TokenLogin:
    """A bearer token, for OAUTHBEARER. New connections use it for the part ``window`` of its lifetime."""

    source: UnsecuredToken | TokenFile | TokenEndpoint
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    window: float = 0.8
    mechanism: str = "OAUTHBEARER"


@dataclass(frozen=True)
class KerberosLogin:
    """A ticket for the brokers' service: from a keytab, or from a ticket cache (None: the user's)."""

    service: str = "kafka"
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    mechanism: str = "GSSAPI"


Login = PasswordLogin | TokenLogin | KerberosLogin


def _parse_part(value: str) -> float:
    try:
        if 0.5 <= (found := float(value)) <= 1:
            return found
    except ValueError:
        pass
    raise ValueError("expected a number from 0.5 to 1")


def _check_address(value: str) -> str:
    address = value.strip()
    parts = urlsplit(address)
    if parts.scheme in {"http", "https"} and parts.hostname:
        if parts.username is not None or parts.password is not None:
            raise ValueError("expected a URL without user and password; give the client's id and secret as properties")
        try:
            parts.port  # noqa: B018 - raises if it is not a number
        except ValueError:
            raise ValueError("expected a port from 0 to 65535 in the URL") from None
        return address
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return address
    raise ValueError("expected a URL such as https://host/token, or file:///path for a file with a token")


def _class_codec(*known: str) -> Codec:
    """One of Kafka's Java classes. Its package does not matter: a shaded client has another one."""

    def parse(value: str) -> str:
        name = re.split(r"[.$]", value.strip())[-1]
        if name and name not in known:
            raise ValueError(f"Java classes are not loaded; expected one of Kafka's own: {', '.join(known)}")
        return name

    return Codec("Class", parse, quoted=False)


_JAAS = "sasl.jaas.config"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a property's name
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_WINDOW = "sasl.login.refresh.window.factor"

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

#: The properties ``sasl.*`` that have an effect.
LOGIN_PROPERTIES: Mapping[str, Property] = {
    "sasl.mechanism": Property(
        one_of(*MECHANISMS, fold=str.upper), "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI (the default)."
    ),
    _JAAS: Property(TEXT, "Login module of the mechanism, with its options; its package does not matter.", secret=True),
    "sasl.kerberos.service.name": Property(TEXT, "Service of the brokers' Kerberos principals; `kafka` by default."),
    "sasl.login.callback.handler.class": Property(
        _class_codec(
            "OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler", "DefaultLoginCallbackHandler"
        ),
        "One of Kafka's own classes; has no effect, as the other properties say where the token comes from.",
    ),
    "sasl.login.connect.timeout.ms": Property(number(1), "Longest wait for a connection to the token endpoint."),
    "sasl.login.read.timeout.ms": Property(number(1), "Longest wait for an answer of the token endpoint."),
    _WINDOW: Property(
        Codec("Double", _parse_part),
        "Part of a token's lifetime after which new connections get a new one; 0.8 by default.",
    ),
    _CLIENT_ID: Property(TEXT, "Id of this client at the token endpoint; also `clientId` in `sasl.jaas.config`."),
    _CLIENT_SECRET: Property(TEXT, "Its secret; also `clientSecret` in `sasl.jaas.config`.", secret=True),
    "sasl.oauthbearer.header.urlencode": Property(
        BOOLEAN, "Whether id and secret are URL-encoded in the request to the token endpoint."
    ),
    "sasl.oauthbearer.jwt.retriever.class": Property(
        _class_codec("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"),
        "One of Kafka's own classes for client credentials and files; has no effect.",
    ),
    "sasl.oauthbearer.jwt.validator.class": Property(
        _class_codec("DefaultJwtValidator", "ClientJwtValidator", "BrokerJwtValidator"),
        "One of Kafka's own classes; has no effect, as the brokers verify tokens.",
    ),
    "sasl.oauthbearer.scope": Property(TEXT, "Scope to ask for; also `scope` in `sasl.jaas.config`."),
    _ENDPOINT: Property(
        Codec("URL", _check_address, quoted=False),
        "URL of the server that issues tokens, `https://...`; or of a file with a token, `file:///...`.",
    ),
}


def read_login(properties: Mapping[str, str], sasl: bool) -> tuple[Login | None, list[Problem]]:
    """The login in the properties ``sasl.*``, and every problem of them. Without ``sasl`` there is none."""
    if not sasl:
        return None, []
    values, problems = read_properties(LOGIN_PROPERTIES, properties)
    if problems:
        return None, problems
    mechanism = values.get("sasl.mechanism", "GSSAPI")
    try:
        return _LOGINS[mechanism](mechanism, values), []
    except OptionsError as misfit:
        return None, list(misfit.problems)


def _login_error(reason: str, key: str = _JAAS, hint: str = "") -> OptionsError:
    return OptionsError((Problem(reason, key, hint=hint),))


_PACKAGE = "org.apache.kafka.common.security"


def _read_module(values: Mapping[str, Any], mechanism: str, name: str, example: str) -> LoginModule | None:
    if _JAAS not in values:
        return None
    try:
        found = login_module(values[_JAAS], example)
    except ValueError as malformed:
        raise _login_error(str(malformed)) from None
    if found.name != name:
        reason = f"login module {found.written} does not belong to {mechanism}: expected {example}"
        raise _login_error(reason, hint="or set sasl.mechanism, whose default is GSSAPI")
    return found


def _read_password(mechanism: str, values: Mapping[str, Any]) -> Login:
    package, name = ("plain", "PlainLoginModule") if mechanism == "PLAIN" else ("scram", "ScramLoginModule")
    example = f'\'{_PACKAGE}.{package}.{name} required username="..." password="...";\''
    found = _read_module(values, mechanism, name, example)
    if found is None:
        raise _login_error(f"is required with sasl.mechanism={mechanism}", hint=f"give it as {example}")
    for option in ("username", "password"):
        if option not in found.options:
            raise _login_error(f"has no {option}: expected {example}")
    return PasswordLogin(mechanism, found.options["username"], found.options["password"])


_UNSECURED = "unsecuredLogin"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")


def _read_token(mechanism: str, values: Mapping[str, Any]) -> Login:
    name = "OAuthBearerLoginModule"
    example = f"'{_PACKAGE}.oauthbearer.{name} required;' with or without options"
    found = _read_module(values, mechanism, name, example)
    options = found.options if found else {}
    url: str = values.get(_ENDPOINT, "")
    source: UnsecuredToken | TokenFile | TokenEndpoint
    prefix = "extension_"
    if url.startswith("file:"):
        source = TokenFile(unquote(urlsplit(url).path))
    elif url:
        source = _read_endpoint(url, options, values)
    elif any(key.startswith(_UNSECURED) for key in options):
        source, prefix = _read_unsecured(options), f"{_UNSECURED}Extension_"
    else:
        hint = 'for development, unsecuredLoginStringClaim_sub="..." in sasl.jaas.config makes tokens without signature'
        raise _login_error("is required with sasl.mechanism=OAUTHBEARER", _ENDPOINT, hint)
    extensions = tuple((key.removeprefix(prefix), value) for key, value in options.items() if key.startswith(prefix))
    for key, value in extensions:
        # KIP-342: RFC 7628 sends extensions with the token, under any name but the token's own.
        if not _EXTENSION_NAME.fullmatch(key) or key == "auth" or not value.isprintable():
            raise _login_error(f"{prefix}{key}: expected a name of letters, not 'auth', and printable text")
    return TokenLogin(source, extensions, values.get(_WINDOW, 0.8))


def _read_endpoint(url: str, options: Mapping[str, str], values: Mapping[str, Any]) -> TokenEndpoint:
    credentials = {_CLIENT_ID: "clientId", _CLIENT_SECRET: "clientSecret"}
    name, secret = (values.get(key) or options.get(option, "") for key, option in credentials.items())
    problems = [
        Problem(f"is required with {_ENDPOINT}", key, hint=f"or {option} in {_JAAS}")
        for (key, option), given in zip(credentials.items(), (name, secret), strict=True)
        if not given
    ]
    tls, wrong = read_tls({key: value for key, value in options.items() if key.startswith("ssl.")})
    problems += [Problem(f"{each.key}: {each.reason}", _JAAS, hint=each.hint) for each in wrong]
    if problems:
        raise OptionsError(tuple(problems))
    return TokenEndpoint(
        url,
        name,
        secret,
        values.get("sasl.oauthbearer.scope") or options.get("scope", ""),
        values.get("sasl.oauthbearer.header.urlencode", False),
        values.get("sasl.login.connect.timeout.ms"),
        values.get("sasl.login.read.timeout.ms"),
        tls,
    )


def _read_unsecured(options: Mapping[str, str]) -> UnsecuredToken:
    """The token that Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes with these options."""
    try:
        claims = tuple(_read_claims(options))
        lifetime = float(options.get(f"{_UNSECURED}LifetimeSeconds", "3600"))
    except ValueError:
        raise _login_error(f"expected numbers in {_UNSECURED}NumberClaim_... and {_UNSECURED}LifetimeSeconds") from None
    principal = options.get(f"{_UNSECURED}PrincipalClaimName", "sub")
    if principal not in dict(claims):
        raise _login_error(f"has no {_UNSECURED}StringClaim_{principal}, the name to log in as")
    return UnsecuredToken(claims, lifetime)


def _read_claims(options: Mapping[str, str]) -> Iterator[tuple[str, str | float | tuple[str, ...]]]:
    readers: dict[str, Callable[[str], str | float | tuple[str, ...]]] = {
        f"{_UNSECURED}StringClaim_": str,
        f"{_UNSECURED}NumberClaim_": float,
        # The first character is the separator.
        f"{_UNSECURED}ListClaim_": lambda value: tuple(value[1:].split(value[0])) if value else (),
    }
    for key, value in options.items():
        for prefix, read in readers.items():
            if key.startswith(prefix):
                yield key.removeprefix(prefix), read(value)


def _read_kerberos(mechanism: str, values: Mapping[str, Any]) -> Login:
    example = (
        '\'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="..." principal="...";\', '
        "or with useTicketCache=true"
    )
    found = _read_module(values, mechanism, "Krb5LoginModule", example)
    options = found.options if found else {"useTicketCache": "true"}
    service = values.get("sasl.kerberos.service.name") or options.get("serviceName") or "kafka"
    if options.get("serviceName", service) != service:
        raise _login_error("its serviceName differs from sasl.kerberos.service.name", hint="keep one of the two")
    keytab, cache = (options.get(key, "").lower() == "true" for key in ("useKeyTab", "useTicketCache"))
    if not keytab and not cache:
        raise _login_error(f"a job cannot ask for a password: expected {example}")
    if keytab and not (options.get("keyTab") and options.get("principal")):
        raise _login_error("useKeyTab=true needs keyTab and principal")
    return KerberosLogin(
        service,
        options.get("principal"),
        options["keyTab"] if keytab else None,
        options.get("ticketCache") if cache else None,
    )


_LOGINS: Mapping[str, Callable[[str, Mapping[str, Any]], Login]] = {
    **dict.fromkeys(MECHANISMS, _read_password),
    "OAUTHBEARER": _read_token,
    "GSSAPI": _read_kerberos,
}
