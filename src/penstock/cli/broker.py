"""`penstock broker`: a Kafka broker in the background, for work on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.background import Servers
from penstock.services import DEFAULT_VERSION
from penstock.services.downloads import Progress
from penstock.services.running import BackgroundCluster
from penstock.services.wire import cluster_members

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Adds ``broker start``, ``stop`` and ``status`` to the command line."""
    servers = Servers(BackgroundCluster, "a Kafka broker", "Kafka", 9092, "bootstrap", _start, _state)
    start = servers.add_parser(subparsers)
    more = "how many: 1 (default), or 3, which take the ports behind the first one's"
    start.add_argument("--brokers", type=int, default=1, metavar="N", help=more)
    start.add_argument("--version", default=DEFAULT_VERSION, metavar="V", help=f"of Kafka; default {DEFAULT_VERSION}")


def _start(args: argparse.Namespace, progress: Progress) -> BackgroundCluster:
    return BackgroundCluster.start(
        args.brokers, port=args.port, data=args.data, version=args.version, progress=progress
    )


def _state(cluster: BackgroundCluster) -> str:
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
