"""A key distribution centre for tests: MIT's, as Debian packages it, on a free port of this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import eventually

REALM = "PENSTOCK.TEST"
_PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user", "libkrb5-dev")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


class MissingError(Exception):
    """What a key distribution centre needs cannot be had on this machine."""


@dataclass(frozen=True)
class Centre:
    """A running centre. ``environment`` is that of its clients."""

    folder: Path
    environment: dict[str, str]

    def keytab(self, *principals: str) -> Path:
        """The keys of principals, which are made."""
        path = self.folder / f"{principals[0].replace('/', '-')}.keytab"
        for each in principals:
            self.run("kadmin.local", "-q", f"addprinc -randkey {each}")
            self.run("kadmin.local", "-q", f"ktadd -k {path} {each}")
        return path

    def run(self, program: str, *arguments: str) -> str:
        """What one of Kerberos's programs prints."""
        command = [_found(program), *arguments]
        return subprocess.run(
            command, env=self.environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout


@contextmanager
def centre(folder: Path) -> Iterator[Centre]:
    """A centre with its files in ``folder``. Raises MissingError."""
    if not shutil.which("krb5kdc", path=_PATH):
        _install()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n"
        f" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n default_ccache_name = {folder}/tickets\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        f"  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n"
    )
    files = {"KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
    packages = os.pathsep.join([*_gssapi(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    made = Centre(folder, {**os.environ, **files, "PYTHONPATH": packages})
    made.run("kdb5_util", "create", "-s", "-P", "of the test", "-r", REALM)
    with subprocess.Popen([_found("krb5kdc"), "-n"], env=made.environment) as process:
        try:
            eventually(lambda: _answers(port))
            yield made
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _found(program: str) -> str:
    path = shutil.which(program, path=_PATH)
    if path is None:
        raise MissingError(f"there is no {program}; install {' '.join(_PACKAGES)}")
    return path


def _install() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", *_PACKAGES]):
        _try(command, environment)


def _gssapi(folder: Path) -> list[str]:
    """Where the package gssapi is, if it is not installed."""
    if importlib.util.find_spec("gssapi"):
        return []
    python = str(Path(sys.base_prefix) / "bin" / "python3")
    _try([python, "-m", "pip", "install", "--quiet", "--target", str(folder / "packages"), "gssapi>=1.8,<2"], None)
    return [str(folder / "packages")]


def _try(command: Sequence[str], environment: dict[str, str] | None) -> None:
    try:
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        raise MissingError(f"{' '.join(command)} failed: {error} {said[-500:]}") from error
