"""What the commands of servers in the background have in common: ``start``, ``stop`` and ``status``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.cli.progress import ProgressLine
from penstock.errors import ServiceError
from penstock.services.downloads import Progress
from penstock.services.running import Background

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_Kind = TypeVar("_Kind", bound=Background)


@dataclass(frozen=True)
class Servers(Generic[_Kind]):
    """Servers of one kind, which run ``product`` and listen at ``port`` unless told otherwise.

    ``start`` starts one as the arguments say; what it gives has its address under ``key``. ``state`` says whether one
    answers.
    """

    kind: type[_Kind]
    what: str
    product: str
    port: int
    key: str
    start: Callable[[argparse.Namespace, Progress], _Kind]
    state: Callable[[_Kind], str]

    @property
    def _name(self) -> str:
        return self.kind.command

    def add_parser(self, subparsers: Subparsers) -> argparse.ArgumentParser:
        """Adds the three actions to the command line; the parser of ``start`` takes more arguments."""
        name = self._name
        parser = subparsers.add_parser(name, help=f"start, stop or look at {self.what} on this machine")
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
        start = actions.add_parser("start", help=f"start a {name} and leave it running; prints one line of JSON")
        start.add_argument("--port", type=int, default=self.port, metavar="P", help=f"default {self.port}")
        start.add_argument("--data", type=Path, metavar="DIR", help="keep the data here; default: forget it")
        start.set_defaults(run=self._start)
        stop = actions.add_parser("stop", help=f"stop the {name} that `start` started")
        stop.add_argument("--port", type=int, metavar="P", help="which one, when several run")
        stop.set_defaults(run=self._stop)
        status = actions.add_parser("status", help="show what runs; exit code 1 when nothing does")
        status.set_defaults(run=self._status)
        return start

    def _start(self, args: argparse.Namespace) -> int:
        if args.port < 1:
            raise ServiceError(f"port {args.port} cannot be used; choose one from 1024 to 65000")
        with ProgressLine() as progress:
            started = self.start(args, progress)
        pids = [node.pid for node in started.nodes]
        print(json.dumps({self.key: started.address, "pid": pids[0] if len(pids) == 1 else pids}))
        return 0

    def _stop(self, args: argparse.Namespace) -> int:
        name = self._name
        chosen = [each for each in self.kind.all() if args.port in (None, each.port)]
        if not chosen:
            where = f" on port {args.port}" if args.port else ""
            raise ServiceError(f"no {name} of `penstock {name} start` runs{where}; `penstock {name} status` shows all")
        if len(chosen) > 1:
            ports = ", ".join(str(each.port) for each in chosen)
            raise ServiceError(f"several {self.kind.folder} run, on ports {ports}; name one with --port")
        chosen[0].stop()
        print(f"stopped {chosen[0].address} (pid {chosen[0].pids})")
        return 0

    def _status(self, args: argparse.Namespace) -> int:
        running = self.kind.all()
        for each in running:
            data = "temporary data" if each.temporary else f"data in {each.data}"
            print(f"{each.address}  {self.product} {each.version}  {self.state(each)}  pid {each.pids}  {data}")
        if not running:
            print(f"no {self._name} runs; `penstock {self._name} start` starts one")
        return 0 if running else 1
