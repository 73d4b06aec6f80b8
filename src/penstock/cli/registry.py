"""`penstock registry`: a schema registry in the background, for work on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.background import Servers
from penstock.services.downloads import Progress
from penstock.services.registry import answers
from penstock.services.running import BackgroundRegistry

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Adds ``registry start``, ``stop`` and ``status`` to the command line."""
    Servers(BackgroundRegistry, "a schema registry", "Apicurio", 8081, "url", _start, _state).add_parser(subparsers)


def _start(args: argparse.Namespace, progress: Progress) -> BackgroundRegistry:
    return BackgroundRegistry.start(port=args.port, data=args.data, progress=progress)


def _state(registry: BackgroundRegistry) -> str:
    return "answers" if answers(registry.port) else "does not answer"
