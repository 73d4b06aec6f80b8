"""Logging in on a connection: one exchange for all mechanisms, with slow steps outside of the event loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kafka.future import Future
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from penstock.kafka.faults import KafkaFault, fault_from_code
from penstock.kafka.kerberos import Tickets
from penstock.kafka.login import KerberosLogin, Login, PasswordLogin, TokenLogin
from penstock.kafka.tokens import Tokens

_FAILED = fault_from_code(58)


class Authentication:
    """How the connections of one client log in.

    Raises OptionsError if this machine lacks something that the login needs.
    """

    def __init__(self, login: Login):
        self._login = login
        self._prepare, self._hint = _prepare_mechanism(login)

    async def __call__(self, connection: Any, timeout_at: float | None = None) -> None:
        """Log in on a new connection, or again on one whose session ends (KIP-368).

        Raises :class:`KafkaFault` or an error of the client library.
        """
        timeout_at = connection._timeout_at() if timeout_at is None else timeout_at
        request = SaslHandshakeRequest(mechanism=self._login.mechanism, max_version=1)
        answer = await connection._send_request(request, timeout_at=timeout_at)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise KafkaFault(
                fault_from_code(answer.error_code), f"{self._login.mechanism}; the listener offers {offered}"
            )
        host = connection.transport.host
        waits = not isinstance(self._login, PasswordLogin)
        mechanism = await _run_in_thread(connection.net, lambda: self._prepare(host)) if waits else self._prepare(host)
        lifetime = 0
        while not mechanism.is_done():
            answer = await connection._send_request(
                SaslAuthenticateRequest(mechanism.auth_bytes()), timeout_at=timeout_at
            )
            if answer.error_code:
                raise KafkaFault(
                    replace(fault_from_code(answer.error_code), hint=self._hint), answer.error_message or ""
                )
            mechanism.receive(answer.auth_bytes)
            lifetime = answer.session_lifetime_ms
        if not mechanism.is_authenticated():
            raise KafkaFault(_FAILED, "the broker ended the exchange early")
        connection._reauth.session_updated(lifetime)


async def _run_in_thread(net: Any, work: Callable[[], Any]) -> Any:
    """The result of ``work``, which runs in a separate thread, so that connections to other brokers do not wait."""
    result = Future()

    def run() -> None:
        try:
            finish, outcome = result.success, work()
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            finish, outcome = result.failure, error
        with contextlib.suppress(RuntimeError, OSError):  # the client was closed meanwhile
            net.call_soon_threadsafe(lambda: finish(outcome))

    threading.Thread(target=run, name="penstock-login", daemon=True).start()
    return await result


class _Bearer(AbstractTokenProvider):  # type: ignore[misc]
    """One token, as kafka-python takes it."""

    def __init__(self, token: str, extensions: dict[str, str]):
        self._token, self._extensions = token, extensions

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions


def _prepare_mechanism(login: Login) -> tuple[Callable[[str], Any], str]:
    """A function from a host to the login's mechanism, and a hint for when a broker refuses the login."""
    if isinstance(login, KerberosLogin):
        return Tickets(login).mechanism, "check sasl.kerberos.service.name, and the brokers' rules for principals"
    if isinstance(login, TokenLogin):
        tokens = Tokens(login)
        hint = "the brokers do not accept the token; compare its issuer, audience and scope with their settings"
        return lambda host: SaslMechanismOAuth(
            sasl_oauth_token_provider=_Bearer(tokens.token(), tokens.extensions)
        ), hint
    mechanism = partial(
        SaslMechanismPlain if login.mechanism == "PLAIN" else SaslMechanismScram,
        sasl_mechanism=login.mechanism,
        sasl_plain_username=login.username,
        sasl_plain_password=login.password,
    )
    return lambda host: mechanism(), _FAILED.hint
