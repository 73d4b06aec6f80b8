"""Classes of released PyFlinks that programs about Kafka use are there, with the same arguments and defaults."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.datastream.refusals import ABSENT, LATER, STREAM_MODULES
from penstock.errors import UnsupportedError
from tests.pyflink_names.released import RELEASED
from tests.unit.datastream.test_names import found, shown

PUBLIC = json.loads(RELEASED.read_text("utf-8"))["public"]
RELEASES = json.loads(RELEASED.read_text("utf-8"))["releases"]

#: Names that penstock does not have, with the reason.
WITHOUT: dict[str, str] = {
    **dict.fromkeys(
        (
            "pyflink.common.typeinfo.RowTypeInfo.get_java_type_info",
            "pyflink.common.typeinfo.RowTypeInfo.need_conversion",
            "pyflink.common.typeinfo.RowTypeInfo.to_internal_type",
            "pyflink.common.typeinfo.RowTypeInfo.from_internal_type",
            "pyflink.common.typeinfo.TypeInformation.get_java_type_info",
            "pyflink.common.typeinfo.TypeInformation.need_conversion",
            "pyflink.common.typeinfo.TypeInformation.to_internal_type",
            "pyflink.common.typeinfo.TypeInformation.from_internal_type",
            "pyflink.common.types.RowKind.to_j_row_kind",
            "pyflink.common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper",
            "pyflink.datastream.connectors.base.Sink.__init__",
            "pyflink.datastream.connectors.base.Source.__init__",
            "pyflink.datastream.connectors.base.StreamTransformer",
            "pyflink.datastream.connectors.base.SupportsPreprocessing",
            "pyflink.datastream.connectors.kafka.KafkaSink.get_transformer",
            "pyflink.datastream.output_tag.OutputTag.get_java_output_tag",
            "pyflink.datastream.slot_sharing_group.MemorySize.get_java_memory_size",
            "pyflink.datastream.slot_sharing_group.SlotSharingGroup.get_java_slot_sharing_group",
        ),
        "a way to Java objects",
    ),
    **dict.fromkeys(
        (
            "pyflink.common.serialization.BulkWriterFactory",
            "pyflink.common.serialization.Encoder",
            "pyflink.common.serialization.RowDataBulkWriterFactory",
        ),
        "for sinks of files",
    ),
    **dict.fromkeys(
        (
            "pyflink.common.restart_strategy.RestartStrategies.FixedDelayRestartStrategyConfiguration.__init__",
            "pyflink.common.restart_strategy.RestartStrategies.FailureRateRestartStrategyConfiguration.__init__",
            "pyflink.common.typeinfo.TypeInformation.__init__",
            "pyflink.datastream.connectors.kafka.KafkaTopicPartition.__init__",
        ),
        "made in another way: by a static method, or as a named tuple",
    ),
}


def cases() -> Iterator[Any]:
    """(release, path, kind, content) of each name."""
    for release, modules in RELEASES.items():
        for module, classes in modules.items():
            for name, content in classes.items():
                yield from of_class(release, f"{module}.{name}", content)


def of_class(release: str, path: str, content: dict[str, Any]) -> Iterator[Any]:
    yield pytest.param(path, "class", content, id=f"{release}-{path}")
    for kind in ("methods", "constants"):
        for name, each in content.get(kind, {}).items():
            yield pytest.param(f"{path}.{name}", kind, each, id=f"{release}-{path}.{name}")
    for name, each in content.get("classes", {}).items():
        yield from of_class(release, f"{path}.{name}", each)


def text(default: Any) -> str:
    """A default as PyFlink's sources write it."""
    return f"{type(default).__name__}.{default.name}" if isinstance(default, enum.Enum) else repr(default)


def check(path: str, kind: str, content: Any) -> None:
    """Raises AssertionError, ImportError or AttributeError unless penstock has the name as PyFlink has it."""
    value = found(path)
    if kind == "class":
        assert inspect.isclass(value)
    if kind == "constants":
        check_constant(value, content)
    if kind != "methods":
        return
    owner, _, name = path.rpartition(".")
    wanted = content["arguments"]
    if name == "__init__" and wanted and wanted[0]["name"].startswith("j_"):
        return  # made by others, of a Java object
    declared = inspect.getattr_static(found(owner), name)
    static = isinstance(declared, staticmethod)
    assert static == content["static"]
    given = shown(declared.__func__ if static else declared, bound=static)
    for each in given:
        if "default" in each:
            each["default"] = text(each["default"])
    star = next((at for at, each in enumerate(given) if each.get("star")), None)
    if star is not None:  # takes any number where PyFlink takes some
        assert given[:star] == wanted[:star]
        assert all(each.get("star") or "default" in each for each in wanted[star:])
        return
    assert given[: len(wanted)] == wanted
    assert all("default" in each for each in given[len(wanted) :])


def check_constant(value: Any, content: str) -> None:
    """Raises AssertionError unless a constant has PyFlink's value, where its source says it."""
    try:
        wanted = ast.literal_eval(content)
    except ValueError:
        return  # found out from Java
    if isinstance(wanted, tuple):  # a comma too many at the end of a line
        (wanted,) = wanted
    assert (value.value if isinstance(value, enum.Enum) else value) == wanted


@pytest.mark.parametrize(("path", "kind", "content"), list(cases()))
def test_a_name_of_pyflink_is_there(path, kind, content):
    if path in WITHOUT or path.rpartition(".")[0] in WITHOUT:
        with pytest.raises((AssertionError, ImportError, AttributeError, UnsupportedError)):
            check(path, kind, content)
    else:
        check(path, kind, content)


@pytest.mark.parametrize("name", PUBLIC["pyflink.datastream"])
def test_what_pyflink_exports_is_there_or_refused_by_name(name):
    import penstock.datastream

    assert (name in penstock.datastream.__all__) != (name in LATER)
    if name in LATER:
        with pytest.raises(UnsupportedError, match=f"'{name}': is not supported yet"):
            getattr(penstock.datastream, name)


STREAMS = json.loads(RELEASED.read_text("utf-8"))["streams"]


@pytest.mark.parametrize("module", STREAMS)
def test_every_class_of_every_module_is_there_or_refused_by_name_with_an_alternative(module):
    absent = {name: each for each in ABSENT if each.module == module for name in each.names}
    ours = importlib.import_module(f"penstock.datastream.{module}")
    for name in STREAMS[module]:
        if name in absent:
            with pytest.raises(UnsupportedError) as error:
                getattr(ours, name)
            assert str(error.value).startswith(f"'{module}.{name}': is not supported")
            assert absent[name].hint in str(error.value)
        else:
            assert callable(getattr(ours, name))
    with pytest.raises(AttributeError):
        ours.NoSuchName  # noqa: B018


def test_every_class_of_every_module_is_in_the_reference():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "datastream.md").read_text("utf-8")
    for module, names in STREAMS.items():
        row = "".join(line for line in page.splitlines() if line.startswith(f"| `{module}` |"))
        assert [name for name in names if f"`{name}`" not in row] == [], module


def test_what_is_absent_is_a_name_of_pyflink():
    assert set(STREAM_MODULES) == set(STREAMS)
    assert [each for each in ABSENT for name in each.names if name not in STREAMS[each.module]] == []


def test_the_package_of_connectors_has_the_main_classes_of_its_modules():
    from penstock.datastream.connectors import FlinkKafkaConsumer, NumberSequenceSource, Sink, Source, kafka

    assert FlinkKafkaConsumer is kafka.FlinkKafkaConsumer
    assert issubclass(NumberSequenceSource, Source)
    assert issubclass(kafka.KafkaSink, Sink)
    with pytest.raises(UnsupportedError, match="JdbcSink': is not supported"):
        from penstock.datastream.connectors import JdbcSink  # noqa: F401
    with pytest.raises(ImportError):
        from penstock.datastream.connectors import NoSuchSink  # noqa: F401


#: For files, serializers and Java's assigners.
NOT_COMMON = {"AssignerWithPeriodicWatermarksWrapper", "ConfigOption", "ConfigOptions", "Encoder", "TypeSerializer"}


@pytest.mark.parametrize("name", PUBLIC["pyflink.common"])
def test_what_pyflink_s_common_package_exports_is_there(name):
    import penstock.common

    assert (name in penstock.common.__all__) != (name in NOT_COMMON)


def test_what_is_not_there_is_a_name_of_pyflink():
    names = {each.values[0] for each in cases()}
    assert names >= WITHOUT.keys()
