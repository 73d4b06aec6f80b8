"""`penstock registry`: a schema registry in the background, for work on this machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.progress import ProgressLine
from penstock.errors import ServiceError
from penstock.services.registry import answers
from penstock.services.running import BackgroundRegistry

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_parser"]

_DEFAULT_PORT = 8081


def add_parser(subparsers: Subparsers) -> None:
    """Adds ``registry start``, ``stop`` and ``status`` to the command line."""
    registry = subparsers.add_parser("registry", help="start, stop or look at a schema registry on this machine")
    actions = registry.add_subparsers(title="actions", metavar="ACTION", required=True)

    start = actions.add_parser("start", help="start a registry and leave it running; prints one line of JSON")
    start.add_argument("--port", type=int, default=_DEFAULT_PORT, metavar="P", help=f"default {_DEFAULT_PORT}")
    start.add_argument("--data", type=Path, metavar="DIR", help="keep the schemas here; default: forget them")
    start.set_defaults(run=_start)

    stop = actions.add_parser("stop", help="stop the registry that `start` started")
    stop.add_argument("--port", type=int, metavar="P", help="which one, when several run")
    stop.set_defaults(run=_stop)

    status = actions.add_parser("status", help="show what runs; exit code 1 when nothing does")
    status.set_defaults(run=_status)


def _start(args: argparse.Namespace) -> int:
    if args.port < 1:
        raise ServiceError(f"port {args.port} cannot be used; choose one from 1024 to 65000")
    with ProgressLine() as progress:
        started = BackgroundRegistry.start(port=args.port, data=args.data, progress=progress)
    print(json.dumps({"url": started.address, "pid": started.nodes[0].pid}))
    return 0


def _stop(args: argparse.Namespace) -> int:
    running = BackgroundRegistry.all()
    chosen = [registry for registry in running if args.port in (None, registry.port)]
    if not chosen:
        where = f" on port {args.port}" if args.port else ""
        raise ServiceError(
            f"no registry of `penstock registry start` runs{where}; `penstock registry status` shows all"
        )
    if len(chosen) > 1:
        ports = ", ".join(str(registry.port) for registry in chosen)
        raise ServiceError(f"several registries run, on ports {ports}; name one with --port")
    chosen[0].stop()
    print(f"stopped {chosen[0].address} (pid {chosen[0].pids})")
    return 0


def _status(args: argparse.Namespace) -> int:
    running = BackgroundRegistry.all()
    for registry in running:
        data = "temporary data" if registry.temporary else f"data in {registry.data}"
        state = "answers" if answers(registry.port) else "does not answer"
        print(f"{registry.address}  Apicurio {registry.version}  {state}  pid {registry.pids}  {data}")
    if not running:
        print("no registry runs; `penstock registry start` starts one")
    return 0 if running else 1
