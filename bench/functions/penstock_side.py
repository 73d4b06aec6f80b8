"""The process that runs the program by penstock, all of its jobs in one Spark session."""

from __future__ import annotations

import json
import sys
import warnings

import pyarrow.compute as pc

from bench.functions.program import execute, upper
from bench.gate.sides import REPLY
from penstock.common import call_arrow


def main() -> int:
    """Run one task per line of the standard input."""
    warnings.simplefilter("ignore")
    calls = {"function": upper, "arrays": call_arrow(pc.utf8_upper)}
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer: dict[str, object] = {"seconds": execute("penstock", task, calls[task["call"]])}
        except Exception as error:  # noqa: BLE001 - the caller reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(REPLY + json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
