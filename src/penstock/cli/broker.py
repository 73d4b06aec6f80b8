"""`penstock broker`: a Kafka broker in the background, for work on this machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.progress import ProgressLine
from penstock.errors import ServiceError
from penstock.services import DEFAULT_VERSION
from penstock.services.running import BackgroundCluster
from penstock.services.wire import cluster_members

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_parser"]

_DEFAULT_PORT = 9092


def add_parser(subparsers: Subparsers) -> None:
    """Adds ``broker start``, ``stop`` and ``status`` to the command line."""
    broker = subparsers.add_parser("broker", help="start, stop or look at a Kafka broker on this machine")
    actions = broker.add_subparsers(title="actions", metavar="ACTION", required=True)

    start = actions.add_parser("start", help="start a broker and leave it running; prints one line of JSON")
    start.add_argument("--brokers", type=int, default=1, metavar="N", help="how many: 1 (default), or 3")
    start.add_argument(
        "--port", type=int, default=_DEFAULT_PORT, metavar="P", help=f"of the first broker; default {_DEFAULT_PORT}"
    )
    start.add_argument("--data", type=Path, metavar="DIR", help="keep the data here; default: forget it")
    start.add_argument("--version", default=DEFAULT_VERSION, metavar="V", help=f"of Kafka; default {DEFAULT_VERSION}")
    start.set_defaults(run=_start)

    stop = actions.add_parser("stop", help="stop the broker that `start` started")
    stop.add_argument("--port", type=int, metavar="P", help="which one, when several run")
    stop.set_defaults(run=_stop)

    status = actions.add_parser("status", help="show what runs; exit code 1 when nothing does")
    status.set_defaults(run=_status)


def _start(args: argparse.Namespace) -> int:
    if args.port < 1:
        raise ServiceError(f"port {args.port} cannot be used; choose one from 1024 to 65000")
    with ProgressLine() as progress:
        started = BackgroundCluster.start(
            args.brokers, port=args.port, data=args.data, version=args.version, progress=progress
        )
    pids = [node.pid for node in started.nodes]
    print(json.dumps({"bootstrap": started.address, "pid": pids[0] if len(pids) == 1 else pids}))
    return 0


def _stop(args: argparse.Namespace) -> int:
    running = BackgroundCluster.all()
    chosen = [cluster for cluster in running if args.port in (None, cluster.port)]
    if not chosen:
        where = f" on port {args.port}" if args.port else ""
        raise ServiceError(f"no broker of `penstock broker start` runs{where}; `penstock broker status` shows all")
    if len(chosen) > 1:
        ports = ", ".join(str(cluster.port) for cluster in chosen)
        raise ServiceError(f"several brokers run, on ports {ports}; name one with --port")
    chosen[0].stop()
    print(f"stopped {chosen[0].address} (pid {chosen[0].pids})")
    return 0


def _status(args: argparse.Namespace) -> int:
    running = BackgroundCluster.all()
    for cluster in running:
        data = "temporary data" if cluster.temporary else f"data in {cluster.data}"
        print(f"{cluster.address}  Kafka {cluster.version}  {_answering(cluster)}  pid {cluster.pids}  {data}")
    if not running:
        print("no broker runs; `penstock broker start` starts one")
    return 0 if running else 1


def _answering(cluster: BackgroundCluster) -> str:
    answering = 0
    addresses = cluster.address.split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            cluster_members(host, int(port))
            answering += 1
        except OSError:
            continue
    if len(addresses) == 1:
        return "answers" if answering else "does not answer"
    return f"{answering} of {len(addresses)} answer"
