"""Real servers for development and tests, as child processes of the program that needs them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.services.broker_config import Security
    from penstock.services.jars import DEFAULT_VERSION, KafkaJars, cached_jars, fetch_jars
    from penstock.services.java import Java, find_java
    from penstock.services.kafka import KafkaCluster
    from penstock.services.registry import RegistryServer

__all__ = [
    "DEFAULT_VERSION",
    "Java",
    "KafkaCluster",
    "KafkaJars",
    "RegistryServer",
    "Security",
    "cached_jars",
    "fetch_jars",
    "find_java",
]

_MODULES = {"Java": "java", "find_java": "java", "KafkaCluster": "kafka", "RegistryServer": "registry"}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: the start of Spark, which uses none, does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = _MODULES.get(name, "settings" if name == "Security" else "jars")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
