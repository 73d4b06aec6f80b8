"""Validation by JSON Schemas, as far as the schema of pipelines uses them, and YAML as editors read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from penstock.ingest.json_schema import build_schema
from penstock.ingest.tree import Tree
from penstock.kafka.properties import ACTS

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or _is_whole(value)),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
#: Keywords that say something about a schema and not about values.
_ABOUT = {"$schema", "$defs", "title", "description", "default", "examples", "then", "properties", "patternProperties"}
_KNOWN = {
    *_ABOUT,
    *("$ref", "type", "enum", "pattern", "minimum", "maximum", "minLength", "required", "additionalProperties"),
    *("items", "anyOf", "allOf", "if"),
}


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


_compile = cache(re.compile)


class Validator:
    """Finds what a schema does not allow."""

    def __init__(self, schema: Mapping[str, Any]):
        self.schema = schema

    def find_errors(self, value: Any) -> list[str]:
        """The errors of a value, each with its path."""
        return list(self._check(self.schema, value, ""))

    def _check(self, schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
        if not schema.keys() <= _KNOWN:
            raise ValueError(f"{sorted(schema.keys() - _KNOWN)} in the schema")
        if "$ref" in schema:
            yield from self._check(self._find(schema["$ref"]), value, path)
        types = schema.get("type", [])
        if types and not any(_TYPES[each](value) for each in ([types] if isinstance(types, str) else types)):
            yield f"{path}: {value!r} is not of type {types}"
            return
        if "enum" in schema and not any(type(each) is type(value) and each == value for each in schema["enum"]):
            yield f"{path}: {value!r} is not one of {schema['enum']}"
        if isinstance(value, str):
            if "pattern" in schema and _compile(schema["pattern"]).search(value) is None:
                yield f"{path}: {value!r} does not match {schema['pattern']}"
            if len(value) < schema.get("minLength", 0):
                yield f"{path}: {value!r} is too short"
        if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{path}: {value} is out of bounds"
        if isinstance(value, list):
            for at, each in enumerate(value):
                yield from self._check(schema.get("items", {}), each, f"{path}/{at}")
        if isinstance(value, dict):
            yield from self._check_object(schema, value, path)
        for each in schema.get("allOf", ()):
            yield from self._check(each, value, path)
        if "anyOf" in schema:
            errors = [list(self._check(each, value, path)) for each in schema["anyOf"]]
            if all(errors):
                yield f"{path}: none of the alternatives: {errors}"
        if "if" in schema and not list(self._check(schema["if"], value, path)):
            yield from self._check(schema["then"], value, path)

    def _check_object(self, schema: Mapping[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
        yield from (f"{path}: lacks '{each}'" for each in schema.get("required", ()) if each not in value)
        patterns = schema.get("patternProperties", {})
        for key, each in value.items():
            found = [of for pattern, of in patterns.items() if _compile(pattern).search(key)]
            found += [schema["properties"][key]] if key in schema.get("properties", {}) else []
            for of in found:
                yield from self._check(of, each, f"{path}/{key}")
            if not found and not schema.get("additionalProperties", True):
                yield f"{path}: unknown key '{key}'"

    def _find(self, reference: str) -> Mapping[str, Any]:
        found: Any = self.schema
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return found

    def check_schema(self) -> None:
        """Raises an error for a schema with a keyword or a reference that is not one, or a pattern that is none."""
        self._check_part(self.schema)

    def _check_part(self, schema: Mapping[str, Any]) -> None:
        if not schema.keys() <= _KNOWN:
            raise ValueError(f"{sorted(schema.keys() - _KNOWN)} in the schema")
        if "$ref" in schema:
            self._find(schema["$ref"])
        if "pattern" in schema:
            _compile(schema["pattern"])
        types = schema.get("type", [])
        for each in [types] if isinstance(types, str) else types:
            _TYPES[each]
        for pattern in schema.get("patternProperties", {}):
            _compile(pattern)
        for part in ("properties", "patternProperties", "$defs"):
            for each in schema.get(part, {}).values():
                self._check_part(each)
        for each in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            self._check_part(each)
        for part in schema.keys() & {"items", "if", "then"}:
            self._check_part(schema[part])


@cache
def pipeline_validator() -> Validator:
    """Validates pipelines."""
    return Validator(build_schema(ACTS))


@cache
def find_schema_errors(text: str) -> list[str]:
    """What the schema of pipelines does not allow in a pipeline."""
    return pipeline_validator().find_errors(read_pipeline(text))


def read_pipeline(text: str) -> Any:
    """The values of a pipeline, as the core schema of YAML 1.2 has them."""
    return _read_node(Tree(text, "p.yaml", {}).root)


def _read_node(node: Node) -> Any:
    if isinstance(node, MappingNode):
        return {key.value: _read_node(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [_read_node(each) for each in node.value]
    assert isinstance(node, ScalarNode)
    text = node.value
    if node.style is not None:
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text.lower() in ("true", "false") and text in (text.lower(), text.upper(), text.capitalize()):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return text
