"""Real servers for development and tests, as child processes of the program that needs them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.machine.java import Java, find_java
    from penstock_testing.services.broker_config import Security
    from penstock_testing.services.jars import DEFAULT_VERSION, KafkaJars, cached_jars, fetch_jars
    from penstock_testing.services.kafka import KafkaCluster
    from penstock_testing.services.registry import RegistryServer
    from penstock_testing.services.spark import SparkCluster

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
    "DEFAULT_VERSION": "penstock_testing.services.jars",
    "Java": "penstock.machine.java",
    "KafkaCluster": "penstock_testing.services.kafka",
    "KafkaJars": "penstock_testing.services.jars",
    "RegistryServer": "penstock_testing.services.registry",
    "Security": "penstock_testing.services.broker_config",
    "SparkCluster": "penstock_testing.services.spark",
    "cached_jars": "penstock_testing.services.jars",
    "fetch_jars": "penstock_testing.services.jars",
    "find_java": "penstock.machine.java",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: the start of Spark, which uses none, does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)
