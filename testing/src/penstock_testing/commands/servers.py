"""``penstock broker`` and ``penstock registry``: servers in the background, for work on this machine."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Self

from penstock.cli.display import describe_command
from penstock.errors import ServiceError
from penstock.machine.folders import state_folder
from penstock_testing.services import DEFAULT_VERSION
from penstock_testing.services.running import BackgroundCluster, BackgroundRegistry


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``start``, ``stop`` and ``status`` of both commands."""
    for servers, default in ((BackgroundCluster, 9092), (BackgroundRegistry, 8081)):
        name = servers.command
        text = f"start, stop or look at a {servers.title} on this machine"
        parser = subparsers.add_parser(
            name, help=text, description=describe_command(f"{text}, for development and tests")
        )
        parser.set_defaults(servers=servers)
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
        start = actions.add_parser("start", help=f"start a {name} and leave it running; prints one line of JSON")
        start.add_argument("--port", type=int, default=default, metavar="P", help=f"the first port; default {default}")
        start.add_argument("--data", type=Path, metavar="DIR", help="keep the data here; default: a temporary folder")
        start.set_defaults(run=_start)
        stop = actions.add_parser("stop", help=f"stop the {name} that `start` started")
        stop.add_argument("--port", type=int, metavar="P", help="the port of the one to stop, when several run")
        stop.set_defaults(run=_stop)
        status = actions.add_parser("status", help="show the servers that run; exit code 1 when there is none")
        status.set_defaults(run=_status)
        if servers is BackgroundCluster:
            brokers = "how many: 1 (default), or 3, on consecutive ports"
            start.add_argument("--brokers", type=int, default=1, metavar="N", help=brokers)
            version = f"the version of Kafka; default {DEFAULT_VERSION}"
            start.add_argument("--version", default=DEFAULT_VERSION, metavar="V", help=version)


def _start(args: argparse.Namespace) -> int:
    if args.port < 1:
        raise ServiceError(f"port {args.port} cannot be used; choose one from 1024 to 65000")
    started: BackgroundCluster | BackgroundRegistry
    with _ProgressLine() as progress:
        if args.servers is BackgroundCluster:
            key, version = "bootstrap", args.version
            started = BackgroundCluster.start(
                args.brokers, port=args.port, data=args.data, version=version, progress=progress
            )
        else:
            key, started = "url", BackgroundRegistry.start(port=args.port, data=args.data, progress=progress)
    pids = [node.pid for node in started.nodes]
    print(json.dumps({key: started.address, "pid": pids[0] if len(pids) == 1 else pids}))
    return 0


def _stop(args: argparse.Namespace) -> int:
    name = args.servers.command
    chosen = [each for each in args.servers.all() if args.port in (None, each.port)]
    if not chosen:
        where = f" on port {args.port}" if args.port else ""
        raise ServiceError(
            f"no {name} of `penstock {name} start` runs{where}, by '{state_folder()}'; `penstock {name} status` shows "
            f"all. One that was started with another XDG_STATE_HOME is stopped with that"
        )
    if len(chosen) > 1:
        ports = ", ".join(str(each.port) for each in chosen)
        raise ServiceError(f"several {args.servers.folder} run, on ports {ports}; name one with --port")
    chosen[0].stop()
    print(f"stopped {chosen[0].address} (pid {chosen[0].pids})")
    return 0


def _status(args: argparse.Namespace) -> int:
    running = args.servers.all()
    for each in running:
        data = "temporary data" if each.temporary else f"data in {each.data}"
        print(f"{each.address}  {each.product} {each.version}  {each.state}  pid {each.pids}  {data}")
    if not running:
        name = args.servers.command
        print(f"no {name} runs, by '{state_folder()}'; `penstock {name} start` starts one")
    return 0 if running else 1


class _ProgressLine:
    """On a terminal, a line that is rewritten, and erased at the end. Elsewhere (a log), a line for each step: the text
    before a colon names the step."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._step = ""

    def __call__(self, line: str) -> None:
        step = line.partition(":")[0]
        if self._terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif step != self._step:
            print(line, file=sys.stderr, flush=True)
        self._step = step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal and self._step:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
