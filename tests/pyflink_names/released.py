"""``python -m tests.pyflink_names.released 1.20.0=FOLDER 2.2.0=FOLDER``: writes ``released.json``, the classes,
methods, arguments and defaults of released PyFlinks that programs about Kafka use.

Each FOLDER holds the package ``pyflink`` of that release. Its sources are read, not imported: it needs a Java.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import Any

RELEASED = Path(__file__).parent / "released.json"
_HOW = "Made by `python -m tests.pyflink_names.released VERSION=FOLDER ...`. Do not edit it."

#: The modules that are read, by the release; None stands for all public classes. Classes of the former Kafka connector,
#: and others that Flink 2 has no more, are those of the last release before it.
MODULES: dict[str, dict[str, list[str] | None]] = {
    "1.20.0": {
        "pyflink.common.restart_strategy": None,
        "pyflink.datastream.connectors.kafka": [
            "FlinkKafkaConsumer",
            "FlinkKafkaConsumerBase",
            "FlinkKafkaProducer",
            "FlinkKafkaProducerBase",
            "Semantic",
        ],
        "pyflink.datastream.checkpoint_config": None,
        "pyflink.datastream.state_backend": None,
        "pyflink.datastream.stream_execution_environment": None,
        "pyflink.datastream.time_characteristic": None,
    },
    "2.2.0": {
        "pyflink.common.completable_future": None,
        "pyflink.common.configuration": None,
        "pyflink.common.execution_config": None,
        "pyflink.common.job_client": None,
        "pyflink.common.job_execution_result": None,
        "pyflink.common.job_id": None,
        "pyflink.common.job_status": None,
        "pyflink.common.serialization": None,
        "pyflink.common.time": None,
        "pyflink.common.typeinfo": ["TypeInformation", "Types", "RowTypeInfo"],
        "pyflink.common.types": None,
        "pyflink.common.watermark_strategy": None,
        "pyflink.datastream.checkpoint_config": None,
        "pyflink.datastream.checkpoint_storage": None,
        "pyflink.datastream.checkpointing_mode": None,
        "pyflink.datastream.connectors.base": None,
        "pyflink.datastream.connectors.kafka": [
            "KafkaOffsetResetStrategy",
            "KafkaOffsetsInitializer",
            "KafkaRecordSerializationSchema",
            "KafkaRecordSerializationSchemaBuilder",
            "KafkaSink",
            "KafkaSinkBuilder",
            "KafkaSource",
            "KafkaSourceBuilder",
            "KafkaTopicPartition",
            "KafkaTopicSelector",
        ],
        "pyflink.datastream.data_stream": ["ConnectedStreams", "DataStream", "DataStreamSink"],
        "pyflink.datastream.execution_mode": None,
        "pyflink.datastream.externalized_checkpoint_retention": None,
        "pyflink.datastream.formats.avro": ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"],
        "pyflink.datastream.formats.csv": ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"],
        "pyflink.datastream.formats.json": None,
        "pyflink.datastream.functions": [
            "CoFlatMapFunction",
            "CoMapFunction",
            "CoProcessFunction",
            "FilterFunction",
            "FlatMapFunction",
            "Function",
            "KeySelector",
            "MapFunction",
            "Partitioner",
            "ProcessFunction",
            "RuntimeContext",
            "SinkFunction",
            "SourceFunction",
        ],
        "pyflink.datastream.output_tag": None,
        "pyflink.datastream.slot_sharing_group": None,
        "pyflink.datastream.state_backend": None,
        "pyflink.datastream.stream_execution_environment": None,
        "pyflink.datastream.time_domain": None,
        "pyflink.datastream.timerservice": ["TimerService"],
    },
}


#: The release whose packages' exports are kept.
PUBLIC = "2.2.0"


def arguments(function: ast.FunctionDef, *, static: bool) -> list[dict[str, Any]]:
    """The arguments of a method without its object: names, ``default`` as source text, ``star``."""
    given = function.args
    found: list[dict[str, Any]] = [{"name": each.arg} for each in given.args]
    if given.defaults:
        for argument, default in zip(found[-len(given.defaults) :], given.defaults, strict=True):
            argument["default"] = ast.unparse(default)
    if given.vararg:
        found.append({"name": given.vararg.arg, "star": True})
    return found if static else found[1:]


def class_of(node: ast.ClassDef) -> dict[str, Any]:
    """What is public of a class: its methods, its constants, and classes in it."""
    methods: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    classes: dict[str, Any] = {}
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and (not each.name.startswith("_") or each.name == "__init__"):
            marks = {ast.unparse(mark) for mark in each.decorator_list}
            if "overload" not in marks:
                static = "staticmethod" in marks
                methods[each.name] = {"static": static, "arguments": arguments(each, static=static)}
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            if not each.targets[0].id.startswith("_"):
                constants[each.targets[0].id] = ast.unparse(each.value)
        elif isinstance(each, ast.ClassDef):
            classes[each.name] = class_of(each)
    found = {"methods": methods, "constants": constants, "classes": classes}
    return {key: value for key, value in found.items() if value}


def module(folder: Path, name: str, wanted: list[str] | None) -> dict[str, Any]:
    """The public classes of a module, or the ``wanted`` ones."""
    tree = ast.parse((folder / f"{name.replace('.', '/')}.py").read_text("utf-8"))
    found = {each.name: class_of(each) for each in tree.body if isinstance(each, ast.ClassDef)}
    return {
        each: content
        for each, content in sorted(found.items())
        if (each in wanted if wanted is not None else not each.startswith("_"))
    }


def public(folder: Path, package: str) -> list[str]:
    """The names that a package exports."""
    tree = ast.parse((folder / package.replace(".", "/") / "__init__.py").read_text("utf-8"))
    lists = [
        each.value for each in tree.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"
    ]
    return sorted(ast.literal_eval(lists[0]))


def streams(folder: Path) -> dict[str, list[str]]:
    """The public classes, and functions that are no methods, of every module of ``pyflink.datastream``."""
    root = folder / "pyflink" / "datastream"
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        tree = ast.parse(path.read_text("utf-8"))
        kinds = (ast.ClassDef, ast.FunctionDef) if name == "async_retry_predicates" else ast.ClassDef
        names = [each.name for each in tree.body if isinstance(each, kinds) and not each.name.startswith("_")]
        if names and "tests" not in path.parts:
            found[name] = names
    return found


def main() -> None:
    """Write the names."""
    parser = argparse.ArgumentParser(description="write the names of released PyFlinks")
    parser.add_argument("releases", nargs="+", metavar="VERSION=FOLDER", help="the folder of a release's package")
    given = dict(each.split("=", 1) for each in parser.parse_args().releases)
    names = {
        version: {name: module(Path(given[version]), name, wanted) for name, wanted in modules.items()}
        for version, modules in MODULES.items()
    }
    exported = {package: public(Path(given[PUBLIC]), package) for package in ("pyflink.common", "pyflink.datastream")}
    found = {"how": _HOW, "public": exported, "streams": streams(Path(given[PUBLIC])), "releases": names}
    RELEASED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
