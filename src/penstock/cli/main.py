"""``penstock``: one command, several subcommands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from penstock import __version__
from penstock.cli import broker, demo, doctor, formats, reference, registry, run, txn
from penstock.errors import DefinitionError, ExecutionError, PenstockError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``penstock`` with ``argv`` (default: the process's arguments) and return its exit status.

    0: done; 1: it failed, or some input was bad; 2: what was asked for cannot mean anything; 3: a job of ``run`` failed
    in a way that starting it again does not help, or does harm (another copy took over, data may be lost, the
    checkpoint does not fit, a record cannot be read, a right or a password is wrong), so that what supervises the
    process should not; 130: interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Kafka for PySpark: SQL tables, pipelines and exactly-once delivery.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (run, formats, txn, broker, registry, doctor, demo, reference):
        module.add_parser(subparsers)
    parser.set_defaults(terminal_status=1)
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except DefinitionError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 2
    except PenstockError as error:
        print("\n".join((f"error: {error}", *_notes(error))), file=sys.stderr)
        terminal = isinstance(error, ExecutionError) and not error.restartable
        return int(arguments.terminal_status) if terminal else 1
    except KeyboardInterrupt:
        return 130  # as a shell reports SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return status


def _notes(error: PenstockError) -> list[str]:
    return [f"note: {note}" for note in getattr(error, "__notes__", ())]


if __name__ == "__main__":
    sys.exit(main())
