"""The grammar of pipelines as a JSON Schema (draft 2020-12), for editors.

It is made of the declarations that the parser and the connectors read. It allows whatever is accepted, and also more:
options of formats that a pipeline does not name, and options that contradict one another. Keys that are accepted by
way of exception, such as those in the wrong place, are patterns, so that editors do not suggest them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from penstock.ingest.collectors import COLLECTORS
from penstock.ingest.definition import FunctionDef, PipelineOptions, RouteDef, TransformDef, keys_of
from penstock.ingest.grammar import COLLECTOR, DELIMITER, EXCLUDE, FUNCTIONS, INCLUDE, MAPPING, SHORT_SETTINGS
from penstock.ingest.kafka_options import KafkaIngestSinkOptions, KafkaIngestSourceOptions
from penstock.options import Codec, Option, OptionSet, Property, one_of, spell
from penstock.schemas import KIND_NAMES
from penstock.settings.given import KEYS, OPTIONS
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.kerberos import KERBEROS_PREFIX, KerberosSettings
from penstock.settings.refused import REFUSED
from penstock.settings.restart import PREFIX, STRATEGIES, TYPE_KEYS
from penstock.spi import Connector, InferringFormat, WritesTables, connectors, formats

#: A JSON Schema, or a part of one.
Schema: TypeAlias = dict[str, Any]

_VARIABLE = {"$ref": "#/$defs/variable"}
#: Any value but null: all values are texts.
_TEXT: Schema = {"type": ["string", "number", "boolean"]}
#: The options that name a format, and what precedes the options of that format.
_FORMATS = {"format": "", "value.format": "value.", "key.format": "key."}
_PROPERTIES = "properties."
_SOURCE = "kafka"
#: Texts that are no strings in YAML.
_LITERAL = re.compile(r"-?\d+|true|false", re.IGNORECASE)


def build_schema(client_properties: Mapping[str, Property]) -> Schema:
    """The schema. ``client_properties`` are those of Kafka's clients that have an effect."""
    sinks = [name for name in connectors.names() if isinstance(connectors.get(name), WritesTables)]
    parts = {part: {"$ref": f"#/$defs/{part}"} for part in ("source", "sink", "route", "transform", "pipeline")}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline of penstock",
        "type": "object",
        "properties": parts,
        "additionalProperties": False,
        "anyOf": [
            {"required": ["source", "sink"]},
            *({"properties": {one: {"required": [two]}}, "required": [one]} for one, two in _BOTH_WAYS),
        ],
        "$defs": {
            "variable": {"description": "A value with a variable.", "type": "string", "pattern": r"\$\{[^{}]*\}"},
            "source": _choose_connector("source", "Where the messages come from.", [_SOURCE]),
            "sink": _choose_connector("sink", "Where the tables go to.", sinks),
            f"source-{_SOURCE}": _Side(connectors.get(_SOURCE), client_properties).source(),
            **{f"sink-{name}": _Side(connectors.get(name), client_properties).sink() for name in sinks},
            "route": _list_items(RouteDef, "Other names for tables of the sink."),
            "transform": _list_items(
                TransformDef,
                "What becomes of the rows of tables: the first item that matches a table counts.",
                {DELIMITER: {**_TEXT, "description": "The text between 'table-options'.", "default": ","}},
            ),
            "pipeline": _describe_pipeline(),
            **{f"collector-{name}": _describe_collector(options) for name, options in COLLECTORS.items()},
        },
    }


_BOTH_WAYS = (("source", "sink"), ("sink", "source"))


# --- values ------------------------------------------------------------------------------------------------------


def describe_value(codec: Codec) -> Schema:
    """The values whose texts a codec reads, and variables in place of one."""
    if not codec.pattern:
        return dict(_TEXT)
    accepted: list[Schema] = []
    if codec.values and not codec.literal:
        literals = filter(None, map(_LITERAL.fullmatch, codec.values))
        accepted.append({"enum": [*codec.values, *(json.loads(each[0].lower()) for each in literals)]})
    if codec.literal:
        bounds = {"minimum": codec.low, "maximum": codec.high}
        accepted.append({"type": codec.literal} | {key: each for key, each in bounds.items() if each is not None})
    return {"anyOf": [*accepted, {"type": "string", "pattern": codec.pattern}, _VARIABLE]}


def _describe_option(option: Option, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """The keys of an option, each with its values."""
    codec = one_of(*formats.names(), fold=str.lower) if _names_any_format(option) else option.codec
    said: Schema = {"description": option.doc + (f" Default: {option.default_text}." if option.default_text else "")}
    if not option.required and not option.default_text and option.default not in (None, ()) and not option.secret:
        said["default"] = _to_literal(option.codec, option.default)
    if option.example and not option.secret:
        said["examples"] = [option.example]
    for key in option.all_keys:
        yield prefix + key, {**said, **describe_value(codec)}


def _names_any_format(option: Option) -> bool:
    return option.key in _FORMATS and not option.codec.values


def _to_literal(codec: Codec, value: Any) -> Any:
    """A value as a pipeline has it."""
    return value if isinstance(value, int) and codec.literal else codec.show(value)


def _describe_options(options: Iterable[Option], prefix: str = "") -> dict[str, Schema]:
    return {key: each for option in options for key, each in _describe_option(option, prefix)}


def _match_keys(keys: Iterable[str]) -> str:
    """A pattern for these keys."""
    return f"^{spell(keys, any_case=False)}$"


def _match_start(start: str) -> str:
    """A pattern for keys that begin with a text."""
    return f"^{spell([start], any_case=False)}"


# --- source and sink ---------------------------------------------------------------------------------------------


def _choose_connector(part: str, about: str, names: Iterable[str]) -> Schema:
    """A source or a sink, whose keys depend on its type."""
    return {"description": about, **_choose_by_type(part, "The connector.", names, fold=str.lower)}


def _choose_by_type(part: str, about: str, names: Iterable[str], fold: Callable[[str], str]) -> Schema:
    """A mapping with a type that decides which other keys there are."""
    codec = one_of(*names, fold=fold)
    return {
        "type": "object",
        "properties": {"type": {"description": about, **describe_value(codec)}},
        "required": ["type"],
        "allOf": [
            {
                "if": {"properties": {"type": {"pattern": one_of(name, fold=fold).pattern}}, "required": ["type"]},
                "then": {"$ref": f"#/$defs/{part}-{name}"},
            }
            for name in codec.values
        ],
    }


class _Side:
    """The keys of a source or a sink with one connector."""

    def __init__(self, connector: Connector, client_properties: Mapping[str, Property]):
        self._connector, self._client_properties = connector, client_properties
        self._keys: dict[str, Schema] = {
            "type": dict(_TEXT),
            "name": {"description": "A name for people.", **_TEXT},
        }
        self._patterns: dict[str, Schema] = {}
        #: Keys that are accepted, and not suggested.
        self._others: dict[str, Schema] = {}

    def source(self) -> Schema:
        """The keys of a source."""
        self._add_options("Source")
        self._add_set(KafkaIngestSourceOptions)
        self._others[MAPPING] = describe_value(KafkaIngestSinkOptions.declared_options()["mapping"].codec)
        return self._make("sink")

    def sink(self) -> Schema:
        """The keys of a sink."""
        self._add_options("Sink")
        if self._connector.identifier == _SOURCE:
            self._add_set(KafkaIngestSinkOptions)
        kinds = describe_value(one_of(*KIND_NAMES, fold=str.lower))
        for key, what in ((INCLUDE, "reach"), (EXCLUDE, "do not reach")):
            about = f"Kinds of schema changes that {what} the sink."
            self._keys[key] = {"description": about, "anyOf": [{"type": "array", "items": kinds}, kinds]}
        return self._make("source")

    def _make(self, other: str) -> Schema:
        for part in ("route", "transform", "pipeline", other):  # indented too far
            self._others[part] = {"$ref": f"#/$defs/{part}"}
        grouped: dict[str, list[str]] = {}
        for key, each in self._others.items():
            grouped.setdefault(json.dumps(each), []).append(key)
        others = {_match_keys(keys): json.loads(each) for each, keys in grouped.items()}
        return {
            "type": "object",
            "properties": self._keys,
            "patternProperties": self._patterns | others,
            "additionalProperties": False,
        }

    def _add_options(self, title: str) -> None:
        """Add the options of one side of the connector. A table may be both read and written, so those of the other are
        accepted."""
        declared = self._connector.options
        self._add_set(declared[title])
        for other, options in declared.items():
            for key, each in _describe_options(options.declared_options().values()).items():
                if other != title and key not in self._keys:
                    self._others[key] = {name: part for name, part in each.items() if name in ("type", "anyOf")}
        of_formats = [each for each in declared[title].declared_options().values() if each.key in _FORMATS]
        for name in formats.names():
            named = [each for each in of_formats if name in each.codec.values or _names_any_format(each)]
            if named:
                self._add_format(name, [_FORMATS[key] for each in named for key in each.all_keys])
        if any(key.startswith(_PROPERTIES) for key in self._keys):
            self._add_client_properties()

    def _add_set(self, options: type[OptionSet], prefix: str = "") -> None:
        self._keys |= _describe_options(options.declared_options().values(), prefix)
        for entries in options.prefixes():
            self._patterns[_match_start(prefix + entries)] = dict(_TEXT)

    def _add_format(self, name: str, prefixes: Sequence[str]) -> None:
        """Add the options of a format. Those with a prefix are patterns, because the options of the value's format need
        none."""
        found, starts = formats.get(name), [f"{prefix}{name}." for prefix in prefixes if prefix]
        self._add_set(found.options, f"{name}.")
        for key, each in _describe_options(found.options.declared_options().values()).items():
            if starts:
                self._patterns[_match_keys(start + key for start in starts)] = each
        for entries in (start + each for start in starts for each in found.options.prefixes()):
            self._patterns[_match_start(entries)] = dict(_TEXT)
        if isinstance(found, InferringFormat):
            self._add_set(found.inference, f"{name}.")

    def _add_client_properties(self) -> None:
        for name, each in self._client_properties.items():
            self._keys.setdefault(_PROPERTIES + name, {"description": each.doc, **describe_value(each.codec)})
        self._patterns[_match_start(_PROPERTIES)] = dict(_TEXT)


# --- lists -------------------------------------------------------------------------------------------------------


def _list_items(
    item: type[RouteDef | TransformDef | FunctionDef], about: str, more: Mapping[str, Schema] | None = None
) -> Schema:
    """A list whose items have the keys of ``item``, and ``more``."""
    keys, required = dict[str, Schema](), []
    for key in keys_of(item):
        values: Schema = {"anyOf": [{"enum": list(key.values)}, _VARIABLE]} if key.values else dict(_TEXT)
        if key.required:
            required.append(key.name)
            values["minLength"] = 1
        keys[key.name] = {"description": key.doc, **values}
    one = {
        "type": "object",
        "properties": {**keys, **(more or {})},
        "required": required,
        "additionalProperties": False,
    }
    return {"description": about, "type": "array", "items": one}


# --- pipeline ----------------------------------------------------------------------------------------------------


def _describe_pipeline() -> Schema:
    settings = _describe_settings()
    keys = _describe_options(PipelineOptions.declared_options().values())
    keys |= {short: settings[key] for short, key in SHORT_SETTINGS.items()}
    keys[COLLECTOR] = {
        "description": "What keeps the records that are left out.",
        **_choose_by_type("collector", "How they are kept.", COLLECTORS, fold=str),
    }
    keys[FUNCTIONS] = _list_items(FunctionDef, "Functions for expressions.")
    patterns: dict[str, Schema] = {}
    for key, ignored in WITHOUT_EFFECT.items():
        said = {"description": f"Accepted without effect. {ignored.here}"}
        if key.endswith("*"):  # one of the family may have an effect
            patterns[_match_start(key.removesuffix("*"))] = dict(_TEXT)
        elif key not in settings:
            patterns[_match_keys([key])] = said | describe_value(ignored.codec)
    for key, refused in REFUSED.items():
        said = {"description": f"Only '{refused.default}': {refused.reason}."}
        patterns[_match_keys([key])] = said | describe_value(one_of(refused.default.lower(), fold=str.lower))
    return {
        "description": "The job.",
        "type": "object",
        "properties": {**keys, **settings},
        "patternProperties": patterns,
        "additionalProperties": False,
    }


def _describe_settings() -> dict[str, Schema]:
    """The settings of a job, which have the same keys in SQL and Python."""
    found = _describe_options(OPTIONS.values())
    about = "When a failed job restarts from its checkpoint."
    found |= {key: {"description": about, **describe_value(KEYS[key][1])} for key in TYPE_KEYS}
    for name, options in STRATEGIES.items():
        found |= _describe_options(options.declared_options().values(), f"{PREFIX}{name}.")
    return found | _describe_options(KerberosSettings.declared_options().values(), KERBEROS_PREFIX)


def _describe_collector(options: type[OptionSet]) -> Schema:
    declared = options.declared_options().values()
    return {
        "type": "object",
        "properties": {"type": dict(_TEXT), **_describe_options(declared)},
        "required": [each.key for each in declared if each.required],
        "additionalProperties": False,
    }
