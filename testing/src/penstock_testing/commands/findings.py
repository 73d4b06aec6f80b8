"""What ``penstock doctor`` says of the servers for development and tests."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.cli.doctor import Finding, check_java
from penstock.machine.folders import cache_folder
from penstock_testing.services.jars import DEFAULT_VERSION, cached_jars
from penstock_testing.services.registry import REGISTRY_JAVA, REGISTRY_VERSION, cached_registry
from penstock_testing.services.running import BackgroundCluster, BackgroundRegistry


def find_services() -> Iterator[Finding]:
    """Which servers can be started without fetching them, and which run."""
    jars, registry = cached_jars(), cached_registry()
    later = f"goes to {cache_folder()} when it is first needed"
    if jars:
        yield Finding("broker jars", jars.version, str(jars.folder))
    else:
        yield Finding("broker jars", "not yet", f"Kafka {DEFAULT_VERSION} {later}")
    if registry:
        yield Finding("schema registry", REGISTRY_VERSION, str(registry))
    else:
        yield Finding("schema registry", "not yet", f"Apicurio Registry {REGISTRY_VERSION} {later}")
    java = check_java("its Java", REGISTRY_JAVA)
    if java.remedy:
        where = f"there is none of version {REGISTRY_JAVA} or newer; only `penstock registry` needs it"
        java = Finding(java.subject, "none", where)
    yield java
    for each in (*BackgroundCluster.all(), *BackgroundRegistry.all()):
        where = f"pid {each.pids}, `penstock {each.command} stop` stops it"
        yield Finding(f"local {each.command}", each.address, where)
