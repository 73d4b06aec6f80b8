"""The properties ``sasl.*``: how a client says who it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import Problem
from penstock.kafka.jaas import LoginModule, login_module
from penstock.options import BOOLEAN, TEXT, Codec, Property, number, one_of
from penstock.tls import Tls, read_tls


@dataclass(frozen=True)
class PasswordLogin:
    """A name and its password, for PLAIN and SCRAM."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class UnsecuredToken:
    """A token without a signature, made here, for development. Claims as JSON takes them; seconds."""

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...] = field(repr=False)
    lifetime: float = 3600.0


@dataclass(frozen=True)
class TokenFile:
    """A file with a token, read for each connection."""

    path: str


@dataclass(frozen=True)
class TokenEndpoint:
    """Where tokens are asked for with a client's own credentials (RFC 6749, section 4.4). Milliseconds."""

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
    """A bearer token, for OAUTHBEARER. ``window`` is the part of its lifetime for which new connections use it."""

    source: UnsecuredToken | TokenFile | TokenEndpoint
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    window: float = 0.8
    mechanism: str = "OAUTHBEARER"


@dataclass(frozen=True)
class KerberosLogin:
    """A ticket for the brokers' service: from a keytab, or from a cache of tickets (None: the one of the user)."""

    service: str = "kafka"
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    mechanism: str = "GSSAPI"


Login = PasswordLogin | TokenLogin | KerberosLogin

# --- single properties -----------------------------------------------------------------------------------------


def _part(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        raise ValueError("expected a number") from None
    if not 0.5 <= found <= 1:
        raise ValueError("expected a number from 0.5 to 1")
    return found


def _token_address(value: str) -> str:
    address = value.strip()
    parts = urlsplit(address)
    if parts.scheme in {"http", "https"} and parts.hostname:
        if parts.username is not None or parts.password is not None:
            raise ValueError("expected an address without user and password; the client's id and secret are properties")
        try:
            parts.port  # noqa: B018 - raises when it is no number
        except ValueError:
            raise ValueError("expected a port from 0 to 65535 in the address") from None
        return address
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and parts.path:
        return address
    raise ValueError("expected an address such as https://host/token, or file:///path of a file with a token")


def _of_java(value: str, known: tuple[str, ...]) -> str:
    """A class of Kafka's that names what is done here; in a shaded client its package is another one."""
    name = re.split(r"[.$]", value.strip())[-1]
    if name and name not in known:
        raise ValueError(f"Java classes are not loaded; expected one of Kafka's own: {', '.join(known)}")
    return name


def _handler(value: str) -> str:
    return _of_java(
        value,
        ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler", "DefaultLoginCallbackHandler"),
    )


def _retriever(value: str) -> str:
    return _of_java(value, ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"))


_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a property's name
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_WINDOW = "sasl.login.refresh.window.factor"

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

#: Those of ``sasl.*`` that act.
LOGIN_PROPERTIES: Mapping[str, Property] = {
    "sasl.mechanism": Property(
        one_of(*MECHANISMS, fold=str.upper), "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI (the default)."
    ),
    "sasl.jaas.config": Property(
        TEXT, "Login module of the mechanism, with its options; its package does not matter.", secret=True
    ),
    "sasl.kerberos.service.name": Property(TEXT, "Service of the brokers' Kerberos principals; `kafka` by default."),
    "sasl.login.callback.handler.class": Property(
        Codec("Class", _handler, quoted=False),
        "One of Kafka's own, which change nothing: what gives the token follows from the other properties.",
    ),
    "sasl.login.connect.timeout.ms": Property(number(1), "Longest wait for a connection to the token endpoint."),
    "sasl.login.read.timeout.ms": Property(number(1), "Longest wait for an answer of the token endpoint."),
    _WINDOW: Property(
        Codec("Double", _part),
        "Part of a token's lifetime after which a new connection gets a new one; 0.8 by default.",
    ),
    _CLIENT_ID: Property(TEXT, "Id of this client at the token endpoint; also `clientId` in `sasl.jaas.config`."),
    _CLIENT_SECRET: Property(TEXT, "Its secret; also `clientSecret` in `sasl.jaas.config`.", secret=True),
    "sasl.oauthbearer.header.urlencode": Property(
        BOOLEAN, "Whether id and secret are URL-encoded in the request to the token endpoint."
    ),
    "sasl.oauthbearer.jwt.retriever.class": Property(
        Codec("Class", _retriever, quoted=False),
        "One of Kafka's own for client credentials and files, which change nothing.",
    ),
    "sasl.oauthbearer.scope": Property(TEXT, "Scope to ask for; also `scope` in `sasl.jaas.config`."),
    _ENDPOINT: Property(
        Codec("URL", _token_address, quoted=False),
        "Where tokens are asked for, `https://...`; or a file with a token, `file:///...`.",
    ),
}

# --- all of them together --------------------------------------------------------------------------------------


def read_login(properties: Mapping[str, str], sasl: bool) -> tuple[Login | None, list[Problem]]:
    """What the properties ``sasl.*`` among these say, and every problem of them; no login without ``sasl``."""
    values: dict[str, Any] = {}
    problems = []
    for name, each in LOGIN_PROPERTIES.items():
        if sasl and name in properties:
            try:
                values[name] = each.read(properties[name])
            except ValueError as malformed:
                problems.append(Problem(str(malformed), name))
    if not sasl or problems:
        return None, problems
    mechanism = values.get("sasl.mechanism", "GSSAPI")
    try:
        return _LOGINS[mechanism](mechanism, values), []
    except _Misfit as misfit:
        return None, list(misfit.problems)


class _Misfit(Exception):
    def __init__(self, *problems: Problem):
        super().__init__(problems)
        self.problems = problems


_JAAS = "sasl.jaas.config"
_PACKAGE = "org.apache.kafka.common.security"


def _module(values: Mapping[str, Any], mechanism: str, name: str, example: str) -> LoginModule | None:
    if _JAAS not in values:
        return None
    try:
        found = login_module(values[_JAAS], example)
    except ValueError as malformed:
        raise _Misfit(Problem(str(malformed), _JAAS)) from None
    if found.name != name:
        reason = f"login module {found.written} does not belong to {mechanism}: expected {example}"
        raise _Misfit(Problem(reason, _JAAS, hint="or set sasl.mechanism, whose default is GSSAPI"))
    return found


def _password(mechanism: str, values: Mapping[str, Any]) -> Login:
    package, name = ("plain", "PlainLoginModule") if mechanism == "PLAIN" else ("scram", "ScramLoginModule")
    example = f'\'{_PACKAGE}.{package}.{name} required username="..." password="...";\''
    found = _module(values, mechanism, name, example)
    if found is None:
        raise _Misfit(Problem(f"is required with sasl.mechanism={mechanism}", _JAAS, hint=f"give it as {example}"))
    for option in ("username", "password"):
        if option not in found.options:
            raise _Misfit(Problem(f"has no {option}: expected {example}", _JAAS))
    return PasswordLogin(mechanism, found.options["username"], found.options["password"])


# --- tokens ----------------------------------------------------------------------------------------------------

_UNSECURED = "unsecuredLogin"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")


def _token(mechanism: str, values: Mapping[str, Any]) -> Login:
    name = "OAuthBearerLoginModule"
    example = f"'{_PACKAGE}.oauthbearer.{name} required;' with or without options"
    found = _module(values, mechanism, name, example)
    options = found.options if found else {}
    url: str = values.get(_ENDPOINT, "")
    source: UnsecuredToken | TokenFile | TokenEndpoint
    prefix = "extension_"
    if url.startswith("file:"):
        source = TokenFile(unquote(urlsplit(url).path))
    elif url:
        source = _endpoint(url, options, values)
    elif any(key.startswith(_UNSECURED) for key in options):
        source, prefix = _unsecured(options), f"{_UNSECURED}Extension_"
    else:
        hint = 'for development, unsecuredLoginStringClaim_sub="..." in sasl.jaas.config makes tokens without signature'
        raise _Misfit(Problem("is required with sasl.mechanism=OAUTHBEARER", _ENDPOINT, hint=hint))
    extensions = tuple((key.removeprefix(prefix), value) for key, value in options.items() if key.startswith(prefix))
    for key, value in extensions:
        # KIP-342: what RFC 7628 lets be said beside the token, under any name but that of the token itself.
        if not _EXTENSION_NAME.fullmatch(key) or key == "auth" or not value.isprintable():
            raise _Misfit(Problem(f"{prefix}{key}: expected a name of letters, not 'auth', and printable text", _JAAS))
    return TokenLogin(source, extensions, values.get(_WINDOW, 0.8))


def _endpoint(url: str, options: Mapping[str, str], values: Mapping[str, Any]) -> TokenEndpoint:
    given = {
        _CLIENT_ID: values.get(_CLIENT_ID) or options.get("clientId"),
        _CLIENT_SECRET: values.get(_CLIENT_SECRET) or options.get("clientSecret"),
    }
    problems = [
        Problem(f"is required with {_ENDPOINT}", key, hint=f"or {option} in {_JAAS}")
        for (key, value), option in zip(given.items(), ("clientId", "clientSecret"), strict=True)
        if not value
    ]
    tls, wrong = read_tls({key: value for key, value in options.items() if key.startswith("ssl.")})
    problems += [Problem(f"{each.key}: {each.reason}", _JAAS, hint=each.hint) for each in wrong]
    if problems:
        raise _Misfit(*problems)
    return TokenEndpoint(
        url,
        str(given[_CLIENT_ID]),
        str(given[_CLIENT_SECRET]),
        values.get("sasl.oauthbearer.scope") or options.get("scope", ""),
        values.get("sasl.oauthbearer.header.urlencode", False),
        values.get("sasl.login.connect.timeout.ms"),
        values.get("sasl.login.read.timeout.ms"),
        tls,
    )


def _unsecured(options: Mapping[str, str]) -> UnsecuredToken:
    """What Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes of its options."""
    try:
        claims = tuple(_claims(options))
        lifetime = float(options.get(f"{_UNSECURED}LifetimeSeconds", "3600"))
    except ValueError:
        reason = f"expected numbers in {_UNSECURED}NumberClaim_... and {_UNSECURED}LifetimeSeconds"
        raise _Misfit(Problem(reason, _JAAS)) from None
    principal = options.get(f"{_UNSECURED}PrincipalClaimName", "sub")
    if principal not in dict(claims):
        reason = f"has no {_UNSECURED}StringClaim_{principal}, the name to log in as"
        raise _Misfit(Problem(reason, _JAAS))
    return UnsecuredToken(claims, lifetime)


def _claims(options: Mapping[str, str]) -> Iterator[tuple[str, str | float | tuple[str, ...]]]:
    kinds: dict[str, Callable[[str], str | float | tuple[str, ...]]] = {
        "StringClaim_": str,
        "NumberClaim_": float,
        # The first character says what stands between the parts.
        "ListClaim_": lambda value: tuple(value[1:].split(value[0])) if value else (),
    }
    for key, value in options.items():
        for kind, read in kinds.items():
            if key.startswith(_UNSECURED + kind):
                yield key.removeprefix(_UNSECURED + kind), read(value)


# --- Kerberos --------------------------------------------------------------------------------------------------


def _kerberos(mechanism: str, values: Mapping[str, Any]) -> Login:
    example = (
        '\'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="..." principal="...";\', '
        "or with useTicketCache=true"
    )
    found = _module(values, mechanism, "Krb5LoginModule", example)
    options = found.options if found else {"useTicketCache": "true"}
    service = values.get("sasl.kerberos.service.name") or options.get("serviceName") or "kafka"
    if options.get("serviceName", service) != service:
        raise _Misfit(Problem("its serviceName is not that of sasl.kerberos.service.name", _JAAS, hint="keep one"))
    keytab, cache = (options.get(key, "").lower() == "true" for key in ("useKeyTab", "useTicketCache"))
    if not keytab and not cache:
        raise _Misfit(Problem(f"nobody can be asked for a password: expected {example}", _JAAS))
    if keytab and not (options.get("keyTab") and options.get("principal")):
        raise _Misfit(Problem("useKeyTab=true needs keyTab and principal", _JAAS))
    return KerberosLogin(
        service,
        options.get("principal"),
        options["keyTab"] if keytab else None,
        options.get("ticketCache") if cache else None,
    )


_LOGINS: Mapping[str, Callable[[str, Mapping[str, Any]], Login]] = {
    "PLAIN": _password,
    "SCRAM-SHA-256": _password,
    "SCRAM-SHA-512": _password,
    "OAUTHBEARER": _token,
    "GSSAPI": _kerberos,
}
