"""The process that runs the program by PyFlink, in a Python of its own, which has nothing of this project. Its argument
is the jar of the SQL connector for Kafka."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from program import execute  # type: ignore[import-not-found]


def main(jar: str) -> None:
    """Run one task per line of the standard input."""
    for line in sys.stdin:
        task = json.loads(line)
        task["settings"]["pipeline.jars"] = f"file://{jar}"
        try:
            answer: dict[str, object] = {"seconds": execute("pyflink", task)}
        except Exception as error:  # noqa: BLE001 - the caller reports it
            answer = {"error": f"{type(error).__name__}: {error}"[:800]}
        print("GATE " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
