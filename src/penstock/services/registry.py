"""A real schema registry on this machine, for development and tests: Apicurio Registry, by Confluent's API.

::

    with RegistryServer() as registry:
        print(registry.url)      # http://127.0.0.1:40123/apis/ccompat/v7

It listens on 127.0.0.1 only and ends with the process that started it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import signal
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import ServiceError
from penstock.services.classes import class_archive, sharing
from penstock.services.downloads import Progress, fetched, intact, run_ivy
from penstock.services.folders import cache_folder
from penstock.services.java import Java, find_java
from penstock.services.ports import held
from penstock.services.process import Identity, ServerProcess, end_all, launch, tail
from penstock.services.settings import HOST

__all__ = ["REGISTRY_JAVA", "REGISTRY_VERSION", "RegistryServer", "answers", "cached_registry", "fetch_registry"]

#: The Apicurio Registry that is started, and the Java that it asks for.
REGISTRY_VERSION = "3.3.3"
REGISTRY_JAVA = 21

_MODULE = "apicurio-registry-app"
_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_PATH = "/apis/ccompat/v7"
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_READY_SECONDS = 120.0
_GRACE_SECONDS = 20.0
_POLL_SECONDS = 0.05
_NOT_STARTED = "the registry is not started; call start(), or use it in a `with` statement"
_PORT_LOST = "already bound"

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


class RegistryServer:
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
        if not 0 <= port <= 65535:
            raise ServiceError(f"port {port} is out of range; choose one from 1024 to 65000, or 0")
        self._given_port, self._port = port, 0
        self._given_data = Path(data).absolute() if data is not None else None
        self._given_folder = folder
        self._detachable = detachable
        self._jvm_options = tuple(jvm_options)
        self._progress = progress
        self._owner = 0
        self._folder: Path | None = None
        self._command: list[str] = []
        self._running: ServerProcess | None = None

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of Confluent's API, for clients."""
        _ = self.folder
        return f"http://{HOST}:{self._port}{_PATH}"

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        _ = self.folder
        return self._port

    @property
    def folder(self) -> Path:
        """Where the log of this run is."""
        if self._folder is None:
            raise ServiceError(_NOT_STARTED)
        return self._folder

    @property
    def data(self) -> Path:
        """Where schemas are kept."""
        return self._given_data or self.folder / "data"

    @property
    def process(self) -> Identity:
        """The registry's process."""
        if self._running is None:
            raise ServiceError(_NOT_STARTED)
        return self._running.identity

    # --- start and stop --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the registry, after :meth:`kill` on its own port and data, and return when it answers.

        Raises:
            ServiceError: no Java, no programs, a port that is taken, or a registry that ended; its log is quoted.
        """
        if self._running is not None and self._running.identity.alive():
            raise ServiceError("the registry is started already; stop() it first")
        if self._folder is not None:
            self._spawn()
            return self
        java = find_java(REGISTRY_JAVA)
        programs = fetch_registry(java, self._progress)
        return self._launch(java, programs, _class_archive(java, programs, self._progress))

    def _launch(self, java: Java, programs: Path, archive: Path | None) -> Self:
        self._owner = os.getpid()
        for attempt in (1, 2, 3):
            try:
                self._prepare(java, programs, archive)
                self._spawn()
                return self
            except BaseException as error:
                self.stop()
                # A free port may be taken by somebody else before the registry binds it.
                lost = isinstance(error, ServiceError) and _PORT_LOST in str(error) and not self._given_port
                if attempt < 3 and lost:
                    continue
                raise
        raise ServiceError("no free port could be had; check what takes them with `ss -ltn`")

    def stop(self) -> None:
        """Stop the registry and delete what was temporary. A second call does nothing."""
        if self._owner != os.getpid() or self._folder is None:
            return
        try:
            self._end(_GRACE_SECONDS)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """Kill the registry, as a crash would, and return when it is gone. :meth:`start` starts it again."""
        self._end(0)

    def pause(self) -> None:
        """Freeze the registry: its connections stay open and nothing answers. Returns when all of it stands still."""
        self.process.signal(signal.SIGSTOP)
        until = time.monotonic() + _GRACE_SECONDS
        while not self.process.frozen():
            if time.monotonic() > until:
                raise ServiceError(f"the registry has not stood still within {_GRACE_SECONDS:g} s of SIGSTOP")
            time.sleep(_POLL_SECONDS)

    def resume(self) -> None:
        """Let a paused registry go on."""
        self.process.signal(signal.SIGCONT)

    def detach(self) -> None:
        """Leave the registry to itself: it outlives this process, and is no longer this object's."""
        if not self._detachable:
            raise ServiceError("the registry was not made to be left behind; make it with detachable=True")
        if self._running is not None:
            self._running.leave()
        self._running = self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- inside ----------------------------------------------------------------------------------------------

    def _end(self, grace: float) -> None:
        if self._running is None:
            return
        end_all([self._running.identity], grace)
        # The supervisor sees the end by itself, and would take a closed pipe for ours.
        self._running.supervisor.wait()
        self._running.close()
        self._running = None

    def _prepare(self, java: Java, programs: Path, archive: Path | None) -> None:
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="penstock-registry-"))
        else:
            self._given_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = self._given_folder
        self.data.mkdir(parents=True, exist_ok=True)
        with held(self._given_port) as one, held() as other:
            self._port, management = (int(each.getsockname()[1]) for each in (one, other))
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

    def _spawn(self) -> None:
        log = self.folder / "registry.log"
        if self._running is not None:
            self._running.close()
        temporary = self._given_folder is None
        self._running = launch(
            self._command,
            log,
            loose=self._detachable,
            grace=_GRACE_SECONDS if self._given_data else 0,
            doomed=self.folder if temporary else None,
        )
        deadline = time.monotonic() + _READY_SECONDS
        while not answers(self._port):
            if not self._running.identity.alive():
                raise ServiceError(f"the registry ended while it started; its log says:\n{tail(log)}")
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"the registry is not ready after {_READY_SECONDS:.0f} s; its log says:\n{tail(log)}"
                )
            time.sleep(_POLL_SECONDS)


def answers(port: int) -> bool:
    """Whether a registry answers on this port of 127.0.0.1."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", f"{_PATH}/subjects")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False


def _class_archive(java: Java, programs: Path, progress: Progress) -> Path | None:
    def train(scratch: Path, options: Sequence[str]) -> None:
        RegistryServer(data=scratch / "data", jvm_options=options)._launch(java, programs, None).stop()

    return class_archive(programs, java, "the registry", train, progress)
