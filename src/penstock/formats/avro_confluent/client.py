"""The client of a schema registry: schemas by id and ids of schemas, over Confluent's API.

The answer for an id never changes, so the client asks once per id. One thread asks while others that need the same
answer wait. There is one client per process and settings; a forked process has its own.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

from penstock.deadline import Backoff, Deadline
from penstock.errors import SchemaError, SchemaRegistryError, SchemaRegistryUnavailableError
from penstock.formats.avro.schema import Schema, parse
from penstock.formats.avro_confluent.settings import RegistryAddress, RegistrySettings
from penstock.tls import build_tls_context

_T = TypeVar("_T")
_CONTENT = "application/vnd.schemaregistry.v1+json"
#: Statuses after which the request is repeated, as in Confluent's client.
_PASSING = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
#: "Subject not found", "version not found", "schema not found" in the body of an answer with the status 404.
_NOT_FOUND = range(40400, 40500)
_REDIRECTS = 3
_CONNECTIONS = 4


class UnknownSchema(ValueError):
    """The registry has no Avro schema under this id, so no record with it can be read."""


class SchemaRegistry:
    """Asks one registry. For use by any number of threads."""

    def __init__(self, settings: RegistrySettings):
        self._settings = settings
        self._lock = threading.Lock()
        self._answers: dict[tuple[Any, ...], Future[Any]] = {}
        self._first = 0

    def schema(self, number: int) -> Schema:
        """The schema of an id. Raises UnknownSchema, SchemaRegistryError or SchemaRegistryUnavailableError."""
        found = self._ask_once((number,), lambda: self._fetch_schema(number))
        if isinstance(found, UnknownSchema):
            raise UnknownSchema(*found.args)  # A new error: the cached one would keep the frames of its earlier callers
        return found

    def find_id(self, subject: str, text: str, *, register: bool) -> int:
        """The id of a schema under a subject. Registers the schema if that is allowed.

        Raises SchemaRegistryError or SchemaRegistryUnavailableError.
        """
        return self._ask_once((subject, text, register), lambda: self._ask_for_id(subject, text, register))

    def _ask_once(self, key: tuple[Any, ...], ask: Callable[[], _T]) -> _T:
        """The first answer of ``ask`` that is not an error. Other threads wait for it."""
        with self._lock:
            answer = self._answers.get(key)
            mine = answer is None
            if answer is None:
                answer = self._answers[key] = Future()
        if mine:
            try:
                answer.set_result(ask())
            except BaseException as error:
                with self._lock:
                    del self._answers[key]
                answer.set_exception(error)
                raise
        found: _T = answer.result()
        return found

    def _fetch_schema(self, number: int) -> Schema | UnknownSchema:
        """The schema, or the reason why no record can be read with it, which does not change either."""
        answer = self._fetch_document(f"schemas/ids/{number}", f"the schema with id {number}")
        schema_type = answer.get("schemaType", "AVRO")
        if schema_type != "AVRO":
            return UnknownSchema(f"the schema with id {number} is of type {schema_type}, not AVRO")
        try:
            return parse(str(answer["schema"]), list(self._fetch_references(answer, set())))
        except SchemaError as error:
            return UnknownSchema(f"the schema with id {number} is invalid: {error}")

    def _fetch_references(self, answer: dict[str, Any], known: set[tuple[str, Any]]) -> Iterator[str]:
        """The texts of the schemas that a schema refers to. Each comes after the schemas that it refers to itself."""
        for each in answer.get("references") or ():
            subject, version = each["subject"], each["version"]
            if (subject, version) not in known:
                known.add((subject, version))
                path = f"subjects/{quote(subject, safe='')}/versions/{version}"
                inner = self._fetch_document(path, f"version {version} of subject '{subject}'")
                yield from self._fetch_references(inner, known)
                yield str(inner["schema"])

    def _fetch_document(self, path: str, wanted: str) -> dict[str, Any]:
        status, answer, url = self._ask("GET", path, wanted)
        if status == HTTPStatus.NOT_FOUND and answer.get("error_code") in _NOT_FOUND:
            raise UnknownSchema(f"the schema registry does not have {wanted}: GET {url}: {answer.get('message')}")
        if status != HTTPStatus.OK or "schema" not in answer:
            raise _unexpected_error(status, answer, url, wanted)
        return answer

    def _ask_for_id(self, subject: str, text: str, register: bool) -> int:
        path = f"subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
        wanted = f"the id of the schema of subject '{subject}'"
        status, answer, url = self._ask("POST", path, wanted, {"schema": text})
        reason = answer.get("message", "")
        if status == HTTPStatus.CONFLICT:
            raise SchemaRegistryError(
                f"subject '{subject}' refuses the schema, which is not compatible with its earlier schemas: "
                f"{reason} ({url}); change the table or the option 'schema', or the compatibility of the subject"
            )
        if status == HTTPStatus.NOT_FOUND and answer.get("error_code") in _NOT_FOUND:
            raise SchemaRegistryError(
                f"subject '{subject}' does not have the schema of the written messages: {reason} ({url}); register "
                "it, or set 'auto.register.schemas' to true"
            )
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise SchemaRegistryError(f"the schema registry refuses the schema as invalid: {reason} ({url})")
        if status != HTTPStatus.OK or not isinstance(answer.get("id"), int):
            raise _unexpected_error(status, answer, url, wanted)
        return int(answer["id"])

    @cached_property
    def _connections(self) -> urllib3.PoolManager:
        retries = urllib3.Retry(
            connect=0, read=0, status=0, other=0, redirect=_REDIRECTS, respect_retry_after_header=False
        )
        if not any(each.url.startswith("https:") for each in self._settings.addresses):
            return urllib3.PoolManager(maxsize=_CONNECTIONS, retries=retries)
        context = build_tls_context(self._settings.tls, "schema registry")
        named = None if context.check_hostname else False
        return urllib3.PoolManager(maxsize=_CONNECTIONS, retries=retries, ssl_context=context, assert_hostname=named)

    def _ask(
        self, method: str, path: str, wanted: str, body: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any], str]:
        """Status and document of a final answer, and the URL that gave it.

        Tries each address in turn, starting with the one that answered last, and repeats this until the time is up.
        """
        deadline = Deadline.after(self._settings.timeout_ms)
        backoff = Backoff(self._settings.wait_ms, self._settings.longest_wait_ms)
        addresses = self._settings.addresses
        while True:
            for turn in range(len(addresses)):
                index = (self._first + turn) % len(addresses)
                url = f"{addresses[index].url}/{path}"
                status, answer, trouble = self._send(method, url, addresses[index], body, deadline)
                if status in _REFUSED:
                    raise SchemaRegistryError(
                        f"the schema registry refuses access to {wanted}: {url} answered {status}: "
                        f"{answer.get('message', 'no reason given')}; check credentials and rights"
                    )
                if not trouble:
                    self._first = index
                    return status, answer, url
            wait = backoff.next()
            if deadline.left <= wait:
                raise SchemaRegistryUnavailableError(
                    f"the schema registry did not return {wanted} within {deadline}: {url}: {trouble}; check that "
                    "it is running and can be reached from here"
                )
            time.sleep(wait)

    def _send(
        self, method: str, url: str, address: RegistryAddress, body: dict[str, Any] | None, deadline: Deadline
    ) -> tuple[int, dict[str, Any], str]:
        """One attempt: status, document, and the error if another attempt may succeed."""
        headers = {"Accept": f"{_CONTENT}, application/json"}
        if login := self._settings.authorization_for(address):
            headers["Authorization"] = login
        content = None
        if body is not None:
            headers["Content-Type"], content = _CONTENT, json.dumps(body).encode()
        left = max(deadline.left, 0.001)
        times = urllib3.Timeout(min(self._settings.connect_ms / 1000, left), min(self._settings.read_ms / 1000, left))
        try:
            response = self._connections.request(method, url, body=content, headers=headers, timeout=times)
        except urllib3.exceptions.HTTPError as error:
            return 0, {}, _describe_failure(error, url)
        answer = _parse_object(response.data)
        if response.status in _PASSING:
            return response.status, answer, f"it answered {response.status} {answer.get('message', '')}".rstrip()
        return response.status, answer, ""


def _describe_failure(error: urllib3.exceptions.HTTPError, url: str) -> str:
    """The error of a connection. Raises SchemaRegistryError if another attempt cannot succeed."""
    cause: BaseException = error
    while isinstance(cause, urllib3.exceptions.MaxRetryError) and cause.reason is not None:
        cause = cause.reason
    if isinstance(cause, urllib3.exceptions.SSLError):
        reason = cause.args[0] if cause.args else cause
        if not isinstance(reason, ssl.SSLEOFError):
            raise SchemaRegistryError(
                f"cannot open a TLS connection to the schema registry at {url}: {reason}; check its certificate, the "
                "truststore and the keystore"
            ) from None
    if isinstance(cause, urllib3.exceptions.ResponseError):
        raise SchemaRegistryError(
            f"cannot follow the redirects of {url}: {cause}; check the address of the schema registry"
        ) from None
    inner = cause.__cause__ or cause.__context__ or cause
    if isinstance(inner, TimeoutError):
        return "no answer in time"
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _parse_object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _unexpected_error(status: int, answer: dict[str, Any], url: str, wanted: str) -> SchemaRegistryError:
    reason = answer.get("message") or answer.get("detail") or "a schema registry does not answer like this"
    return SchemaRegistryError(
        f"{url} answered {status} to a request for {wanted}: {reason}; check that this is the address of a schema "
        "registry"
    )


_clients: dict[RegistrySettings, SchemaRegistry] = {}
_clients_lock = threading.Lock()


def registry_for(settings: RegistrySettings) -> SchemaRegistry:
    """The client of this process for these settings. It sends no request before it is used."""
    with _clients_lock:
        if settings not in _clients:
            _clients[settings] = SchemaRegistry(settings)
        return _clients[settings]


def _forget_clients() -> None:
    # The child must neither use nor close the parent's connections, and locks of the parent's threads stay locked.
    global _clients, _clients_lock
    _clients, _clients_lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_clients)
