"""The process that runs penstock's jobs, all in one Spark session. Tasks are ``{"sql": ...}`` or
``{"yaml": ...}``."""

from __future__ import annotations

import json
import sys
import time

from bench.gate.sides import REPLY
from penstock import engine
from penstock.ingest import lower, parse_pipeline
from penstock.plan.nodes import Job
from penstock.sql import parse_script


def main() -> int:
    """Run one job per line of the standard input."""
    for line in sys.stdin:
        job = _parse(json.loads(line))
        begun = time.perf_counter()
        try:
            engine.run(job, lambda warning: print(warning, file=sys.stderr, flush=True))
            answer: dict[str, object] = {"seconds": time.perf_counter() - begun}
        except Exception as error:  # noqa: BLE001 - the caller reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(REPLY + json.dumps(answer), flush=True)
    return 0


def _parse(task: dict[str, str]) -> Job:
    if "yaml" in task:
        return lower(parse_pipeline(task["yaml"], file="gate.yaml"), "gate")
    (job,) = parse_script(task["sql"], default_name="gate").jobs
    return job


if __name__ == "__main__":
    sys.exit(main())
