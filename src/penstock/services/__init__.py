"""Real servers for development and tests, as child processes of the program that needs them."""

from penstock.services.jars import DEFAULT_VERSION, KafkaJars, cached_jars, fetch_jars
from penstock.services.java import Java, find_java
from penstock.services.kafka import KafkaCluster
from penstock.services.registry import RegistryServer
from penstock.services.settings import Security

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
