"""Options of commands that connect to a Kafka cluster: its address and the client's properties."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from penstock.cli.display import add_pairs, parse_pairs
from penstock.errors import OptionsError, Problem
from penstock.kafka.properties import ClientConfig, check, describe_without_effect, find_remarks, find_without_effect

_SERVERS = "bootstrap.servers"


def add_client_options(parser: argparse._ActionsContainer) -> None:
    """Adds ``--bootstrap-servers``, ``--command-config`` and ``--property``; :func:`client_config` reads them."""
    parser.add_argument("--bootstrap-servers", "--bootstrap", metavar="H:P", help="brokers of the cluster")
    parser.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="a properties file with the Kafka client's settings, such as security.protocol",
    )
    add_pairs(parser, "--property", "a setting of the Kafka client by Kafka's name; overrides the file")


def client_config(args: argparse.Namespace) -> ClientConfig:
    """The configuration that the options give. Raises OptionsError with every problem; no value that may be secret
    is in it."""
    file: Path | None = args.command_config
    given, problems = parse_pairs(args.property, "--property")
    if args.bootstrap_servers:
        given[_SERVERS] = args.bootstrap_servers
    properties = (_read_file(file) if file else {}) | given
    for each in [] if problems else check(properties):
        option = "--bootstrap-servers" if each.key == _SERVERS else "--property"
        problems.append(replace(each, where=option if each.key in given or file is None else str(file)))
    if problems:
        raise OptionsError(tuple(problems))
    for name, why in find_remarks(properties):
        print(f"warning: '{name}' has no effect: {why}", file=sys.stderr)
    if line := describe_without_effect(find_without_effect(properties)):
        print(f"warning: {line}", file=sys.stderr)
    return ClientConfig.from_properties(properties)


# --- properties files ------------------------------------------------------------------------------------------

_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _read_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("latin-1")
    except OSError as error:
        problem = Problem(f"cannot be read: {error.strerror}", where=str(path), hint="check --command-config")
        raise OptionsError((problem,)) from None
    try:
        return parse_properties(text)
    except ValueError as error:
        raise OptionsError((Problem(str(error), where=str(path)),)) from None


def parse_properties(text: str) -> dict[str, str]:
    r"""A Java properties file, as ``java.util.Properties.load`` reads it: the last value of a key counts.

    Files are Latin-1, with ``\uXXXX`` for everything else. Raises ValueError, which names the line but not its content.
    """
    found = {}
    for number, line in _read_logical_lines(text):
        key, value = _PAIR.findall(line)[0]  # matches every line, at worst as two empty texts
        found[_unescape(key, number)] = _unescape(value, number)
    return found


def _read_logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither blank nor comments, joined with their continuations, and the number of the first."""
    begun, whole = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
            continue
        yield begun, whole + line
        begun, whole = 0, ""
    if whole:
        yield begun, whole


def _unescape(text: str, number: int) -> str:
    def character(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        if found[2] == "u":
            raise ValueError(f"line {number}: expected four hexadecimal digits after \\u")
        return _CONTROLS.get(found[2], found[2])

    # Java's characters are UTF-16 units: two escapes may make one character.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
