"""A certificate authority of one cluster, and its server certificate, made with Java's keytool."""

from __future__ import annotations

import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.java import Java

__all__ = ["Certificates", "make_certificates"]


@dataclass(frozen=True)
class Certificates:
    """The broker's PKCS #12 key store, the file with its password, and the authority in PEM that clients trust."""

    keystore: Path
    password_file: Path
    authority: Path

    @property
    def password(self) -> str:
        return self.password_file.read_text()


def make_certificates(java: Java, folder: Path) -> Certificates:
    """Makes a certificate for ``localhost`` and ``127.0.0.1``, signed by an authority made for it alone.

    Files already in ``folder`` are kept, so that clients that trust the authority survive a restart.

    Raises:
        ServiceError: this Java has no keytool, or it failed; what it said is quoted.
    """
    made = Certificates(folder / "server.p12", folder / "password", folder / "authority.pem")
    if made.authority.exists():
        return made
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(made.password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(24))
    authority_store = folder / "authority.p12"
    request, certificate, authority = folder / "server.csr", folder / "server.pem", folder / "authority.new.pem"
    key = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"]
    names = "san=dns:localhost,ip:127.0.0.1"
    steps: list[tuple[Path, list[str]]] = [
        (authority_store, [*key, "-alias", "authority", "-dname", "CN=penstock development", "-ext", "bc:c"]),
        (authority_store, ["-exportcert", "-alias", "authority", "-rfc", "-file", str(authority)]),
        (made.keystore, [*key, "-alias", "server", "-dname", "CN=localhost", "-ext", names]),
        (made.keystore, ["-certreq", "-alias", "server", "-file", str(request)]),
        (authority_store, ["-gencert", "-alias", "authority", "-validity", "3650", "-ext", names, "-rfc",
                           "-infile", str(request), "-outfile", str(certificate)]),
        (made.keystore, ["-importcert", "-noprompt", "-alias", "authority", "-file", str(authority)]),
        (made.keystore, ["-importcert", "-noprompt", "-alias", "server", "-file", str(certificate)]),
    ]  # fmt: skip
    for store, arguments in steps:
        _keytool(java, store, made.password_file, arguments)
    authority.rename(made.authority)
    return made


def _keytool(java: Java, store: Path, password_file: Path, arguments: list[str]) -> None:
    command = [
        str(java.keytool()), arguments[0], "-keystore", str(store), "-storetype", "PKCS12",
        "-storepass:file", str(password_file), *arguments[1:],
    ]  # fmt: skip
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if told.returncode:
        raise ServiceError(
            f"the broker's certificate could not be made, keytool said: {told.stdout}{told.stderr}".strip()
        )
