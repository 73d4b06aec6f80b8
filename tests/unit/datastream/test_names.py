"""Every name of the seeds is there under the same path, with the same arguments and defaults."""

from __future__ import annotations

import enum
import importlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.seeds.__main__ import NAMES

SEEDS = json.loads(NAMES.read_text("utf-8"))["seeds"]

#: Names of the seeds that penstock does not have yet. Those that it has may not be here.
NOT_YET: set[str] = {
    "pyflink.common.ExecutionConfig.set_auto_watermark_interval",
    "pyflink.datastream.CheckpointConfig",
    "pyflink.datastream.CheckpointConfig.DEFAULT_MAX_CONCURRENT_CHECKPOINTS",
    "pyflink.datastream.CheckpointConfig.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS",
    "pyflink.datastream.CheckpointConfig.DEFAULT_MODE",
    "pyflink.datastream.CheckpointConfig.DEFAULT_TIMEOUT",
    "pyflink.datastream.CheckpointConfig.enable_externalized_checkpoints",
    "pyflink.datastream.CheckpointConfig.get_checkpoint_timeout",
    "pyflink.datastream.CheckpointConfig.get_externalized_checkpoint_cleanup",
    "pyflink.datastream.CheckpointConfig.get_max_concurrent_checkpoints",
    "pyflink.datastream.CheckpointConfig.get_min_pause_between_checkpoints",
    "pyflink.datastream.CheckpointConfig.is_externalized_checkpoints_enabled",
    "pyflink.datastream.CheckpointConfig.is_fail_on_checkpointing_errors",
    "pyflink.datastream.CheckpointConfig.is_prefer_checkpoint_for_recovery",
    "pyflink.datastream.CheckpointConfig.set_checkpoint_timeout",
    "pyflink.datastream.CheckpointConfig.set_fail_on_checkpointing_errors",
    "pyflink.datastream.CheckpointConfig.set_max_concurrent_checkpoints",
    "pyflink.datastream.CheckpointConfig.set_min_pause_between_checkpoints",
    "pyflink.datastream.CheckpointConfig.set_prefer_checkpoint_for_recovery",
    "pyflink.datastream.CustomStateBackend",
    "pyflink.datastream.ExternalizedCheckpointCleanup",
    "pyflink.datastream.ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION",
    "pyflink.datastream.ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION",
    "pyflink.datastream.FsStateBackend",
    "pyflink.datastream.FsStateBackend.get_checkpoint_path",
    "pyflink.datastream.FsStateBackend.get_min_file_size_threshold",
    "pyflink.datastream.FsStateBackend.get_write_buffer_size",
    "pyflink.datastream.FsStateBackend.is_using_asynchronous_snapshots",
    "pyflink.datastream.MemoryStateBackend",
    "pyflink.datastream.MemoryStateBackend.DEFAULT_MAX_STATE_SIZE",
    "pyflink.datastream.MemoryStateBackend.get_max_state_size",
    "pyflink.datastream.MemoryStateBackend.is_using_asynchronous_snapshots",
    "pyflink.datastream.PredefinedOptions",
    "pyflink.datastream.PredefinedOptions.DEFAULT",
    "pyflink.datastream.PredefinedOptions.FLASH_SSD_OPTIMIZED",
    "pyflink.datastream.PredefinedOptions.SPINNING_DISK_OPTIMIZED",
    "pyflink.datastream.PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM",
    "pyflink.datastream.RocksDBStateBackend",
    "pyflink.datastream.RocksDBStateBackend.disable_ttl_compaction_filter",
    "pyflink.datastream.RocksDBStateBackend.enable_ttl_compaction_filter",
    "pyflink.datastream.RocksDBStateBackend.get_checkpoint_backend",
    "pyflink.datastream.RocksDBStateBackend.get_db_storage_paths",
    "pyflink.datastream.RocksDBStateBackend.get_number_of_transfering_threads",
    "pyflink.datastream.RocksDBStateBackend.get_options",
    "pyflink.datastream.RocksDBStateBackend.get_predefined_options",
    "pyflink.datastream.RocksDBStateBackend.is_incremental_checkpoints_enabled",
    "pyflink.datastream.RocksDBStateBackend.is_ttl_compaction_filter_enabled",
    "pyflink.datastream.RocksDBStateBackend.set_db_storage_paths",
    "pyflink.datastream.RocksDBStateBackend.set_number_of_transfering_threads",
    "pyflink.datastream.RocksDBStateBackend.set_options",
    "pyflink.datastream.RocksDBStateBackend.set_predefined_options",
    "pyflink.datastream.StateBackend",
    "pyflink.datastream.StreamExecutionEnvironment",
    "pyflink.datastream.StreamExecutionEnvironment.add_default_kryo_serializer",
    "pyflink.datastream.StreamExecutionEnvironment.disable_operator_chaining",
    "pyflink.datastream.StreamExecutionEnvironment.get_buffer_timeout",
    "pyflink.datastream.StreamExecutionEnvironment.get_config",
    "pyflink.datastream.StreamExecutionEnvironment.get_default_local_parallelism",
    "pyflink.datastream.StreamExecutionEnvironment.get_max_parallelism",
    "pyflink.datastream.StreamExecutionEnvironment.get_state_backend",
    "pyflink.datastream.StreamExecutionEnvironment.get_stream_time_characteristic",
    "pyflink.datastream.StreamExecutionEnvironment.is_chaining_enabled",
    "pyflink.datastream.StreamExecutionEnvironment.register_type",
    "pyflink.datastream.StreamExecutionEnvironment.register_type_with_kryo_serializer",
    "pyflink.datastream.StreamExecutionEnvironment.set_buffer_timeout",
    "pyflink.datastream.StreamExecutionEnvironment.set_default_local_parallelism",
    "pyflink.datastream.StreamExecutionEnvironment.set_max_parallelism",
    "pyflink.datastream.StreamExecutionEnvironment.set_state_backend",
    "pyflink.datastream.StreamExecutionEnvironment.set_stream_time_characteristic",
    "pyflink.datastream.TimeCharacteristic",
    "pyflink.datastream.TimeCharacteristic.EventTime",
    "pyflink.datastream.TimeCharacteristic.IngestionTime",
    "pyflink.datastream.TimeCharacteristic.ProcessingTime",
    "pyflink.datastream.checkpointing_mode.CheckpointingMode",
    "pyflink.datastream.checkpointing_mode.CheckpointingMode._from_j_checkpointing_mode",
    "pyflink.datastream.checkpointing_mode.CheckpointingMode._to_j_checkpointing_mode",
    "pyflink.datastream.connectors.kafka.FlinkKafkaProducer",
    "pyflink.datastream.connectors.kafka.Semantic",
    "pyflink.datastream.connectors.kafka.Semantic.AT_LEAST_ONCE",
    "pyflink.datastream.connectors.kafka.Semantic.EXACTLY_ONCE",
    "pyflink.datastream.connectors.kafka.Semantic.NONE",
    "pyflink.datastream.state_backend.StateBackend",
    "pyflink.java_gateway.get_gateway",
}


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
    """The arguments of a function as the seeds' names have them, without the object if it is not ``bound``."""
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
    """What each seed says of each name: (name, kind, content)."""
    classes = {f"{each['module']}.{each['name']}" for seed in SEEDS.values() for each in seed["classes"]}
    for seed in SEEDS.values():
        for path in sorted(set(seed["mentioned"]) - classes):
            yield path, "mentioned", None
        for each in seed["classes"]:
            path = f"{each['module']}.{each['name']}"
            yield path, "class", each
            for name, value in each["constants"].items():
                yield f"{path}.{name}", "constant", value
            for name, method in each["methods"].items():
                yield f"{path}.{name}", "method", method


CASES = [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in cases()]


def check(path: str, kind: str, content: Any) -> None:
    """Raises AssertionError, ImportError or AttributeError unless penstock has the name as the seed says."""
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
def test_a_name_of_the_seeds_is_there(path, kind, content):
    if path in NOT_YET:
        with pytest.raises((AssertionError, ImportError, AttributeError)):
            check(path, kind, content)
    else:
        check(path, kind, content)


def test_the_list_of_what_is_not_there_names_names_of_the_seeds():
    assert NOT_YET <= {path for path, _, _ in cases()}


def test_the_names_are_those_of_the_seeds():
    """Counted by hand in the pages."""
    numbers = {
        each["name"]: len(each["methods"]) + len(each["constants"])
        for seed in SEEDS.values()
        for each in seed["classes"]
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
