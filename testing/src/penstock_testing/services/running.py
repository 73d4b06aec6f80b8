"""Servers in the background, as `penstock broker` and `penstock registry` start, list and stop them.

Each has a folder named after its first port under the user's state folder. ``state.json`` in it identifies the
processes by more than their ids: a process that inherited an id is never touched.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

from penstock.errors import ServiceError
from penstock.machine.folders import state_folder
from penstock.machine.processes import GRACE_SECONDS, Identity
from penstock_testing.services.cluster_members import cluster_members
from penstock_testing.services.downloads import Progress
from penstock_testing.services.jars import DEFAULT_VERSION
from penstock_testing.services.kafka import KafkaCluster
from penstock_testing.services.locks import lock_file
from penstock_testing.services.process import end_all
from penstock_testing.services.registry import REGISTRY_VERSION, RegistryServer, answers
from penstock_testing.services.service import Service

_STATE = "state.json"


@dataclass(frozen=True)
class Background(ABC):
    """Servers that outlive the process that started them. ``address`` is for clients."""

    #: The command that starts and stops them, their title and product, and the name of the folder of their states.
    command: ClassVar[str]
    title: ClassVar[str]
    product: ClassVar[str]
    folder: ClassVar[str]

    port: int
    address: str
    version: str
    data: str
    temporary: bool
    nodes: tuple[Identity, ...]

    @classmethod
    def all(cls) -> list[Self]:
        """Those that run, by port."""
        folders = sorted((state_folder() / cls.folder).glob("*/"), key=lambda path: path.name.zfill(5))
        return [each for each in map(cls._read, folders) if each is not None]

    @property
    def pids(self) -> str:
        """The process ids as text."""
        return ", ".join(str(node.pid) for node in self.nodes)

    @property
    @abstractmethod
    def state(self) -> str:
        """Whether they answer, in words."""

    def stop(self) -> None:
        """Stops them and deletes their data, unless the data are in a folder of the caller's.

        Raises:
            ServiceError: a process does not end.
        """
        end_all(self.nodes, 0.0 if self.temporary else GRACE_SECONDS)
        shutil.rmtree(self._folder(self.port), ignore_errors=True)

    @classmethod
    def _start(cls, service: Service, port: int, version: str, address: Callable[[], str], progress: Progress) -> Self:
        """Starts and detaches ``service``, whose folder is that of ``port``."""
        folder = cls._folder(port)
        with lock_file(folder.with_name(f"{port}.lock"), lambda: progress(f"waiting for another start on port {port}")):
            if present := cls._read(folder):
                raise ServiceError(
                    f"a {cls.command} runs on port {port} already (pid {present.pids}); choose another port with "
                    f"--port, or use that one: `penstock {cls.command} stop --port {port}` stops it"
                )
            shutil.rmtree(folder, ignore_errors=True)  # left behind when the machine went down
            with service:
                temporary = service.data.is_relative_to(folder)
                nodes = tuple(service.processes.values())
                started = cls(port, address(), version, str(service.data), temporary, nodes)
                (folder / _STATE).write_text(json.dumps(asdict(started)))
                service.detach()
        return started

    @classmethod
    def _read(cls, folder: Path) -> Self | None:
        """The servers of a folder, if any of their processes runs."""
        try:
            state = json.loads((folder / _STATE).read_text())
            found = cls(**state | {"nodes": tuple(Identity(**node) for node in state["nodes"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return found if any(node.alive() for node in found.nodes) else None

    @classmethod
    def _folder(cls, port: int) -> Path:
        return state_folder() / cls.folder / str(port)


class BackgroundCluster(Background):
    """A Kafka cluster in the background."""

    command, title, product, folder = "broker", "Kafka broker", "Kafka", "brokers"

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` for clients."""
        return self.address

    @property
    def state(self) -> str:
        addresses = self.address.split(",")
        answering = sum(map(_broker_answers, addresses))
        if len(addresses) == 1:
            return "answers" if answering else "does not answer"
        return f"{answering} of {len(addresses)} answer"

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
        """Starts a cluster and returns when it is ready. The arguments are those of :class:`KafkaCluster`.

        Raises:
            ServiceError: as :meth:`KafkaCluster.start`, and when a cluster in the background has the port.
        """
        folder = cls._folder(port)
        cluster = KafkaCluster(
            brokers, port=port, data=data, version=version, folder=folder, detachable=True, progress=progress
        )
        return cls._start(cluster, port, version, lambda: cluster.bootstrap, progress)


class BackgroundRegistry(Background):
    """A schema registry in the background."""

    command, title, product, folder = "registry", "schema registry", "Apicurio", "registries"

    @property
    def state(self) -> str:
        return "answers" if answers(self.port) else "does not answer"

    @classmethod
    def start(cls, *, port: int, data: Path | None = None, progress: Progress = lambda line: None) -> Self:
        """Starts a registry and returns when it answers. The arguments are those of :class:`RegistryServer`.

        Raises:
            ServiceError: as :meth:`RegistryServer.start`, and when a registry in the background has the port.
        """
        server = RegistryServer(port=port, data=data, folder=cls._folder(port), detachable=True, progress=progress)
        return cls._start(server, port, REGISTRY_VERSION, lambda: server.url, progress)


def _broker_answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        return bool(cluster_members(host, int(port)))
    except OSError:
        return False
