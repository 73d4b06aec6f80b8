"""Resources of groups of operators in Flink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.java_gateway import without_java

__all__ = ["MemorySize", "SlotSharingGroup"]


class MemorySize:
    """A number of bytes."""

    def __init__(self, j_memory_size: Any = None, bytes_size: int | None = None):
        if j_memory_size is not None:
            raise without_java("j_memory_size")
        if bytes_size is None or bytes_size < 0:
            raise ValueError(f"MemorySize needs a 'bytes_size' of 0 or more, not {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """So many MiB."""
        return MemorySize(bytes_size=mebi_bytes << 20)

    def get_bytes(self) -> int:
        """The number of bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """The number of whole KiB."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """The number of whole MiB."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """The number of whole GiB."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """The number of whole TiB."""
        return self._bytes >> 40

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and other._bytes == self._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __lt__(self, other: MemorySize) -> bool:
        return self._bytes < other._bytes

    def __le__(self, other: MemorySize) -> bool:
        return self._bytes <= other._bytes

    def __str__(self) -> str:
        return f"{self._bytes} bytes"


class SlotSharingGroup:
    """The resources of a group. ``builder`` makes one. Raises UnsupportedError when it is made of a Java object."""

    _name: str
    _resources: Mapping[str, Any]

    def __init__(self, j_slot_sharing_group: Any):
        raise without_java("SlotSharingGroup", "SlotSharingGroup.builder(name).build() makes one")

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """The name."""
        return self._name

    def get_cpu_cores(self) -> float | None:
        """The number of cores."""
        found: float | None = self._resources.get("cpu")
        return found

    def get_task_heap_memory(self) -> MemorySize | None:
        """The memory of tasks on Java's heap."""
        return self._memory("heap")

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """The memory of tasks beside Java's heap."""
        return self._memory("off heap")

    def get_managed_memory(self) -> MemorySize | None:
        """The memory that Flink manages."""
        return self._memory("managed")

    def get_external_resources(self) -> dict[str, float]:
        """Other resources by name."""
        return dict(self._resources.get("external", {}))

    def _memory(self, kind: str) -> MemorySize | None:
        found: MemorySize | None = self._resources.get(kind)
        return found

    class Builder:
        """Builds a group."""

        def __init__(self, name: str):
            self._name = name
            self._resources: dict[str, Any] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """The number of cores."""
            self._resources["cpu"] = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """The memory of tasks on Java's heap."""
            self._resources["heap"] = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """The memory of tasks on Java's heap, in MiB."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """The memory of tasks beside Java's heap."""
            self._resources["off heap"] = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """The memory of tasks beside Java's heap, in MiB."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """The memory that Flink manages."""
            self._resources["managed"] = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """The memory that Flink manages, in MiB."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Another resource."""
            self._resources.setdefault("external", {})[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """The group."""
            made = SlotSharingGroup.__new__(SlotSharingGroup)
            made._name, made._resources = self._name, dict(self._resources)
            return made
