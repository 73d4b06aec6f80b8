"""A certificate authority of one cluster, its server's certificate and those of clients, made with Java's keytool."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.java import Java


@dataclass(frozen=True)
class Certificates:
    """The broker's PKCS #12 key store, the file with the password of all stores, and the authority in PEM that both
    sides trust."""

    keystore: Path
    password_file: Path
    authority: Path

    @property
    def password(self) -> str:
        return self.password_file.read_text()

    def client(self, name: str) -> Path:
        """The PKCS #12 key store of a client."""
        return self.keystore.with_name(f"client-{name}.p12")


def make_certificates(java: Java, folder: Path, clients: Sequence[str] = ()) -> Certificates:
    """Makes a certificate for ``localhost`` and ``127.0.0.1``, and one for each client, with its name as CN; all signed
    by an authority made for them alone.

    Files already in ``folder`` are kept, so that clients that trust the authority survive a restart.

    Raises:
        ServiceError: this Java has no keytool, or it failed; what it said is quoted.
    """
    made = Certificates(folder / "server.p12", folder / "password", folder / "authority.pem")
    authority_store = folder / "authority.p12"
    if not made.authority.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(made.password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(24))
        authority = folder / "authority.new.pem"
        own = [*_KEY, "-alias", "authority", "-dname", "CN=penstock development", "-ext", "bc:c"]
        _keytool(java, authority_store, made.password_file, own)
        exported = ["-exportcert", "-alias", "authority", "-rfc", "-file", str(authority)]
        _keytool(java, authority_store, made.password_file, exported)
        names = ["-ext", "san=dns:localhost,ip:127.0.0.1"]
        _issue(java, authority_store, authority, made.password_file, made.keystore, "server", "localhost", names)
        authority.rename(made.authority)
    for name in clients:
        store = made.client(name)
        if not store.exists():
            fresh = store.with_suffix(".new")
            _issue(java, authority_store, made.authority, made.password_file, fresh, "client", name, [])
            fresh.rename(store)
    return made


_KEY = ("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650")


def _issue(
    java: Java,
    authority_store: Path,
    authority: Path,
    password_file: Path,
    store: Path,
    alias: str,
    name: str,
    extensions: list[str],
) -> None:
    """A key store with a new key and its certificate for ``name``, signed by the authority."""
    request, certificate = store.with_suffix(".csr"), store.with_suffix(".pem")
    steps: list[tuple[Path, list[str]]] = [
        (store, [*_KEY, "-alias", alias, "-dname", f"CN={name}", *extensions]),
        (store, ["-certreq", "-alias", alias, "-file", str(request)]),
        (authority_store, ["-gencert", "-alias", "authority", "-validity", "3650", *extensions, "-rfc",
                           "-infile", str(request), "-outfile", str(certificate)]),
        (store, ["-importcert", "-noprompt", "-alias", "authority", "-file", str(authority)]),
        (store, ["-importcert", "-noprompt", "-alias", alias, "-file", str(certificate)]),
    ]  # fmt: skip
    for of, arguments in steps:
        _keytool(java, of, password_file, arguments)


def _keytool(java: Java, store: Path, password_file: Path, arguments: list[str]) -> None:
    command = [
        str(java.keytool()), arguments[0], "-keystore", str(store), "-storetype", "PKCS12",
        "-storepass:file", str(password_file), *arguments[1:],
    ]  # fmt: skip
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if told.returncode:
        raise ServiceError(f"a certificate could not be made, keytool said: {told.stdout}{told.stderr}".strip())
