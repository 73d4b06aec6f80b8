"""A real schema registry on this machine, for development and tests: Apicurio Registry, by Confluent's API.

::

    with RegistryServer() as registry:
        print(registry.url)      # http://127.0.0.1:40123/apis/ccompat/v7

It listens on 127.0.0.1 only and ends with the process that started it.
"""

from __future__ import annotations

import hashlib
import http.client
import tarfile
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.folders import cache_folder
from penstock.machine.java import Java, find_java
from penstock_testing.services.broker_config import HOST
from penstock_testing.services.class_archive import shared_classes
from penstock_testing.services.downloads import Download, Progress
from penstock_testing.services.ports import free_ports
from penstock_testing.services.service import Server

#: The Apicurio Registry that is started, and the Java that it asks for.
REGISTRY_VERSION = "3.3.3"
REGISTRY_JAVA = 21

_MODULE = "apicurio-registry-app"
_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_PATH = "/apis/ccompat/v7"
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

_PACKED = f"{_MODULE}-{REGISTRY_VERSION}-all.tar.gz"

#: Ivy fetches one file of the module, which holds everything that it depends on.
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="penstock" module="registry"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="{_MODULE}" rev="{REGISTRY_VERSION}" conf="default->*" transitive="false">
      <artifact name="{_MODULE}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def cached_registry() -> Path | None:
    """The folder of the registry's programs if they are in the cache, complete and undamaged."""
    download = _download()
    return download.folder if download.intact() else None


def fetch_registry(java: Java, progress: Progress = lambda line: None) -> Path:
    """The folder of the registry's programs, from the cache or else over the network (159 MB).

    Raises:
        ServiceError: they cannot be fetched, or do not have the published checksum.
    """
    download = _download()
    download.fetch(java, _unpack, progress)
    return download.folder


def _unpack(files: Path, ready: Path) -> None:
    with (files / _PACKED).open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != _SHA256:
        raise ServiceError(f"{_PACKED} has the checksum {found}, not {_SHA256}; check where it was fetched from")
    with tarfile.open(files / _PACKED) as archive:
        archive.extractall(ready, filter="data")


def _download() -> Download:
    folder = cache_folder() / f"registry-{REGISTRY_VERSION}"
    return Download(f"Apicurio Registry {REGISTRY_VERSION}", folder, 159, _IVY, _PACKED)


class RegistryServer(Server):
    """One schema registry, at first without schemas. Subjects take any schema until they get a compatibility rule.

    Args:
        port: of 127.0.0.1; 0 takes a free one.
        data: where schemas are kept, across restarts. By default a temporary folder.
        folder: for the log of the run, deleted by :meth:`stop`. By default a temporary folder.
        detachable: :meth:`detach` may be called. Until then the server is tied less closely to this process.
        jvm_options: more options of the JVM.
        progress: called with a short line at each step that takes long.

    Not for use by several threads at once, nor by a fork of the process that started it.
    """

    name = "the registry"
    prefix = "penstock-registry-"
    port_lost = "already bound"

    def __init__(
        self,
        *,
        port: int = 0,
        data: Path | str | None = None,
        folder: Path | None = None,
        detachable: bool = False,
        jvm_options: Sequence[str] = (),
        progress: Progress = lambda line: None,
    ):
        super().__init__(folder, data=data, detachable=detachable)
        if not 0 <= port <= 65535:
            raise ServiceError(f"port {port} is out of range; choose one from 1024 to 65000, or 0")
        self._given_port = port
        self._jvm_options = tuple(jvm_options)
        self._progress = progress
        self._java: list[str] = []

    @property
    def url(self) -> str:
        """The address of Confluent's API, for clients."""
        return f"http://{HOST}:{self.port}{_PATH}"

    # --- inside ----------------------------------------------------------------------------------------------

    def _install(self) -> None:
        java = find_java(REGISTRY_JAVA)
        self._programs = fetch_registry(java, self._progress)
        shared = shared_classes(self._programs, java, self.name, RegistryServer, self._jvm_options, self._progress)
        self._java = [str(java.executable), *_JVM, *shared, *self._jvm_options]

    def _prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self._port, management = free_ports(self._given_port, 0)
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self._port),
            "quarkus.http.access-log.enabled": "false",
            "quarkus.management.host": HOST,
            "quarkus.management.port": str(management),
            'quarkus.log.category."io.apicurio".level': "WARN",
            # Without the delay, schemas that were acknowledged survive a crash.
            "apicurio.datasource.url": f"jdbc:h2:file:{self.data / 'schemas'};WRITE_DELAY=0",
        }
        properties = [f"-D{key}={value}" for key, value in settings.items()]
        self._command = [*self._java, *properties, "-jar", str(self._programs / "quarkus-run.jar")]

    def _answers(self, node: int) -> bool:
        return answers(self._port)


def answers(port: int) -> bool:
    """Whether a registry answers on this port of 127.0.0.1."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", f"{_PATH}/subjects")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
