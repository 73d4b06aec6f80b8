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
    from penstock.services.spark import SparkCluster

__all__ = [
    "DEFAULT_VERSION",
    "Java",
    "KafkaCluster",
    "KafkaJars",
    "RegistryServer",
    "Security",
    "SparkCluster",
    "cached_jars",
    "fetch_jars",
    "find_java",
]

_MODULES = {
    "DEFAULT_VERSION": "jars",
    "Java": "java",
    "KafkaCluster": "kafka",
    "KafkaJars": "jars",
    "RegistryServer": "registry",
    "Security": "broker_config",
    "SparkCluster": "spark",
    "cached_jars": "jars",
    "fetch_jars": "jars",
    "find_java": "java",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: the start of Spark, which uses none, does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
