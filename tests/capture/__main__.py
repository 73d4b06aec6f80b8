"""``make capture``: random workloads on PostgreSQL, captured by Debezium, copied by a pipeline that is killed twice.

Each seed runs with messages that contain their schema, by Debezium's defaults, and with messages that do not. It needs
the network once, for Debezium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.capture.trial import run_trial

_SHOWN = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trials. 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="make capture", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many workloads (default: 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the first one (default: 1)")
    parser.add_argument("--changes", type=int, default=100_000, help="of rows in each (default: 100000)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--with-schema", action="store_true", help="only with messages that contain their schema")
    only.add_argument("--without-schema", action="store_true", help="only with messages that do not")
    given = parser.parse_args(argv)
    modes = [mode for mode, left in ((False, given.with_schema), (True, given.without_schema)) if not left]
    failed = 0
    for seed in range(given.seed, given.seed + given.seeds):
        for with_schema in modes:
            name = f"seed {seed} {'with' if with_schema else 'without'} schemas"
            folder = Path(tempfile.mkdtemp(prefix="penstock-capture-"))
            begun = time.monotonic()

            def tell(line: str, name: str = name, begun: float = begun) -> None:
                print(f"{name}, {time.monotonic() - begun:5.0f} s: {line}", flush=True)

            outcome = run_trial(folder, seed, given.changes, with_schema=with_schema, progress=tell)
            done = ", ".join(f"{count} {what}" for what, count in outcome.done.items())
            kills = " and ".join(map(str, outcome.kills))
            tell(f"{done}; killed within batches {kills}; {outcome.rows} rows compared")
            for each in outcome.differences[:_SHOWN]:
                tell(f"different: {each}")
            tell("equal" if outcome.good else f"FAILED, {len(outcome.differences)} differences; see {folder}")
            if outcome.good:
                shutil.rmtree(folder)
            else:
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
