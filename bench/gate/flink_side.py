"""The process that runs Flink's jobs, in a Python of its own with PyFlink and nothing of this project.

Its arguments are jars, such as that of the SQL connector for Kafka. Tasks are ``{"settings": {...}, "statements":
[...]}``; the last statement is the job, which is waited for.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

_SETTINGS = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": "1s",
    "execution.checkpointing.incremental": "true",
    "pipeline.object-reuse": "true",
    "taskmanager.memory.network.fraction": "0.2",
    "taskmanager.memory.managed.size": "2g",
    "taskmanager.memory.task.heap.size": "3g",
}


def main(jars: list[str]) -> None:
    """Run one job per line of the standard input."""
    table: Any = importlib.import_module("pyflink.table")
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer: dict[str, object] = {"seconds": _run(table, jars, task)}
        except Exception as error:  # noqa: BLE001 - the caller reports it
            answer = {"error": _reason(error)}
        print("GATE " + json.dumps(answer), flush=True)


def _run(table: Any, jars: list[str], task: dict[str, Any]) -> float:
    settings = {**_SETTINGS, **task["settings"]}
    modes = table.EnvironmentSettings
    batch = settings.get("execution.runtime-mode") == "batch"
    environment = table.TableEnvironment.create(modes.in_batch_mode() if batch else modes.in_streaming_mode())
    if jars:
        settings["pipeline.jars"] = ";".join(f"file://{jar}" for jar in jars)
    for key, value in settings.items():
        environment.get_config().set(key, value)
    *tables, job = task["statements"]
    for statement in tables:
        environment.execute_sql(statement)
    begun = time.perf_counter()
    environment.execute_sql(job).wait()
    return time.perf_counter() - begun


def _reason(error: Exception) -> str:
    """The last cause in the report of Java's error."""
    lines = str(error).splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return f"{type(error).__name__}: {causes[-1] if causes else error}"[:800]


if __name__ == "__main__":
    main(sys.argv[1:])
