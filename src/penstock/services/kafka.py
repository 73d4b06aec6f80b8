"""A real Kafka cluster on this machine, for development and tests: KRaft mode, one JVM per node.

::

    with KafkaCluster() as cluster:
        print(cluster.bootstrap)      # 127.0.0.1:40123

Each node is broker and controller at once, listens on 127.0.0.1 only, and ends with the process that started it.
"""

from __future__ import annotations

import base64
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from penstock.errors import ServiceError
from penstock.services import settings
from penstock.services.certificates import Certificates, make_certificates
from penstock.services.classes import class_archive, sharing
from penstock.services.downloads import Progress
from penstock.services.jars import DEFAULT_VERSION, KafkaJars, fetch_jars
from penstock.services.java import Java, find_java
from penstock.services.ports import free_ports
from penstock.services.process import GRACE_SECONDS, Identity, ServerProcess, end_all, tail
from penstock.services.service import READY_SECONDS, Service, check_starting
from penstock.services.settings import HOST, NodePorts, Security
from penstock.services.wire import cluster_members

_JVM = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_POLL_SECONDS = 0.03


class KafkaCluster(Service):
    """One or three Kafka nodes (any number works; three is the least that survives a loss).

    Args:
        brokers: how many nodes; their ids count from 1. With three or more, topics have three replicas, and two
            must be in sync.
        port: the first node's port for clients, the next nodes take the following ones. 0 takes free ports.
        data: where the nodes keep their logs, across restarts. By default a temporary folder. Records stay there
            whatever their timestamps, unless a topic or ``properties`` set a retention.
        version: of Kafka; its jars are fetched when they are not in the cache.
        properties: settings of the brokers by Kafka's names, over penstock's own. Feature levels may be among them
            (``transaction.version``: ``0``) and take effect when ``data`` is first written.
        security: how clients come in when not in plain text.
        advertised: one port per node that clients are sent to instead of the one that the node listens on, for a
            proxy in between (:class:`penstock.testing.KafkaProxy`). :attr:`plain_bootstrap` goes past it.
        jvm_options: more options of the JVM, after ``-Xmx512m -XX:+UseSerialGC``.
        folder: for settings and logs of the run, deleted by :meth:`stop`. By default a temporary folder.
        detachable: :meth:`detach` may be called, at the price of a looser tie to this process until then.
        progress: told what takes long, one short line at a time.

    Not for use by several threads at once, nor by a fork of the process that started it.
    """

    name = "the cluster"
    prefix = "penstock-kafka-"
    port_lost = "failed to bind"

    def __init__(
        self,
        brokers: int = 1,
        *,
        port: int = 0,
        data: Path | str | None = None,
        version: str = DEFAULT_VERSION,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        advertised: Sequence[int] = (),
        jvm_options: Sequence[str] = (),
        folder: Path | None = None,
        detachable: bool = False,
        progress: Progress = lambda line: None,
    ):
        super().__init__(folder, detachable=detachable)
        if brokers < 1:
            raise ServiceError(f"a cluster of {brokers} brokers cannot be started; ask for 1, or for 3")
        if not 0 <= port <= 65536 - brokers:
            raise ServiceError(
                f"port {port} is out of range for {brokers} broker(s); choose one from 1024 to 65000, or 0"
            )
        if advertised and len(advertised) != brokers:
            raise ServiceError(
                f"{len(advertised)} advertised port(s) do not fit {brokers} broker(s); give one for each"
            )
        self.version = version
        self.properties = dict(properties or {})
        self.security = security
        self._size, self._port = brokers, port
        self._given_data = Path(data).absolute() if data is not None else None
        self._advertised = dict(zip(self.nodes, advertised, strict=False))
        self._jvm_options = tuple(jvm_options)
        self._progress = progress
        self._certificates: Certificates | None = None
        self._ports: dict[int, NodePorts] = {}
        self._command: list[str] = []
        self._running: dict[int, ServerProcess] = {}
        self._down: set[int] = set()  # killed or paused on purpose

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node ids, whether they run or not."""
        return tuple(range(1, self._size + 1))

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of every node, for clients."""
        return ",".join(f"{HOST}:{ports.client}" for ports in self._started_ports().values())

    @property
    def plain_bootstrap(self) -> str:
        """``host:port,...`` of the listener in plain text that nodes use among themselves, whatever ``security`` is."""
        return ",".join(f"{HOST}:{ports.internal}" for ports in self._started_ports().values())

    @property
    def processes(self) -> dict[int, Identity]:
        """The running nodes' processes by node id, the paused among them."""
        return {node: process.identity for node, process in self._running.items() if process.identity.alive()}

    @property
    def data(self) -> Path:
        """Where the nodes keep their logs, one folder per node."""
        return self._given_data or self.folder / "data"

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """What a client sets to connect, by the names of Kafka's Java client (``bootstrap.servers`` and so on)."""
        return settings.client_settings(self.bootstrap, self.security, self._certificates, user)

    def log(self, node: int) -> Path:
        """The file with a node's warnings and errors."""
        return self.folder / f"broker-{self._known(node)}.log"

    def __repr__(self) -> str:
        return f"KafkaCluster(brokers={self._size}, version='{self.version}', running={sorted(self.processes)})"

    # --- start and stop --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts every node and returns when each of them knows all others, and answers.

        Raises:
            ServiceError: no Java, no jars, a port that is taken, or a broker that ended; its log is quoted.
        """
        if self._folder is not None:
            raise ServiceError("the cluster is started already; stop() it first")
        java = find_java()
        jars = fetch_jars(java, self.version, self._progress)
        return self._start_with(java, jars, _class_archive(java, jars, self._progress))

    def _start_with(self, java: Java, jars: KafkaJars, archive: Path | None) -> Self:
        return self._begin(lambda: self._prepare(java, jars, archive))

    # --- faults ----------------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """Kills a node's process, as a crash would, and returns when it is gone."""
        end_all([self._process(node).identity], 0)
        self._down.add(node)

    def restart(self, *nodes: int) -> None:
        """Starts nodes again on their own data and ports, all at once, stopping them in order first when they still
        run. (Most nodes of a cluster that is down as a whole become ready only together.)"""
        end_all([self._process(node).identity for node in nodes], GRACE_SECONDS)
        for node in nodes:
            self._running[node].ended()
            self._spawn(node)
        self._await_ready()

    def pause(self, node: int) -> None:
        """Freezes a node: its connections stay open and nothing answers. Returns when all of it stands still."""
        if not self._process(node).identity.freeze(f"node {node}"):
            raise ServiceError(f"node {node} does not run and cannot be paused; restart({node}) starts it")
        self._down.add(node)

    def resume(self, node: int) -> None:
        """Lets a paused node go on."""
        self._process(node).identity.signal(signal.SIGCONT)
        self._down.discard(node)

    # --- inside ----------------------------------------------------------------------------------------------

    def _started_ports(self) -> dict[int, NodePorts]:
        _ = self.folder
        return self._ports

    def _known(self, node: int) -> int:
        if node not in self.nodes:
            raise ServiceError(f"the cluster has no node {node}; its nodes are {', '.join(map(str, self.nodes))}")
        return node

    def _process(self, node: int) -> ServerProcess:
        process = self._running.get(self._known(node))
        if process is None:
            raise self._not_started()
        return process

    def _grace(self) -> float:
        # Files that are deleted anyway need no orderly end.
        return GRACE_SECONDS if self._given_data else 0.0

    def _settings_file(self, node: int) -> Path:
        return self.folder / f"server-{node}.properties"

    def _prepare(self, java: Java, jars: KafkaJars, archive: Path | None) -> None:
        """Everything that is on disk before the first node starts."""
        folder = self._make_folder()
        self.data.mkdir(parents=True, exist_ok=True)
        kept = [path for path in self.data.glob("node-*") if (path / "meta.properties").exists()]
        if kept and len(kept) != self._size:
            raise ServiceError(
                f"{self.data} holds the data of {len(kept)} broker(s), not of {self._size}; "
                "start as many as it was made for, or choose another folder"
            )
        self._ports = choose_ports(self._size, self._port, separate=bool(self.security or self._advertised))
        if self.security and self.security.tls:
            self._certificates = make_certificates(java, self.data / "tls", self.security.certificates)
        logging = folder / "log4j2.properties"
        logging.write_text(settings.LOGGING)
        self._command = [
            str(java.executable), *_JVM, *sharing(archive), f"-Dlog4j2.configurationFile={logging}",
            "-cp", jars.classpath(),
        ]  # fmt: skip
        for node in self.nodes:
            written = settings.node_settings(
                node,
                self._ports,
                self.data / f"node-{node}",
                self.security,
                self._certificates,
                self.properties,
                advertised=self._advertised.get(node),
            )
            path = self._settings_file(node)
            path.touch(mode=0o600)  # it may hold passwords
            path.write_text(settings.render(written))
        self._format()

    def _format(self) -> None:
        """Formats the storage of nodes that have none yet, all at once."""
        # Kafka takes 16 bytes in URL-safe base64; a leading dash would read as an option.
        cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        options = [f"--feature={key}={level}" for key, level in settings.feature_levels(self.properties).items()]
        options += [
            f"--add-scram={user}" for user in (settings.scram_credentials(self.security) if self.security else [])
        ]
        with ExitStack() as stack:
            formatting = []
            for node in self.nodes:
                if (self.data / f"node-{node}" / "meta.properties").exists():
                    continue
                log = self.folder / f"format-{node}.log"
                command = [
                    *self._command, "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id,
                    "--config", str(self._settings_file(node)), *options,
                ]  # fmt: skip
                output = stack.enter_context(log.open("wb"))
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
                stack.callback(process.wait)
                stack.callback(process.kill)
                formatting.append((node, process, log))
            for node, process, log in formatting:
                if process.wait():
                    raise ServiceError(f"the storage of node {node} cannot be formatted:\n{tail(log)}")

    def _launch(self) -> None:
        for node in self.nodes:
            self._spawn(node)
        self._await_ready()

    def _spawn(self, node: int) -> None:
        command = [*self._command, *self._jvm_options, "kafka.Kafka", str(self._settings_file(node))]
        self._running[node] = self._launched(command, self.log(node), self._grace())
        self._down.discard(node)

    def _await_ready(self) -> None:
        """Waits until each node that should run answers, and counts all of those among the cluster's members."""
        awaited = set(self._running) - self._down
        behind = set(awaited)
        deadline = time.monotonic() + READY_SECONDS
        while behind:
            for node in sorted(behind):
                with suppress(OSError):
                    if awaited <= set(cluster_members(HOST, self._ports[node].internal)):
                        behind.discard(node)
                        continue
                check_starting(f"node {node}", self._running[node], self.log(node), deadline)
            time.sleep(_POLL_SECONDS)

    def _servers(self) -> Iterable[ServerProcess]:
        return self._running.values()

    def _end(self) -> None:
        try:
            end_all([each.identity for each in self._servers()], self._grace())
        finally:
            for each in self._servers():
                each.close()

    def _forget(self) -> None:
        super()._forget()
        self._running.clear()
        self._down.clear()


def choose_ports(nodes: int, first: int, *, separate: bool) -> dict[int, NodePorts]:
    """Ports for each node: clients from ``first`` on (0: any that are free), everything else free ones.

    ``separate``: clients have a listener of their own.

    Raises:
        ServiceError: a port that was asked for is taken.
    """
    clients = [first + index if first else 0 for index in range(nodes)]
    ports = free_ports(*clients, *[0] * nodes * (2 if separate else 1))
    internal = ports[nodes : 2 * nodes] if separate else ports[:nodes]
    found = zip(ports[:nodes], internal, ports[-nodes:], strict=True)
    return {node: NodePorts(*each) for node, each in enumerate(found, 1)}


def _class_archive(java: Java, jars: KafkaJars, progress: Progress) -> Path | None:
    def train(scratch: Path, options: Sequence[str]) -> None:
        KafkaCluster(data=scratch / "data", version=jars.version, jvm_options=options)._start_with(
            java, jars, None
        ).stop()

    return class_archive(jars.folder, java, "Kafka", train, progress)
