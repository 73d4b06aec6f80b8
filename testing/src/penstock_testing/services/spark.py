"""A real Spark cluster on this machine, for development and tests: Spark's standalone master and its workers.

::

    with SparkCluster(workers=2) as cluster:
        print(cluster.url)      # spark://127.0.0.1:40123

It listens on 127.0.0.1 only and ends with the process that started it. The programs are those of PySpark.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from penstock.errors import ServiceError
from penstock.machine.java import find_java
from penstock.machine.packages import package_folder
from penstock.machine.processes import GRACE_SECONDS, Identity
from penstock_testing.services.broker_config import HOST
from penstock_testing.services.ports import free_ports
from penstock_testing.services.service import Service

_MASTER = 1
_CLASSES = "org.apache.spark.deploy"
#: Without the server for submissions, which has its own port.
_JVM = ("-XX:+UseSerialGC", "-Dspark.master.rest.enabled=false")
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class SparkCluster(Service):
    """A master, which is node 1, and ``workers`` workers, which are the nodes after it.

    A driver finds it by ``SPARK_MASTER``; ``SPARK_LOCAL_IP=127.0.0.1`` keeps the driver on this address too, and
    ``PYSPARK_PYTHON`` names the Python of the tasks.

    Args:
        workers: the number of workers.
        cores: of each worker, which is the number of tasks that it runs at a time.
        memory_mb: that each worker has for executors.
        jvm_options: more options of the JVMs of master and workers.

    Not for use by several threads at once, nor by a fork of the process that started it.
    """

    name = "the Spark cluster"
    prefix = "penstock-spark-"
    port_lost = "could not bind"

    def __init__(self, workers: int = 2, *, cores: int = 1, memory_mb: int = 1024, jvm_options: tuple[str, ...] = ()):
        super().__init__()
        if workers < 1:
            raise ServiceError(f"a Spark cluster of {workers} workers runs no tasks; ask for one or more")
        self._workers = workers
        self._capacity = ["--cores", str(cores), "--memory", f"{memory_mb}m"]
        self._jvm_options = jvm_options
        self._ports: dict[int, int] = {}
        self._page = 0

    @property
    def url(self) -> str:
        """The master for drivers."""
        _ = self.folder
        return f"spark://{HOST}:{self._ports[_MASTER]}"

    @property
    def nodes(self) -> tuple[int, ...]:
        """The master and the workers, whether they run or not."""
        return tuple(range(_MASTER, _MASTER + 1 + self._workers))

    def executors(self, node: int) -> list[Identity]:
        """The running executors of a worker, each a separate process."""
        folder = str(self._work(node))
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is not ours
                works = os.readlink(each / "cwd").startswith(folder)
                if works and _EXECUTOR in (each / "cmdline").read_bytes():
                    found.append(Identity.of(int(each.name)))
        return [each for each in found if each is not None]

    # --- inside ----------------------------------------------------------------------------------------------

    def _install(self) -> None:
        self._home = Path(os.environ.get("SPARK_HOME") or package_folder("pyspark"))
        self._java = find_java()
        if not (self._home / "bin" / "spark-class").exists():
            raise ServiceError(f"no Spark to start in {self._home}; run `pip install pyspark`, or correct SPARK_HOME")

    def _prepare(self) -> None:
        *ports, self._page = free_ports(*(0 for _ in (*self.nodes, None)))
        self._ports = dict(zip(self.nodes, ports, strict=True))
        environment = {
            "SPARK_HOME": str(self._home),
            "JAVA_HOME": str(self._java.home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join((*_JVM, *self._jvm_options)),
        }
        settings = [f"{key}={value}" for key, value in environment.items()]
        self._command = ["env", *settings, str(self._home / "bin" / "spark-class")]

    def _arguments(self, node: int) -> list[str]:
        place = ["--host", HOST, "--port", str(self._ports[node])]
        if node == _MASTER:
            return [f"{_CLASSES}.master.Master", *place, "--webui-port", str(self._page)]
        own = ["--webui-port", "0", "--work-dir", str(self._work(node))]
        return [f"{_CLASSES}.worker.Worker", *place, *own, *self._capacity, self.url]

    def _work(self, node: int) -> Path:
        """The folder of a worker's executors."""
        return self.folder / f"worker-{node}"

    def _answers(self, node: int) -> bool:
        state = self._state()
        if state is None or node == _MASTER:
            return state is not None
        port = self._ports[node]
        return any(each["port"] == port and each["state"] == "ALIVE" for each in state["workers"])

    def _state(self) -> Any:
        """What the master says of itself and its workers; None if it does not answer."""
        connection = http.client.HTTPConnection(HOST, self._page, timeout=5)
        with closing(connection), suppress(OSError, http.client.HTTPException, ValueError):
            connection.request("GET", "/json/")
            return json.loads(connection.getresponse().read())
        return None

    def log(self, node: int = _MASTER) -> Path:
        """The file with a node's warnings and errors."""
        return self.folder / f"node-{node}.log"

    def _title(self, node: int) -> str:
        return "Spark's master" if node == _MASTER else f"Spark's worker {node - _MASTER}"

    def _grace(self) -> float:
        return GRACE_SECONDS  # a worker ends its executors, unless it is killed

    def kill(self, node: int = _MASTER) -> None:
        """Kills a node's process, and the executors of a worker with it, as a machine that fails would."""
        doomed = [] if node == _MASTER else self.executors(node)
        super().kill(node)
        for each in doomed:
            each.signal(signal.SIGKILL)
