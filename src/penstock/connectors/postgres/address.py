"""The address of a database and the user who connects to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.options import Properties

#: Parameters of a URL: libpq's names and the JDBC driver's, with libpq's name for each.
PARAMETERS = {
    **{name: name for name in ("application_name", "connect_timeout", "password", "user")},
    **{name: name for name in ("sslcert", "sslkey", "sslmode", "sslrootcert")},
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}

#: Parameters of libpq that the URL may override. A connection whose other end is silently gone is closed after about a
#: minute; without the time-outs that would take hours.
_DEFAULTS = {
    "application_name": "penstock",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


@dataclass(frozen=True)
class Address:
    """A database and the credentials for it. ``parameters`` are libpq's, sorted. ``str()`` shows no secret."""

    host: str
    port: int
    database: str
    username: str = ""
    password: str = field(default="", repr=False)
    parameters: Properties = ()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{host}:{self.port}/{self.database}"

    @property
    def connect_seconds(self) -> float:
        """How long an attempt to connect waits for an answer; infinity means forever, as libpq's 0 does."""
        given = dict(self.parameters).get("connect_timeout", _DEFAULTS["connect_timeout"])
        return float(given) if given.isdecimal() and int(given) > 0 else math.inf

    def connection_string(self) -> str:
        """The connection string of libpq, secrets included: ``host='localhost' port='5432' ...``."""
        given = {
            **_DEFAULTS,
            **dict(self.parameters),
            "host": self.host,
            "port": str(self.port),
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
        }
        quoted = ((key, value.replace("\\", "\\\\").replace("'", "\\'")) for key, value in given.items() if value)
        return " ".join(f"{key}='{value}'" for key, value in quoted)


def parse_address(url: str, username: str | None = None, password: str | None = None) -> Address:
    """The address of a URL, in libpq's form or in the JDBC driver's.

    Raises ValueError with the expected form. It never quotes the URL, which may hold a password.
    """
    plain = url.strip().removeprefix("jdbc:")
    try:
        parts = urlsplit(plain)
        port = parts.port
    except ValueError:
        raise ValueError("expected a port from 0 to 65535 after the host") from None
    if parts.scheme not in {"postgresql", "postgres"} or not plain.startswith(f"{parts.scheme}://") or parts.fragment:
        raise ValueError("expected postgresql://host:port/database, which may follow jdbc:")
    parameters = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    parameters = {name: value for name, value in parameters.items() if value}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in PARAMETERS:
            raise ValueError(f"parameter '{name}' is unknown; known: {', '.join(PARAMETERS)}")
        if PARAMETERS[name] in parameters:
            raise ValueError(f"'{PARAMETERS[name]}' is given twice")
        parameters[PARAMETERS[name]] = value
    for name, given in (("user", username), ("password", password)):
        if given is not None and parameters.pop(name, given) != given:
            raise ValueError(f"names another {name} than the option '{name if name == 'password' else 'username'}'")
    user = username if username is not None else parameters.pop("user", "")
    secret = password if password is not None else parameters.pop("password", "")
    if secret and not user:
        raise ValueError("a password is given without a user; set 'username'")
    host, database = parts.hostname or "localhost", unquote(parts.path.removeprefix("/")) or user
    if not database or "/" in database or "," in parts.netloc:
        raise ValueError("expected one host and the name of one database: postgresql://host:port/database")
    return Address(host, port or 5432, database, user, secret, tuple(sorted(parameters.items())))
