"""YAML text to a pipeline's definition."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from penstock.errors import OptionsError, PipelineError, Problem, nearest
from penstock.ingest.definition import (
    CollectorDef,
    FunctionDef,
    PipelineDef,
    PipelineOptions,
    RouteDef,
    SinkDef,
    SourceDef,
    TransformDef,
    keys_of,
)
from penstock.ingest.grammar import COLLECTOR, DELIMITER, EXCLUDE, FUNCTIONS, INCLUDE, MAPPING, SHORT_SETTINGS
from penstock.ingest.transforms import split_table_options
from penstock.ingest.tree import TOP, Entry, Tree
from penstock.options import Origin
from penstock.settings.given import KEYS, GivenSettings, is_known
from penstock.settings.ignored import WITHOUT_EFFECT

#: Keys of Flink CDC that are not supported, and what to write instead.
_PIPELINE_LATER = {"model": "use the built-in functions of SQL, or functions in Python"}
#: Keys of functions that are not supported, and what to write instead.
_FUNCTION_LATER = {
    "classpath": "write the function in Python, below 'python-code'",
    "options": "write the values into 'python-code'",
    "python-executable": "tasks run the Python that Spark runs",
    "python-files": "install the modules where tasks run",
}
#: Keys below 'pipeline' that are accepted, and why they have no effect.
_WITHOUT_EFFECT = {
    "operator.uid.prefix": "a job finds its checkpoint by its name",
    "schema-operator.rpc-timeout": "there is no schema operator",
}
#: The most known keys that a hint lists.
_MOST_KEYS = 12
#: Key to its text and the entry it came from.
_Texts = dict[str, tuple[str, Entry]]
_Pairs = tuple[tuple[str, str], ...]


def parse_pipeline(text: str, *, file: str = "", variables: Mapping[str, str] | None = None) -> PipelineDef:
    """The definition in ``text``. ``${name}`` in a value is replaced by an entry of ``variables``.

    Raises PipelineError with every problem, each with file, line and column.
    """
    tree = Tree(text, file, variables or {})
    top = _read_top(tree)
    source = _read_texts(tree, top["source"].value, "source") if "source" in top else {}
    lists = _read_lists(tree, top["sink"], (INCLUDE, EXCLUDE)) if "sink" in top else {}
    sink = _read_texts(tree, top["sink"].value, "sink") if "sink" in top else {}
    for key, side in (("source", source), ("sink", sink)):
        if key not in top:
            tree.problem(tree.root, "is required", key, f"write '{key}:' and 'type: kafka' below it")
        elif "type" not in side and "type" not in tree.keys(top[key].value):
            tree.problem(top[key].at, "needs a 'type'", key, "for example 'type: kafka'")
    if MAPPING in source:
        tree.warn(source[MAPPING][1].at, f"'{MAPPING}' belongs to the sink and is read there")
        sink.setdefault(MAPPING, source.pop(MAPPING))
    routes = [RouteDef(**route) for route in _read_items(tree, top, "route", RouteDef)]
    transforms = [
        each
        for transform in _read_items(tree, top, "transform", TransformDef, also=(DELIMITER,))
        if (each := _make_transform(tree, **transform)) is not None
    ]
    functions = tuple(_read_functions(tree, top["pipeline"])) if "pipeline" in top else ()
    collector = _read_collector(tree, top["pipeline"]) if "pipeline" in top else None
    options = _read_pipeline(tree, top["pipeline"]) if "pipeline" in top else PipelineOptions()
    if tree.problems:
        raise PipelineError(tuple(tree.problems))
    return PipelineDef(
        SourceDef(*_read_side(tree, source, top["source"])),
        SinkDef(*_read_side(tree, sink, top["sink"]), *(lists.get(key) for key in (INCLUDE, EXCLUDE))),
        tuple(routes),
        tuple(transforms),
        options,
        tuple(tree.warnings),
        functions,
        collector,
    )


def _read_top(tree: Tree) -> dict[str, Entry]:
    """The top-level entries, with a warning for those that are below the source or the sink by mistake."""
    found = tree.entries(tree.root, "pipeline")
    for key, entry in list(found.items()):
        if key not in TOP:
            hint = nearest(key, TOP) or f"known are {', '.join(TOP)}"
            tree.problem(entry.at, "unknown key", key, hint)
        if key in ("source", "sink") and isinstance(entry.value, MappingNode):
            for at, value in list(entry.value.value):
                if at.value in TOP and not isinstance(value, ScalarNode) and at.value not in found:
                    entry.value.value.remove((at, value))
                    found[at.value] = Entry(at.value, at, value)
                    tree.warn(at, f"'{at.value}' is below '{key}'; it is read as a top-level key")
    return found


def _read_texts(
    tree: Tree,
    node: Node,
    part: str,
    known: tuple[str, ...] = (),
    later: Mapping[str, str] = MappingProxyType({}),
    also: Callable[[str], bool] = lambda key: False,
) -> _Texts:
    """The entries of ``part``. Adds a problem for each key that is not in ``known``, if that is given, nor one of those
    that are known ``also``, and for those in ``later``, which has what to write instead."""
    found: _Texts = {}
    for key, entry in tree.entries(node, part).items():
        if key in later:
            tree.problem(entry.at, "is not supported yet", key, later[key])
        elif known and key not in known and not also(key):
            tree.problem(entry.at, "unknown key", key, _suggest_keys(key, known))
        elif (text := tree.text(entry)) is not None:
            found[key] = (text, entry)
    return found


def _suggest_keys(key: str, known: tuple[str, ...]) -> str:
    """A hint with the known keys, or the few that are most like ``key`` where there are many."""
    if hint := nearest(key, known):
        return hint
    if len(known) <= _MOST_KEYS:
        return f"known are {', '.join(known)}"
    like = difflib.get_close_matches(key, known, n=3, cutoff=0.3)
    return f"the nearest known keys are {', '.join(like)}" if like else "docs/reference/pipeline.md has the known ones"


def _read_side(tree: Tree, texts: _Texts, top: Entry) -> tuple[str, str, _Pairs, Origin, _Pairs]:
    """The fields of a ConnectorDef."""
    given = {key: text for key, (text, _) in texts.items()}
    connector, name = given.pop("type").strip().lower(), given.pop("name", "")
    written = ((key, str(entry.value.value)) for key, (text, entry) in texts.items() if entry.value.value != text)
    return connector, name, tuple(sorted(given.items())), _make_origin(tree, top.at, texts), tuple(written)


def _make_origin(tree: Tree, node: Node, texts: _Texts) -> Origin:
    return Origin(tree.file, {"": tree.spot(node), **{key: tree.spot(entry.at) for key, (_, entry) in texts.items()}})


def _read_items(
    tree: Tree,
    top: Mapping[str, Entry],
    part: str,
    cls: type[RouteDef | TransformDef | FunctionDef],
    later: Mapping[str, str] = MappingProxyType({}),
    also: tuple[str, ...] = (),
) -> Iterator[dict[str, Any]]:
    """The fields of ``cls`` for each item of the list ``part``, and the keys that are known ``also``. Adds a problem
    for an item that lacks a key."""
    keys = keys_of(cls)
    known = (*(each.name for each in keys), *also)
    required = [each.name for each in keys if each.required]
    for node in tree.items(top[part].value, part) if part in top else ():
        texts = _read_texts(tree, node, part, known, later)
        missing = [key for key in required if key not in texts or not texts[key][0]]
        for key in missing:
            if key in texts or key not in tree.keys(node):  # otherwise its value has a problem of its own
                tree.problem(node, f"is required in a {part}", key)
        if not missing:
            given = {key.replace("-", "_"): text for key, (text, _) in texts.items()}
            yield {**given, "origin": _make_origin(tree, node, texts)}


def _make_transform(
    tree: Tree,
    *,
    primary_keys: str = "",
    partition_keys: str = "",
    table_options: str = "",
    projection: str = "",
    origin: Origin,
    **others: Any,
) -> TransformDef | None:
    """A rule; None after a problem."""
    delimiter = others.pop(DELIMITER.replace("-", "_"), ",")
    try:
        options = split_table_options(table_options, delimiter)
    except ValueError as error:
        tree.problems.append(Problem(str(error), "table-options", origin.locate("table-options"), "name each option"))
        return None
    return TransformDef(
        **others,
        primary_keys=_split_names(primary_keys),
        partition_keys=_split_names(partition_keys),
        table_options=options,
        projection=projection,
        origin=origin,
    )


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _read_lists(tree: Tree, top: Entry, keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The lists of a part, which are taken out of its other entries. One item may be written without a list."""
    found: dict[str, tuple[str, ...]] = {}
    for at, value in list(top.value.value) if isinstance(top.value, MappingNode) else ():
        if at.value in keys:
            top.value.value.remove((at, value))
            nodes = value.value if isinstance(value, SequenceNode) else [value]
            texts = [tree.text(Entry(at.value, at, node)) for node in nodes]
            found[at.value] = tuple(each.strip() for each in texts if each is not None)
    return found


def _read_collector(tree: Tree, top: Entry) -> CollectorDef | None:
    """The collector of records that are left out, which is taken out of the other entries of a pipeline."""
    for at, value in list(top.value.value) if isinstance(top.value, MappingNode) else ():
        if at.value == COLLECTOR:
            top.value.value.remove((at, value))
            texts = _read_texts(tree, value, COLLECTOR)
            if "type" not in texts:
                tree.problem(at, "needs a 'type'", COLLECTOR, "for example 'type: logger'")
                return None
            given = {key: text for key, (text, _) in texts.items()}
            return CollectorDef(given.pop("type").strip(), tuple(sorted(given.items())), _make_origin(tree, at, texts))
    return None


def _read_functions(tree: Tree, top: Entry) -> Iterator[FunctionDef]:
    """The functions of a pipeline, whose list is taken out of its other entries."""
    if not isinstance(top.value, MappingNode):
        return
    for at, value in list(top.value.value):
        if at.value == FUNCTIONS:
            top.value.value.remove((at, value))
            lists = {FUNCTIONS: Entry(FUNCTIONS, at, value)}
            yield from (
                FunctionDef(**each) for each in _read_items(tree, lists, FUNCTIONS, FunctionDef, _FUNCTION_LATER)
            )


def _read_pipeline(tree: Tree, top: Entry) -> PipelineOptions:
    known = (*PipelineOptions.keys(), *SHORT_SETTINGS, *KEYS, *WITHOUT_EFFECT)
    texts = _read_texts(tree, top.value, "pipeline", known, _PIPELINE_LATER, is_known)
    origin = _make_origin(tree, top.at, texts)
    own_keys, found, given = PipelineOptions.keys(), PipelineOptions(), GivenSettings()
    try:
        own = {key: text for key, (text, _) in texts.items() if key in own_keys}
        found = PipelineOptions.from_text(own, origin)
    except OptionsError as error:
        tree.problems += error.problems
    for key, (text, entry) in texts.items():
        if key in _WITHOUT_EFFECT:
            tree.warn(entry.at, f"'{key}' has no effect: {_WITHOUT_EFFECT[key]}")
        if key not in own_keys:
            try:
                given.put(SHORT_SETTINGS.get(key, key), text, tree.place(entry.at), shown=f"'{entry.value.value}'")
            except OptionsError as error:
                tree.problems += (replace(each, key=key) for each in error.problems)
    try:
        found = replace(found, name=given.name, settings=given.settings())
    except OptionsError as error:
        tree.problems += error.problems
    tree.warnings += given.warnings
    return found
