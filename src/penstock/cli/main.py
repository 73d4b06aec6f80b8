"""``penstock``: one command, several subcommands."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from penstock import __version__
from penstock.cli.display import log_to
from penstock.cli.kit import GET_KIT, KIT, has_kit
from penstock.errors import AlreadyRunningError, DefinitionError, ExecutionError, PenstockError, nearest, verbose

#: The commands of each module. Only the module of the given command is imported, in a third of the time of all.
_COMMANDS = {
    "penstock.cli.run": ("run", "check"),
    "penstock.cli.formats": ("decode", "encode"),
    "penstock.cli.savepoint": ("savepoint",),
    "penstock.cli.state": ("state",),
    "penstock.cli.status": ("status",),
    "penstock.cli.schema": ("schema",),
    "penstock.cli.schemas": ("schemas",),
    "penstock.cli.txn": ("txn",),
    f"{KIT}.commands.servers": ("broker", "registry"),
    "penstock.cli.doctor": ("doctor",),
    f"{KIT}.commands.demo": ("demo",),
    "penstock.cli.reference": ("reference",),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``penstock`` with ``argv`` (default: the process's arguments) and returns its exit status.

    0: success. 1: the command failed, or some input was bad. 2: the request makes no sense. 3: a job of ``run`` failed,
    and a supervisor should not start the process again, because that does not help or is harmful: another copy took
    over, data may be lost, the checkpoint does not fit, a record cannot be read, a right or a password is wrong. 4: a
    job of ``run`` is already running in another process, and was left alone; another start succeeds when that has
    ended. 130: interrupted; a job that a signal has stopped cleanly ends with 0.
    """
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Kafka for PySpark: SQL tables, pipelines and exactly-once delivery.",
    )
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    given = sys.argv[1:] if argv is None else list(argv)
    asked = [module for module, commands in _COMMANDS.items() if given and given[0] in commands]
    missing = [] if has_kit() else [module for module in _COMMANDS if module.startswith(f"{KIT}.")]
    if asked and asked[0] in missing:
        print(
            f"error: `penstock {given[0]}` is part of penstock-testing, which is not installed; run `{GET_KIT}`",
            file=sys.stderr,
        )
        return 1
    for module in asked or _COMMANDS:
        if module not in missing:
            importlib.import_module(module).add_parser(subparsers)
            continue
        for command in _COMMANDS[module]:
            subparsers.add_parser(command, help=f"needs penstock-testing: {GET_KIT}")
    parser.set_defaults(terminal_status=1)
    if given and not asked and not given[0].startswith("-"):
        known = [command for commands in _COMMANDS.values() for command in commands]
        hint = nearest(given[0], known) or f"there are {', '.join(known)}"
        print(f"error: there is no command '{given[0]}' ({hint})", file=sys.stderr)
        return 2
    arguments, unknown = parser.parse_known_args(given)
    if unknown:
        print(
            f"error: unrecognized: {' '.join(unknown)}{_suggest_option(subparsers, given[0], unknown)}", file=sys.stderr
        )
        return 2
    try:
        with log_to(lambda text: print(f"warning: {text}", file=sys.stderr)):
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


def _suggest_option(subparsers: Any, command: str, unknown: Sequence[str]) -> str:
    """The option of ``command`` that is closest to the first one that is ``unknown``, in words; empty without one."""
    option = next((each.partition("=")[0] for each in unknown if each.startswith("-")), "")
    hint = nearest(option, subparsers.choices[command]._option_string_actions) if command in subparsers.choices else ""
    return f" ({hint})" if hint else ""


if __name__ == "__main__":
    sys.exit(main())
