"""``penstock savepoint``: a copy of a job's committed state and positions, from which other jobs start."""

from __future__ import annotations

import argparse
import sys

from penstock.cli.checkpoints import add_job, open_checkpoint
from penstock.cli.display import count, describe_command


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``savepoint``."""
    text = "copy a job's committed state and positions to a directory, from which `penstock run --from` starts others"
    parser = subparsers.add_parser("savepoint", help=text, description=describe_command(text))
    add_job(parser)
    parser.add_argument("directory", metavar="DIR", help="a new directory or URI for the savepoint")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from penstock.engine.checkpoint import read_location
    from penstock.engine.checkpoint.savepoints import write_savepoint

    made = write_savepoint(open_checkpoint(arguments), read_location(arguments.directory))
    content = made.content
    kept = f", with the state of {count(len(made.operators), 'step')}" if made.operators else ""
    print(f"savepoint of job '{content.job}' after batch {content.batch}{kept}: {made.location}")
    if made.note:
        print(f"note: {made.note}", file=sys.stderr)
    return 0
