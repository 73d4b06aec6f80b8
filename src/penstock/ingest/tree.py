"""YAML text to nodes with places. Values stay text: they are not read as Python objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from penstock.errors import PipelineError, Problem, undefined_variable

#: The keys of a pipeline.
TOP = ("source", "sink", "route", "transform", "pipeline")

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_INDENTED = re.compile(rf"^ ({'|'.join(TOP)})(\s*):(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A key with its value."""

    key: str
    at: Node
    value: Node


class Tree:
    """The nodes of a text. Collects problems and warnings, each with file, line and column."""

    def __init__(self, text: str, file: str, variables: Mapping[str, str]):
        self.file = file
        self.variables = variables
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.root = self._compose(text)

    def _compose(self, text: str) -> Node:
        try:
            found = self._parse_yaml(text)
        except yaml.YAMLError as error:
            # Published examples indent a top-level key by one space too many; it is read as a top-level key.
            mended = _INDENTED.sub(r"\1\2: ", text)
            try:
                found = self._parse_yaml(mended)
            except yaml.YAMLError:
                raise PipelineError((self._syntax_problem(error),)) from None
            for match in _INDENTED.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                place = self._name_place(f"line {line}, column 2")
                self.warnings.append(
                    f"{place}: '{match[1]}' is indented by one space too many; it is read as a top-level key"
                )
        if found is None:
            reason = "the pipeline is empty"
            raise PipelineError((Problem(reason, where=self.file, hint="it needs at least 'source' and 'sink'"),))
        return found

    @staticmethod
    def _parse_yaml(text: str) -> Node | None:
        found: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        return found

    def _syntax_problem(self, error: yaml.YAMLError) -> Problem:
        place, reason = "", str(error)
        if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark) is not None:
            place, reason = f"line {mark.line + 1}, column {mark.column + 1}", error.problem or reason
        return Problem(
            f"this is not YAML: {reason}", where=self._name_place(place), hint="check indentation and quotes"
        )

    def _name_place(self, place: str) -> str:
        return ", ".join(part for part in (self.file, place) if part)

    def spot(self, node: Node) -> str:
        """``line 3, column 5``."""
        return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"

    def place(self, node: Node) -> str:
        """``pipeline.yaml, line 3, column 5``."""
        return self._name_place(self.spot(node))

    def problem(self, node: Node, reason: str, key: str = "", hint: str = "") -> None:
        """Add a problem at a node."""
        self.problems.append(Problem(reason, key, self.place(node), hint))

    def warn(self, node: Node, message: str) -> None:
        """Add a warning about a node that is not read as it was written."""
        self.warnings.append(f"{self.place(node)}: {message}")

    def entries(self, node: Node, part: str) -> dict[str, Entry]:
        """The entries of a mapping, by key. Adds a problem if ``node`` is not a mapping or has a key twice."""
        if not isinstance(node, MappingNode):
            self.problem(node, "expected 'key: value' lines", part)
            return {}
        found: dict[str, Entry] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.problem(key, "expected a name before the colon", part)
            elif key.value in found:
                self.problem(key, "is given twice", key.value, f"first in {self.spot(found[key.value].at)}")
            else:
                found[key.value] = Entry(key.value, key, value)
        return found

    @staticmethod
    def keys(node: Node) -> set[str]:
        """The keys of a mapping."""
        return {str(key.value) for key, _ in node.value} if isinstance(node, MappingNode) else set()

    def items(self, node: Node, part: str) -> list[Node]:
        """The items of a list. Adds a problem if ``node`` is not a list."""
        if not isinstance(node, SequenceNode):
            self.problem(node, "expected a list, each item beginning with '- '", part)
            return []
        return list(node.value)

    def text(self, entry: Entry) -> str | None:
        """The text of a value with its variables replaced, or None after a problem."""
        node = entry.value
        if not isinstance(node, ScalarNode):
            self.problem(node, "expected one value", entry.key)
            return None
        if node.tag == "tag:yaml.org,2002:null":
            self.problem(entry.at, "has no value", entry.key, "write '' for an empty value, or remove the line")
            return None
        text = str(node.value)
        missing = [name for name in _VARIABLE.findall(text) if name.strip() not in self.variables]
        for name in missing:
            reason, hint = undefined_variable(name.strip(), self.variables)
            self.problem(node, reason, entry.key, hint)
        return None if missing else _VARIABLE.sub(lambda match: self.variables[match[1].strip()], text)
