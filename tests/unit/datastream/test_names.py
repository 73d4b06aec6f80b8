"""Every name of PyFlink's documented API is there under the same path, with the same arguments and defaults."""

from __future__ import annotations

import enum
import importlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.pyflink_names.__main__ import NAMES

PAGES = json.loads(NAMES.read_text("utf-8"))["pages"]


def found(path: str) -> Any:
    """The object of a path of PyFlink's in penstock."""
    parts = path.replace("pyflink", "penstock", 1).split(".")
    for at in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        for name in parts[at:]:
            value = getattr(value, name)
        return value
    raise ImportError(path)


def shown(function: Any, *, bound: bool) -> list[dict[str, Any]]:
    """The arguments of a function as the pages have them, without the object if it is not ``bound``."""
    arguments: list[dict[str, Any]] = []
    for each in list(inspect.signature(function).parameters.values())[0 if bound else 1 :]:
        argument: dict[str, Any] = {"name": each.name}
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            argument["star"] = True
        elif each.default is not inspect.Parameter.empty:
            argument["default"] = each.default
        arguments.append(argument)
    return arguments


def plain(value: Any) -> Any:
    """A constant, with the value of a member of an enum."""
    return value.value if isinstance(value, enum.Enum) else value


def cases() -> Iterator[tuple[str, str, Any]]:
    """What each page says of each name: (name, kind, content)."""
    classes = {f"{each['module']}.{each['name']}" for page in PAGES.values() for each in page["classes"]}
    for page in PAGES.values():
        for path in sorted(set(page["mentioned"]) - classes):
            yield path, "mentioned", None
        for each in page["classes"]:
            path = f"{each['module']}.{each['name']}"
            yield path, "class", each
            for name, value in each["constants"].items():
                yield f"{path}.{name}", "constant", value
            for name, method in each["methods"].items():
                yield f"{path}.{name}", "method", method


CASES = [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in cases()]


def check(path: str, kind: str, content: Any) -> None:
    """Raises AssertionError, ImportError or AttributeError unless penstock has the name as the page says."""
    value = found(path)
    match kind:
        case "class":
            assert inspect.isclass(value)
            for base in content["bases"]:
                wanted = enum.Enum if base == "Enum" else object if base == "object" else found(base)
                assert issubclass(value, wanted)
            assert value.__name__ in getattr(found(content["module"]), "__all__", [value.__name__])
            assert set(content.get("public", ())) <= set(getattr(found(content["module"]), "__all__", ()))
            if not issubclass(value, enum.Enum):  # those are called with a value
                taken = shown(value.__init__, bound=False) if "__init__" in vars(value) else []
                assert taken == content["arguments"]
        case "constant":
            assert content is None or plain(value) == content
        case "method":
            owner, _, name = path.rpartition(".")
            declared = inspect.getattr_static(found(owner), name)
            assert isinstance(declared, staticmethod) == content["static"]
            given = shown(declared.__func__ if content["static"] else declared, bound=content["static"])
            wanted = content["arguments"]
            assert given[: len(wanted)] == wanted
            assert all("default" in each or "star" in each for each in given[len(wanted) :])


@pytest.mark.parametrize(("path", "kind", "content"), CASES)
def test_a_documented_name_is_there(path, kind, content):
    check(path, kind, content)


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        ("pyflink.datastream.CheckpointConfig.DEFAULT_TIMEOUT", "constant", 1),
        ("pyflink.datastream.StateBackend", "class", {"module": "pyflink.datastream", "bases": [], "arguments": []}),
        (
            "pyflink.datastream.StreamExecutionEnvironment.execute",
            "method",
            {"static": False, "arguments": [{"name": "job_name"}]},
        ),
        (
            "pyflink.datastream.StreamExecutionEnvironment.get_execution_environment",
            "method",
            {"static": False, "arguments": []},
        ),
        ("pyflink.datastream.NoSuchClass", "mentioned", None),
    ],
)
def test_a_name_that_differs_is_noticed(path, kind, content):
    with pytest.raises((AssertionError, ImportError, AttributeError)):
        check(path, kind, content)


def test_the_names_are_those_of_the_pages():
    """Counted by hand in the pages."""
    numbers = {
        each["name"]: len(each["methods"]) + len(each["constants"])
        for page in PAGES.values()
        for each in page["classes"]
    }
    assert numbers == {
        "Semantic": 3,
        "StreamExecutionEnvironment": 27,
        "CheckpointConfig": 22,
        "CheckpointingMode": 2,
        "StateBackend": 0,
        "MemoryStateBackend": 3,
        "FsStateBackend": 4,
        "RocksDBStateBackend": 13,
        "CustomStateBackend": 0,
        "PredefinedOptions": 4,
        "ExternalizedCheckpointCleanup": 2,
        "TimeCharacteristic": 3,
    }
