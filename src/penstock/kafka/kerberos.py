"""Kerberos tickets, from the system's own library through the package ``gssapi`` (extra ``kerberos``)."""

from __future__ import annotations

import importlib
import uuid
from typing import Any

from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from penstock.errors import OptionsError, Problem
from penstock.kafka.faults import CLIENT_CODE, Action, Fault, KafkaFault
from penstock.kafka.login import KerberosLogin

_HINT = (
    "check the keytab and the principal (klist -kt, kinit), sasl.kerberos.service.name, krb5.conf, and that the "
    "broker's principal has its host name; check this on every machine"
)


class Tickets:
    """The tickets of one login. Raises OptionsError when ``gssapi`` is missing."""

    def __init__(self, login: KerberosLogin):
        try:
            self._gssapi: Any = importlib.import_module("gssapi")
        except (ImportError, OSError) as error:
            reason = f"GSSAPI needs the package gssapi and the system's Kerberos library: {error}"
            hint = "pip install '.[kerberos]' on every machine, or set sasl.mechanism, whose default is GSSAPI"
            raise OptionsError((Problem(reason, "sasl.mechanism", hint=hint),)) from None
        self._login = login
        self._store = {}
        if login.keytab:
            self._store["client_keytab"] = login.keytab
            # Tickets from a keytab are private to this client: they stay in memory, apart from the user's.
            self._store["ccache"] = f"MEMORY:penstock-{uuid.uuid4().hex}"
        if login.ticket_cache:
            self._store["ccache"] = login.ticket_cache

    def mechanism(self, host: str) -> Any:
        """A login to the broker on ``host``. May wait for the key distribution centre. Raises :class:`KafkaFault`."""
        try:
            return _Exchange(self._gssapi, self._login, self._store, host)
        except self._gssapi.exceptions.GSSError as error:
            fault = Fault(CLIENT_CODE, "no Kerberos ticket", Action.REFUSED, _HINT)
            raise KafkaFault(fault, f"{self._login.service}@{host}: {error}") from None


class _Exchange(SaslMechanismGSSAPI):  # type: ignore[misc]
    """kafka-python's exchange of messages, with a login's credentials instead of the process's own."""

    def __init__(self, gssapi: Any, login: KerberosLogin, store: dict[str, str], host: str):
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{host}"
        kerberos = gssapi.MechType.kerberos
        self.gssapi_name = gssapi.Name(self.auth_id, name_type=gssapi.NameType.hostbased_service).canonicalize(kerberos)
        principal = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
        credentials = gssapi.Credentials(name=principal, mechs=[kerberos], usage="initiate", store=store or None)
        self._client_ctx = gssapi.SecurityContext(
            name=self.gssapi_name, creds=credentials, mech=kerberos, usage="initiate"
        )
        self._next_token = self._client_ctx.step(None)
