"""Files of installed Python packages, found without importing them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from penstock.errors import ServiceError


def spark_jars_folder() -> Path:
    """PySpark's ``jars`` folder, found without importing PySpark.

    Raises:
        ServiceError: PySpark is not installed, or has no jars.
    """
    jars = package_folder("pyspark") / "jars"
    if not any(jars.glob("ivy-*.jar")):
        raise ServiceError("servers are fetched with PySpark's jars, and there are none; check `pip install pyspark`")
    return jars


def package_folder(package: str) -> Path:
    """The folder of a Python package, found without importing it. One that does not exist if it is not installed."""
    spec = importlib.util.find_spec(package)
    found = spec.submodule_search_locations if spec else None
    return Path(found[0] if found else f"no-{package}")
