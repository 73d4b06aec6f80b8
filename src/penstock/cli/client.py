"""Options of commands that talk to a Kafka cluster: where it is, and how to log in."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import OptionsError, Problem
from penstock.kafka.properties import ClientConfig, check

_SERVERS = "bootstrap.servers"


def add_client_options(parser: argparse._ActionsContainer) -> None:
    """Adds ``--bootstrap-servers``, ``--command-config`` and ``--property``; :func:`client_config` reads them."""
    parser.add_argument("--bootstrap-servers", "--bootstrap", metavar="H:P", help="brokers to ask first")
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="a properties file with the Kafka client's settings, such as security.protocol",
    )
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="K=V",
        help="of the Kafka client, by Kafka's name, over those of the file; repeatable",
    )


def client_config(args: argparse.Namespace) -> ClientConfig:
    """What the options say. Raises OptionsError with every problem; values that may be secret are never in it."""
    file: Path | None = args.command_config
    written = _file(file) if file else {}
    given = dict(_pairs(args.property))
    if args.bootstrap_servers:
        given[_SERVERS] = args.bootstrap_servers
    properties = written | given
    problems = check(properties)
    if problems:
        raise OptionsError(
            tuple(Problem(each.reason, each.key, _origin(each.key, given, file), each.hint) for each in problems)
        )
    return ClientConfig.from_properties(properties)


def _origin(key: str, given: dict[str, str], file: Path | None) -> str:
    """The place that a property was written at, or has to be."""
    if key == _SERVERS and (key in given or file is None):
        return "--bootstrap-servers"
    return "--property" if key in given or file is None else str(file)


def _pairs(pairs: list[str]) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise OptionsError((Problem("expected a key, an equals sign and a value", key, where="--property"),))
        yield key, value


# --- properties files ------------------------------------------------------------------------------------------

_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("latin-1")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise OptionsError((Problem(reason, where=str(path), hint="check --command-config"),)) from None
    try:
        return parse_properties(text)
    except ValueError as error:
        raise OptionsError((Problem(str(error), where=str(path)),)) from None


def parse_properties(text: str) -> dict[str, str]:
    r"""A Java properties file, as ``java.util.Properties.load`` reads it; of a key given twice the last counts.

    Files are Latin-1, with ``\uXXXX`` for everything else. Raises ValueError, naming the line but not its content.
    """
    found = {}
    for number, line in _logical_lines(text):
        key, value = _PAIR.findall(line)[0]  # every line is a pair, if only of empty texts
        found[_plain(key, number)] = _plain(value, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, with their continuations, and the number of their first one."""
    begun, whole = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            whole += line[:-1]
            continue
        yield begun, whole + line
        begun, whole = 0, ""
    if whole:
        yield begun, whole


def _plain(text: str, number: int) -> str:
    def character(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] == "u":
            raise ValueError(f"line {number}: expected four hexadecimal digits after \\u")
        return _CONTROLS.get(found[2], found[2])

    # Java's characters are UTF-16 units: two escapes may be one character.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
