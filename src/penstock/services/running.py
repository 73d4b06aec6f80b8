"""Servers that run in the background, as `penstock broker` and `penstock registry` start, list and stop them.

Each has a folder named after its first port under the user's state folder; ``state.json`` in it names the
processes in such a way that one which merely inherited an id is never touched.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

from penstock.errors import ServiceError
from penstock.services.downloads import Progress
from penstock.services.folders import locked, state_folder
from penstock.services.jars import DEFAULT_VERSION
from penstock.services.kafka import KafkaCluster
from penstock.services.process import GRACE_SECONDS, Identity, end_all
from penstock.services.registry import REGISTRY_VERSION, RegistryServer

_STATE = "state.json"


@dataclass(frozen=True)
class Background:
    """What outlives the process that started it. ``address`` is for clients."""

    #: The command that starts and stops it, and the folder of their states.
    command: ClassVar[str] = ""
    folder: ClassVar[str] = ""

    port: int
    address: str
    version: str
    data: str
    temporary: bool
    nodes: tuple[Identity, ...]

    @classmethod
    def all(cls) -> list[Self]:
        """Those that run, by port."""
        found = (cls._read(folder) for folder in sorted(cls._folders().glob("*/"), key=lambda path: path.name.zfill(5)))
        return [each for each in found if each is not None and each.alive()]

    @classmethod
    @contextmanager
    def _starting(cls, port: int, progress: Progress) -> Iterator[Path]:
        """The folder of what is about to be started on ``port``, cleared, while nobody else starts there."""
        folder = cls._folders() / str(port)
        with locked(folder.with_name(f"{port}.lock"), lambda: progress(f"waiting for another start on port {port}")):
            present = cls._read(folder)
            if present is not None and present.alive():
                raise ServiceError(
                    f"a {cls.command} runs on port {port} already (pid {present.pids}); "
                    f"`penstock {cls.command} stop --port {port}` stops it"
                )
            shutil.rmtree(folder, ignore_errors=True)  # what a machine that went down left behind
            yield folder

    def _write(self, folder: Path) -> None:
        (folder / _STATE).write_text(json.dumps(asdict(self)))

    @classmethod
    def _read(cls, folder: Path) -> Self | None:
        try:
            told = json.loads((folder / _STATE).read_text())
            return cls(**told | {"nodes": tuple(Identity(**node) for node in told["nodes"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @property
    def pids(self) -> str:
        """The process ids as text."""
        return ", ".join(str(node.pid) for node in self.nodes)

    def alive(self) -> bool:
        """Whether any of its processes runs."""
        return any(node.alive() for node in self.nodes)

    def stop(self) -> None:
        """Stops it, and deletes its data unless they are in a folder of the caller's.

        Raises:
            ServiceError: a process does not end.
        """
        end_all(self.nodes, 0.0 if self.temporary else GRACE_SECONDS)
        shutil.rmtree(self._folders() / str(self.port), ignore_errors=True)

    @classmethod
    def _folders(cls) -> Path:
        return state_folder() / cls.folder


@dataclass(frozen=True)
class BackgroundCluster(Background):
    """A Kafka cluster that outlives the process that started it."""

    command: ClassVar[str] = "broker"
    folder: ClassVar[str] = "brokers"

    @property
    def bootstrap(self) -> str:
        """Where clients ask first, as host:port, joined by commas."""
        return self.address

    @classmethod
    def start(
        cls,
        brokers: int = 1,
        *,
        port: int,
        data: Path | None = None,
        version: str = DEFAULT_VERSION,
        progress: Progress = lambda line: None,
    ) -> Self:
        """Starts a cluster and returns when it is ready; the arguments are those of :class:`KafkaCluster`.

        Raises:
            ServiceError: as :meth:`KafkaCluster.start`, and when one that was started so has the port.
        """
        with cls._starting(port, progress) as folder:
            cluster = KafkaCluster(
                brokers, port=port, data=data, version=version, folder=folder, detachable=True, progress=progress
            )
            with cluster:
                processes = tuple(cluster.processes.values())
                started = cls(port, cluster.bootstrap, version, str(cluster.data), data is None, processes)
                started._write(folder)
                cluster.detach()
        return started


@dataclass(frozen=True)
class BackgroundRegistry(Background):
    """A schema registry that outlives the process that started it."""

    command: ClassVar[str] = "registry"
    folder: ClassVar[str] = "registries"

    @classmethod
    def start(cls, *, port: int, data: Path | None = None, progress: Progress = lambda line: None) -> Self:
        """Starts a registry and returns when it answers; the arguments are those of :class:`RegistryServer`.

        Raises:
            ServiceError: as :meth:`RegistryServer.start`, and when one that was started so has the port.
        """
        with cls._starting(port, progress) as folder:
            server = RegistryServer(port=port, data=data, folder=folder, detachable=True, progress=progress)
            with server:
                where, nodes = str(server.data), (server.process,)
                started = cls(port, server.url, REGISTRY_VERSION, where, data is None, nodes)
                started._write(folder)
                server.detach()
        return started
