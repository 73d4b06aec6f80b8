"""Clusters that run in the background, as `penstock broker` starts, lists and stops them.

Each has a folder named after its first port under the user's state folder; ``state.json`` in it names the
processes in such a way that one which merely inherited an id is never touched.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from penstock.errors import ServiceError
from penstock.services.folders import locked, state_folder
from penstock.services.jars import DEFAULT_VERSION, Progress
from penstock.services.kafka import KafkaCluster
from penstock.services.process import Identity, end_all

__all__ = ["BackgroundCluster"]

_STATE = "state.json"
_GRACE_SECONDS = 20.0


@dataclass(frozen=True)
class BackgroundCluster:
    """A cluster that outlives the process that started it."""

    port: int
    bootstrap: str
    version: str
    data: str
    temporary: bool
    nodes: tuple[Identity, ...]

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
        folder = _folders() / str(port)
        lock = folder.with_name(f"{port}.lock")
        with locked(lock, lambda: progress(f"waiting for another start on port {port}")):
            present = cls._read(folder)
            if present is not None and present.alive():
                raise ServiceError(
                    f"a broker runs on port {port} already (pid {present.pids}); "
                    f"`penstock broker stop --port {port}` stops it"
                )
            shutil.rmtree(folder, ignore_errors=True)  # what a machine that went down left behind
            cluster = KafkaCluster(
                brokers, port=port, data=data, version=version, folder=folder, detachable=True, progress=progress
            )
            with cluster:
                processes = tuple(cluster.processes.values())
                started = cls(port, cluster.bootstrap, version, str(cluster.data), data is None, processes)
                (folder / _STATE).write_text(json.dumps(asdict(started)))
                cluster.detach()
        return started

    @classmethod
    def all(cls) -> list[Self]:
        """Those that run, by port."""
        found = (cls._read(folder) for folder in sorted(_folders().glob("*/"), key=lambda path: path.name.zfill(5)))
        return [cluster for cluster in found if cluster is not None and cluster.alive()]

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
        end_all(self.nodes, 0.0 if self.temporary else _GRACE_SECONDS)
        shutil.rmtree(_folders() / str(self.port), ignore_errors=True)


def _folders() -> Path:
    return state_folder() / "brokers"
