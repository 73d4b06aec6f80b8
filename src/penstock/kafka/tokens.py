"""Bearer tokens: made, read or requested when a connection needs one, and kept while they are valid."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from functools import partial
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from penstock.kafka.faults import CLIENT_CODE, Action, Fault, KafkaFault
from penstock.kafka.login import TokenEndpoint, TokenFile, TokenLogin, UnsecuredToken
from penstock.options import MASK
from penstock.tls import build_tls_context

_LARGEST_ANSWER = 1 << 20
_SECONDS = 30.0
_URL = "sasl.oauthbearer.token.endpoint.url"


class Tokens:
    """The token of one login. Thread-safe.

    Raises OptionsError when the certificates for its endpoint cannot be read.
    """

    def __init__(self, login: TokenLogin):
        self._login = login
        self._tls: ssl.SSLContext | None = None
        source = login.source
        if isinstance(source, TokenEndpoint) and source.url.startswith("https:"):
            self._tls = build_tls_context(source.tls, "sasl.jaas.config")
        self._lock = threading.Lock()
        self._token, self._good_until = "", 0.0
        #: Sent with the token (KIP-342).
        self.extensions = dict(login.extensions)

    def token(self) -> str:
        """A valid token; a new one if the last one is beyond ``sasl.login.refresh.window.factor``.

        May wait for the token endpoint. Raises :class:`KafkaFault`.
        """
        source = self._login.source
        with self._lock:
            if time.time() < self._good_until:
                return self._token
            now = time.time()
            if isinstance(source, UnsecuredToken):
                token, expires = _make_unsecured(source, now), now + source.lifetime
            elif isinstance(source, TokenFile):
                token, expires = _read(source), now
            else:
                token, expires = self._ask(source, now)
            self._token, self._good_until = token, now + (expires - now) * self._login.window
            return token

    def _ask(self, source: TokenEndpoint, now: float) -> tuple[str, float]:
        status, body = _post(source, self._tls)
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        answer = answer if isinstance(answer, dict) else {}
        if status != http.HTTPStatus.OK:
            raise _refusal_fault(source, status, answer)
        token = answer.get("access_token") or answer.get("id_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise _token_fault(f"{source.url} answered without access_token", f"check {_URL}")
        expires = _expiry(token)
        if expires is None and isinstance(answer.get("expires_in"), int | float):
            expires = now + answer["expires_in"]
        return token, now if expires is None else expires


def _post(source: TokenEndpoint, tls: ssl.SSLContext | None) -> tuple[int, bytes]:
    """Asks the endpoint. Redirections are not followed: the client's secret is only for this address."""
    parts = urlsplit(source.url)
    connect, read = ((each or _SECONDS * 1000) / 1000 for each in (source.connect_ms, source.read_ms))
    make = partial(http.client.HTTPSConnection, context=tls) if tls else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=connect)
    encode = quote_plus if source.urlencode else str
    login = f"{encode(source.client_id)}:{encode(source.client_secret)}"
    scope = {"scope": source.scope} if source.scope else {}
    headers = {
        "Authorization": "Basic " + base64.b64encode(login.encode()).decode(),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.connect()
        connection.sock.settimeout(read)
        connection.request("POST", path, urlencode({"grant_type": "client_credentials"} | scope), headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST_ANSWER)
    except ssl.SSLCertVerificationError as error:
        raise _token_fault(
            f"the certificate of {source.url} is not trusted: {error.verify_message}",
            'give ssl.truststore.location="..." and its type and password as options in sasl.jaas.config',
        ) from None
    except (OSError, http.client.HTTPException) as error:
        detail = f"{source.url}: {getattr(error, 'strerror', None) or error or type(error).__name__}"
        hint = f"check {_URL}, and that every machine can reach it"
        raise KafkaFault(Fault(CLIENT_CODE, "token endpoint not reached", Action.RETRY, hint), detail) from None
    finally:
        connection.close()


def _refusal_fault(source: TokenEndpoint, status: int, answer: dict[str, Any]) -> KafkaFault:
    """The fault of an error answer (RFC 6749, section 5.2), which may quote the request."""
    message = ": ".join(str(answer[key]) for key in ("error", "error_description") if answer.get(key))
    message = message.replace(source.client_secret, MASK)[:500]
    detail = f"{source.url} answered with status {status}" + (f", {message}" if message else "")
    if status in {408, 429} or status >= 500:
        return KafkaFault(Fault(CLIENT_CODE, "token endpoint failed", Action.RETRY, "ask its operator"), detail)
    return _token_fault(detail, f"check {_URL}, the client's id and secret, and the scope")


def _token_fault(detail: str, hint: str) -> KafkaFault:
    return KafkaFault(Fault(CLIENT_CODE, "no token", Action.REFUSED, hint), detail)


def _read(source: TokenFile) -> str:
    try:
        with open(source.path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII text"
        hint = f"check {_URL}; the file must be at this path on every machine"
        raise _token_fault(f"'{source.path}' cannot be read: {reason}", hint) from None
    if not token or not token.isprintable():
        raise _token_fault(f"'{source.path}' holds no token", f"check {_URL}")
    return token


def _make_unsecured(source: UnsecuredToken, now: float) -> str:
    """A JSON Web Token without signature (RFC 7519, section 6)."""
    claims = {**dict(source.claims), "iat": now, "exp": now + source.lifetime}
    return f"{_encode_part({'alg': 'none'})}.{_encode_part(claims)}."


def _encode_part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _expiry(token: str) -> float | None:
    """The expiry time of a JSON Web Token, in seconds since 1970; None if it has none, or is not one."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None
