"""A real schema registry on this machine, for development and tests: Apicurio Registry, by Confluent's API.

::

    with RegistryServer() as registry:
        print(registry.url)      # http://127.0.0.1:40123/apis/ccompat/v7

It listens on 127.0.0.1 only and ends with the process that started it.
"""

from __future__ import annotations

import hashlib
import http.client
import signal
import tarfile
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from penstock.errors import ServiceError
from penstock.services.classes import class_archive, sharing
from penstock.services.downloads import Progress, fetched, intact, run_ivy
from penstock.services.folders import cache_folder
from penstock.services.java import Java, find_java
from penstock.services.ports import free_ports
from penstock.services.service import Server
from penstock.services.settings import HOST

#: The Apicurio Registry that is started, and the Java that it asks for.
REGISTRY_VERSION = "3.3.3"
REGISTRY_JAVA = 21

_MODULE = "apicurio-registry-app"
_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_PATH = "/apis/ccompat/v7"
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

#: What Ivy is told: one file of the module, and none of what it depends on, which is in that file.
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
    """The folder of the registry's programs when they are in the cache, complete and undamaged, else None."""
    return _folder() if intact(_folder()) else None


def fetch_registry(java: Java, progress: Progress = lambda line: None) -> Path:
    """The folder of the registry's programs, from the cache or else over the network (159 MB).

    Raises:
        ServiceError: they cannot be fetched, or are not what they were.
    """
    folder, name = _folder(), f"Apicurio Registry {REGISTRY_VERSION}"
    packed = f"{_MODULE}-{REGISTRY_VERSION}-all.tar.gz"

    def fill(ready: Path, scratch: Path) -> None:
        progress(f"fetching {name} (about 159 MB, once)")
        settings = scratch / "ivy.xml"
        settings.write_text(_IVY)
        wanted = ["-ivy", str(settings), "-confs", "default"]
        target = scratch / "packed"
        run_ivy(java, wanted, target, packed, scratch=scratch, name=name, otherwise=folder, progress=progress)
        with (target / packed).open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
        if found != _SHA256:
            raise ServiceError(f"{packed} has the checksum {found}, not {_SHA256}; check where it was fetched from")
        with tarfile.open(target / packed) as archive:
            archive.extractall(ready, filter="data")

    fetched(folder, name, fill, progress)
    return folder


def _folder() -> Path:
    return cache_folder() / f"registry-{REGISTRY_VERSION}"


class RegistryServer(Server):
    """One schema registry without schemas. Subjects take any schema until they are given a compatibility.

    Args:
        port: of 127.0.0.1; 0 takes a free one.
        data: where schemas are kept, across restarts. By default a temporary folder.
        folder: for the log of the run, deleted by :meth:`stop`. By default a temporary folder.
        detachable: :meth:`detach` may be called, at the price of a looser tie to this process until then.
        jvm_options: more options of the JVM.
        progress: told what takes long, one short line at a time.

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
        super().__init__(folder, detachable=detachable)
        if not 0 <= port <= 65535:
            raise ServiceError(f"port {port} is out of range; choose one from 1024 to 65000, or 0")
        self._given_port = port
        self._given_data = Path(data).absolute() if data is not None else None
        self._jvm_options = tuple(jvm_options)
        self._progress = progress

    @property
    def url(self) -> str:
        """The address of Confluent's API, for clients."""
        return f"http://{HOST}:{self.port}{_PATH}"

    @property
    def data(self) -> Path:
        """Where schemas are kept."""
        return self._given_data or self.folder / "data"

    def pause(self) -> None:
        """Freeze the registry: its connections stay open and nothing answers. Returns when all of it stands still."""
        self.process.freeze(self.name)

    def resume(self) -> None:
        """Let a paused registry go on."""
        self.process.signal(signal.SIGCONT)

    # --- inside ----------------------------------------------------------------------------------------------

    def _first(self) -> Self:
        java = find_java(REGISTRY_JAVA)
        programs = fetch_registry(java, self._progress)
        return self._first_with(java, programs, _class_archive(java, programs, self._progress))

    def _first_with(self, java: Java, programs: Path, archive: Path | None) -> Self:
        return self._begin(lambda: self._prepare(java, programs, archive))

    def _prepare(self, java: Java, programs: Path, archive: Path | None) -> None:
        self._make_folder()
        self.data.mkdir(parents=True, exist_ok=True)
        self._port, management = free_ports(self._given_port, 0)
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self._port),
            "quarkus.http.access-log.enabled": "false",
            "quarkus.management.host": HOST,
            "quarkus.management.port": str(management),
            'quarkus.log.category."io.apicurio".level': "WARN",
            # Without the delay, what was answered for is there after a crash.
            "apicurio.datasource.url": f"jdbc:h2:file:{self.data / 'schemas'};WRITE_DELAY=0",
        }
        self._command = [
            str(java.executable), *_JVM, *sharing(archive), *self._jvm_options,
            *(f"-D{key}={value}" for key, value in settings.items()), "-jar", str(programs / "quarkus-run.jar"),
        ]  # fmt: skip

    def _answers(self) -> bool:
        return answers(self._port)

    def _grace(self) -> float:
        # Files that are deleted anyway need no orderly end.
        return super()._grace() if self._given_data else 0.0


def answers(port: int) -> bool:
    """Whether a registry answers on this port of 127.0.0.1."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", f"{_PATH}/subjects")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False


def _class_archive(java: Java, programs: Path, progress: Progress) -> Path | None:
    def train(scratch: Path, options: Sequence[str]) -> None:
        RegistryServer(data=scratch / "data", jvm_options=options)._first_with(java, programs, None).stop()

    return class_archive(programs, java, "the registry", train, progress)
