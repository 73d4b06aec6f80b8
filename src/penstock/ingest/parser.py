"""YAML text to a pipeline's definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from yaml.nodes import MappingNode, Node, ScalarNode

from penstock.errors import OptionsError, PipelineError
from penstock.ingest.definition import PipelineDef, PipelineOptions, RouteDef, SinkDef, SourceDef, TransformDef
from penstock.ingest.tree import TOP, Entry, Tree
from penstock.options import Origin, nearest
from penstock.settings.declared import KEYS, Given
from penstock.settings.ignored import WITHOUT_EFFECT

_ROUTE = ("source-table", "sink-table", "replace-symbol", "description")
_TRANSFORM = ("source-table", "projection", "filter", "primary-keys", "description")
#: Keys of Flink CDC that are not supported yet, each with what to write instead.
_TRANSFORM_LATER = dict.fromkeys(
    ("partition-keys", "table-options", "table-options.delimiter", "converter-after-transform"), "leave it out"
)
_PIPELINE_LATER = {
    **dict.fromkeys(("user-defined-function", "model"), "use the built-in functions of SQL"),
    "dirty-data.collector": (
        "to keep records that cannot be read, name a topic for them in the source: 'scan.dead-letter.topic'"
    ),
}
_SCHEMA_CHANGES = ("include.schema.changes", "exclude.schema.changes")
_MAPPING = "sink.tableId-to-topic.mapping"
#: Settings that have a shorter key below 'pipeline'.
_SETTINGS = {
    "name": "pipeline.name",
    "parallelism": "parallelism.default",
    "local-time-zone": "table.local-time-zone",
}

_NONE: Mapping[str, str] = {}

#: Key to its text and the entry it came from.
_Texts = dict[str, tuple[str, Entry]]
_Pairs = tuple[tuple[str, str], ...]


def parse_pipeline(text: str, *, file: str = "", variables: Mapping[str, str] | None = None) -> PipelineDef:
    """The definition in ``text``. ``${name}`` in a value is replaced by an entry of ``variables``.

    Raises PipelineError with every problem, each with file, line and column.
    """
    tree = Tree(text, file, variables or {})
    top = _top(tree)
    source = _texts(tree, top["source"].value, "source") if "source" in top else {}
    sink = _texts(tree, top["sink"].value, "sink") if "sink" in top else {}
    for key, side in (("source", source), ("sink", sink)):
        if key not in top:
            tree.problem(tree.root, "is required", key, f"write '{key}:' and 'type: kafka' below it")
        elif "type" not in side:
            tree.problem(top[key].at, "needs a 'type'", key, "for example 'type: kafka'")
    if _MAPPING in source:
        tree.warn(source[_MAPPING][1].at, f"'{_MAPPING}' belongs to the sink and is read there")
        sink.setdefault(_MAPPING, source.pop(_MAPPING))
    routes = _routes(tree, top["route"]) if "route" in top else ()
    transforms = _transforms(tree, top["transform"]) if "transform" in top else ()
    options = _pipeline(tree, top["pipeline"]) if "pipeline" in top else PipelineOptions()
    if tree.problems:
        raise PipelineError(tuple(tree.problems))
    return PipelineDef(
        SourceDef(*_side(tree, source, top["source"])),
        SinkDef(*_side(tree, sink, top["sink"])),
        routes,
        transforms,
        options,
        tuple(tree.warnings),
    )


def _top(tree: Tree) -> dict[str, Entry]:
    """The top-level entries, those below the source or the sink by mistake included, with a warning."""
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


def _texts(tree: Tree, node: Node, what: str, later: Mapping[str, str] = _NONE) -> _Texts:
    found: _Texts = {}
    for key, entry in tree.entries(node, what).items():
        if key in _SCHEMA_CHANGES:
            tree.warn(entry.at, f"'{key}' has no effect: a static schema does not change")
        elif key in later:
            tree.problem(entry.at, "is not supported yet", key, later[key])
        else:
            text = tree.text(entry)
            if text is not None:
                found[key] = (text, entry)
    return found


def _side(tree: Tree, texts: _Texts, top: Entry) -> tuple[str, str, _Pairs, Origin, _Pairs]:
    places = {key: tree.spot(entry.at) for key, (_, entry) in texts.items()}
    given = {key: text for key, (text, _) in texts.items()}
    kind, name = given.pop("type").strip().lower(), given.pop("name", "")
    written = ((key, str(entry.value.value)) for key, (text, entry) in texts.items() if entry.value.value != text)
    return (
        kind,
        name,
        tuple(sorted(given.items())),
        Origin(tree.file, {"": tree.spot(top.at), **places}),
        tuple(written),
    )


def _checked(tree: Tree, node: Node, what: str, known: tuple[str, ...], later: Mapping[str, str] = _NONE) -> _Texts:
    """The texts of one item, with problems for keys that are unknown or missing."""
    texts = _texts(tree, node, what, later)
    for key in [key for key in texts if key not in known]:
        hint = nearest(key, known) or f"known are {', '.join(known)}"
        tree.problem(texts.pop(key)[1].at, "unknown key", key, hint)
    return texts


def _origin(tree: Tree, node: Node, texts: _Texts) -> Origin:
    return Origin(tree.file, {"": tree.spot(node), **{key: tree.spot(entry.at) for key, (_, entry) in texts.items()}})


def _routes(tree: Tree, top: Entry) -> tuple[RouteDef, ...]:
    found = []
    for node in tree.items(top.value, "route"):
        texts = _checked(tree, node, "route", _ROUTE)
        given = {key: text for key, (text, _) in texts.items()}
        missing = [key for key in ("source-table", "sink-table") if not given.get(key)]
        for key in missing:
            tree.problem(node, "is required in a route", key)
        if not missing:
            found.append(
                RouteDef(
                    given["source-table"],
                    given["sink-table"],
                    given.get("replace-symbol", ""),
                    given.get("description", ""),
                    _origin(tree, node, texts),
                )
            )
    return tuple(found)


def _transforms(tree: Tree, top: Entry) -> tuple[TransformDef, ...]:
    found = []
    for node in tree.items(top.value, "transform"):
        texts = _checked(tree, node, "transform", _TRANSFORM, _TRANSFORM_LATER)
        given = {key: text for key, (text, _) in texts.items()}
        if not given.get("source-table"):
            tree.problem(node, "is required in a transform", "source-table")
            continue
        keys = tuple(key.strip() for key in given.get("primary-keys", "").split(",") if key.strip())
        found.append(
            TransformDef(
                given["source-table"],
                given.get("projection", "").replace("\\*", "*"),
                given.get("filter", ""),
                keys,
                given.get("description", ""),
                _origin(tree, node, texts),
            )
        )
    return tuple(found)


def _pipeline(tree: Tree, top: Entry) -> PipelineOptions:
    known = (*PipelineOptions.keys(), *_SETTINGS, *KEYS, *WITHOUT_EFFECT)
    texts = _checked(tree, top.value, "pipeline", known, _PIPELINE_LATER)
    origin = _origin(tree, top.at, texts)
    own_keys, found, given = PipelineOptions.keys(), PipelineOptions(), Given()
    try:
        own = {key: text for key, (text, _) in texts.items() if key in own_keys}
        found = PipelineOptions.from_text(own, origin)
    except OptionsError as error:
        tree.problems += error.problems
    for key, (text, entry) in texts.items():
        if key not in own_keys:
            try:
                given.put(_SETTINGS.get(key, key), text, tree.place(entry.at), shown=f"'{entry.value.value}'")
            except OptionsError as error:
                tree.problems += (replace(each, key=key) for each in error.problems)
    try:
        found = replace(found, name=given.name, settings=given.settings())
    except OptionsError as error:
        tree.problems += error.problems
    tree.warnings += given.warnings
    return found
