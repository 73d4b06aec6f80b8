"""``penstock``: one command, several subcommands."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence

from penstock import __version__
from penstock.errors import AlreadyRunningError, DefinitionError, ExecutionError, PenstockError, verbose

#: The commands of each module. Only the module of the given command is imported, in a third of the time of all.
_COMMANDS = {
    "run": ("run", "check"),
    "formats": ("decode", "encode"),
    "savepoint": ("savepoint",),
    "state": ("state",),
    "txn": ("txn",),
    "background": ("broker", "registry"),
    "doctor": ("doctor",),
    "demo": ("demo",),
    "reference": ("reference",),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``penstock`` with ``argv`` (default: the process's arguments) and returns its exit status.

    0: success. 1: the command failed, or some input was bad. 2: the request makes no sense. 3: a job of ``run`` failed,
    and a supervisor should not start the process again, because that does not help or does harm: another copy took
    over, data may be lost, the checkpoint does not fit, a record cannot be read, a right or a password is wrong. 4: a
    job of ``run`` runs already in another process, and was left alone; another start succeeds when that has ended. 130:
    interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Kafka for PySpark: SQL tables, pipelines and exactly-once delivery.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    given = sys.argv[1:] if argv is None else list(argv)
    asked = [module for module, commands in _COMMANDS.items() if given and given[0] in commands]
    for module in asked or _COMMANDS:
        importlib.import_module(f"penstock.cli.{module}").add_parser(subparsers)
    parser.set_defaults(terminal_status=1)
    arguments = parser.parse_args(given)
    try:
        status: int = arguments.run(arguments)
    except DefinitionError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 2
    except PenstockError as error:
        if verbose():
            traceback.print_exception(error)
        notes = (f"note: {note}" for note in getattr(error, "__notes__", ()))
        print(f"error: {error}", *notes, sep="\n", file=sys.stderr)
        if isinstance(error, AlreadyRunningError):
            return 4
        terminal = isinstance(error, ExecutionError) and not error.restartable
        return int(arguments.terminal_status) if terminal else 1
    except KeyboardInterrupt:
        return 130  # as a shell reports SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
