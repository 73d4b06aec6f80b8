"""``make simulate``: random walks of the exactly-once protocol, each of a seed that repeats it."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from functools import partial

from tests.simulation.mutations import MUTATIONS
from tests.simulation.walk import Found, count, walk


def main(argv: Sequence[str] | None = None) -> int:
    """Run walks and print what they came to. 1 when a walk broke a rule."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--walks", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    parser.add_argument("--first", type=int, metavar="SEED", help="the seed of the first (default: drawn)")
    parser.add_argument("--seed", type=int, help="one walk alone")
    parser.add_argument("--trace", action="store_true", help="print what happens in the walk of --seed")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="with a safeguard taken out of the code")
    parser.add_argument("--stateful", action="store_true", help="with jobs that keep a state; else half of them do")
    given = parser.parse_args(argv)
    stateful = True if given.stateful else None
    run = partial(MUTATIONS[given.mutation].walk if given.mutation else walk, stateful=stateful)
    if given.seed is not None:
        found = run(given.seed)
        print(found if given.trace else "\n".join([str(found.plan), *found.outcomes, *found.violations]))
        return 1 if found.violations else 0
    first = random.SystemRandom().randrange(1 << 32) if given.first is None else given.first
    begun = time.monotonic()
    walks = []
    for seed in range(first, first + given.walks):
        found = run(seed)
        walks.append(found)
        if found.violations:
            print(f"seed {seed}: {found.violations[0]}", flush=True)
        found.trace.clear()
    _report(walks, first, time.monotonic() - begun)
    return 1 if any(each.violations for each in walks) else 0


def _report(walks: Sequence[Found], first: int, seconds: float) -> None:
    for title, found in count(walks).items():
        print(f"{title}:")
        for what, times in found.most_common():
            print(f"  {times:8} {what}")
    requests = sum(each.requests for each in walks)
    failed = sum(bool(each.violations) for each in walks)
    print(f"{len(walks)} walks from seed {first} on in {seconds:.0f} s, {requests} requests, {failed} broke a rule")
    if failed:
        print("to see one again: python -m tests.simulation --seed N --trace")


if __name__ == "__main__":
    sys.exit(main())
