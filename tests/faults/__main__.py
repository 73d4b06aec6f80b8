"""``make faults``: runs the whole matrix, cell by cell, and writes docs/faults.md.

Each cell has a process, a cluster and a deadline of its own. What a cell found is kept in docs/faults.json, so that a
run that was interrupted goes on where it was: cells that came out well are not run again (``--fresh`` forgets them).
What the last run of each printed is in ``.faults``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.faults.cells import CELLS
from tests.faults.harness import Cell, Unavailable, run_cell
from tests.faults.results import Result, Run, load, render, save

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "faults.md"
LOGS = ROOT / ".faults"
GRACE_SECONDS = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run cells and render the table. 1 when a cell failed."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="cells whose name begins so, F5 say"
    )
    parser.add_argument("--records", type=int, default=100_000, help="in each cell (default: 100000)")
    parser.add_argument("--runs", type=int, default=1, help="of each cell (default: 1)")
    parser.add_argument("--fresh", action="store_true", help="run cells again that came out well before")
    parser.add_argument("--render", action="store_true", help="run nothing, write the table of what is kept")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.cell:
        return _run_here(CELLS[given.cell], given.records, given.folder)
    starts = "|".join(re.escape(start) for start in given.only)
    chosen = [each for name, each in CELLS.items() if re.match(rf"({starts})(?!\d)", name)]  # F1, and not F10
    if not chosen:
        parser.error(f"no cell's name begins with {' or '.join(given.only)}; there are: {', '.join(CELLS)}")
    failed = []
    for number, each in enumerate([] if given.render else chosen, 1):
        known = load().get(each.name)
        if (
            known
            and known.good
            and known.records == given.records
            and len(known.runs) >= given.runs
            and not given.fresh
        ):
            continue
        print(f"[{number}/{len(chosen)}] {each.name} ... ", end="", flush=True)
        runs = [_run_apart(each, given.records) for _ in range(given.runs)]
        result = Result(each.fault, each.point, given.records, time.strftime("%Y-%m-%d"), tuple(runs))
        save(result)
        print(result.summary, flush=True)
        if not result.good:
            failed.append(each.name)
    TABLE.write_text(page())
    print(f"{TABLE.relative_to(ROOT)} is written; what each cell printed is in {LOGS.relative_to(ROOT)}")
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed else 0


def page() -> str:
    """The table of what is kept."""
    kept = load()
    return render([kept[name] for name in CELLS if name in kept], list(CELLS.values()))


# --- one run -------------------------------------------------------------------------------------------------


def _run_apart(cell: Cell, records: int) -> Run:
    """Run a cell once in a process of its own, which is killed with all that it started when its time is up."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-fault-"))
    log = LOGS / f"{re.sub(r'[^A-Za-z0-9.]+', '-', cell.name).strip('-')}.log"
    log.parent.mkdir(exist_ok=True)
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.faults", "--cell", cell.name, "--records", str(records)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--folder", str(folder)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        late = ""
        try:
            process.wait(cell.deadline)
        except subprocess.TimeoutExpired:
            late = f"it was not done after {cell.deadline:g} s"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
            process.kill()
            process.wait()
            _end_what_is_in(folder)
    found = folder / "run.json"
    run = (
        Run.read(found) if found.exists() else Run(failure=late or f"it ended with status {process.returncode}: {log}")
    )
    if run.good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"(left in {folder}) ", end="")
    return Run(**{**asdict(run), "failure": run.failure or late, "seconds": time.monotonic() - begun})


def _run_here(cell: Cell, records: int, folder: Path) -> int:
    """The process of a cell."""
    try:
        with cell.cluster() as cluster:
            run = Run.of(run_cell(cell, cluster, records, folder / "trial"))
    except Unavailable as error:
        run = Run(unavailable=str(error))
    except Exception as error:  # noqa: BLE001 - the table says it
        traceback.print_exc()
        run = Run(failure=f"{type(error).__name__}: {error}")
    run.write(folder / "run.json")
    print(run)
    return 0


def _end_what_is_in(folder: Path) -> None:
    """Kill every process that works in ``folder``: jobs of a cell that could not end them."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError):
                if Path(os.readlink(each / "cwd")).is_relative_to(folder):
                    os.kill(int(each.name), signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which lets go of everything in order
    sys.exit(main())
