"""The process that runs penstock's jobs, all in one Spark session. Tasks are ``{"sql": ...}``."""

from __future__ import annotations

import json
import sys
import time

from bench.gate.sides import REPLY
from penstock import engine
from penstock.sql import parse_script


def main() -> int:
    """Run one job per line of the standard input."""
    for line in sys.stdin:
        (job,) = parse_script(json.loads(line)["sql"], default_name="gate").jobs
        begun = time.perf_counter()
        try:
            engine.run(job, lambda warning: print(warning, file=sys.stderr, flush=True))
            answer: dict[str, object] = {"seconds": time.perf_counter() - begun}
        except Exception as error:  # noqa: BLE001 - the caller reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(REPLY + json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
