"""``make faults``: runs the whole matrix, cell by cell, and writes docs/faults.md.

Each run of a cell has a process, a cluster and a deadline of its own, and a seed from which it draws what it may
choose. What it found is kept in docs/faults.json, so that runs add up over invocations: ``--runs 3`` goes on until
three runs with different seeds came out well, those that did before among them (``--fresh`` forgets them). A run that
fails stays on record. What the last run of each printed is in ``.faults``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

from tests.faults.cells import CELLS
from tests.faults.harness import Cell, Unavailable, run_cell
from tests.faults.mutants import MUTANTS, Mutant
from tests.faults.results import Kill, Result, Run, load, load_kills, render, save, save_kill

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "faults.md"
LOGS = ROOT / ".faults"
GRACE_SECONDS = 30.0
MUTANT_RECORDS = 10_000

_lock = threading.Lock()  # around what is kept, and what is printed


def main(argv: Sequence[str] | None = None) -> int:
    """Run cells, or mutants, and render the table. 1 when a cell failed or a mutant survived."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="cells whose name begins so, F5 say"
    )
    parser.add_argument("--records", type=int, help="in each cell (default: 100000; with --mutants 10000)")
    parser.add_argument("--runs", type=int, default=1, help="of each cell that have to come out well (default: 1)")
    parser.add_argument("--seed", type=int, help="of this invocation; by default one is drawn, and printed")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no more runs are begun")
    parser.add_argument("--fresh", action="store_true", help="forget what is on record for these cells")
    parser.add_argument("--mutants", action="store_true", help="run the mutants instead (--only: those of these names)")
    parser.add_argument("--render", action="store_true", help="run nothing, write the table of what is kept")
    parser.add_argument("--cell", help="run this one cell once, with --seed, and leave what it made in --folder")
    parser.add_argument("--folder", type=Path, help="where --cell works")
    parser.add_argument("--mutant", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    records = given.records or (MUTANT_RECORDS if given.mutants else 100_000)
    if given.cell:
        return _run_here(CELLS[given.cell], records, given.folder, given.seed, given.mutant)
    starts = "|".join(re.escape(start) for start in given.only)
    known: Iterable[str] = MUTANTS if given.mutants else CELLS
    chosen = [name for name in known if re.match(rf"({starts})(?!\d)", name)]  # F1, and not F10
    if not chosen:
        parser.error(f"no name begins with {' or '.join(given.only)}; there are: {', '.join(known)}")
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    failed: list[str] = []
    if not given.render:
        print(f"seed {seed}: --seed {seed} draws the same again")
        until = time.monotonic() + 60 * given.minutes
        step: Callable[[str], str | None]
        if given.mutants:
            step = lambda name: _try(MUTANTS[name], records, seed)  # noqa: E731
        else:
            if given.fresh:
                _forget(chosen)
            step = lambda name: _run_until_good(CELLS[name], records, given.runs, seed, until)  # noqa: E731
        failed = _each(chosen, step, given.jobs, until)
    TABLE.write_text(page())
    print(f"{TABLE.relative_to(ROOT)} is written; what each run printed is in {LOGS.relative_to(ROOT)}")
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed else 0


def page() -> str:
    """The table of what is kept."""
    kept = load()
    kills = {kill.mutant: kill for kill in load_kills()}
    return render(
        [kept[name] for name in CELLS if name in kept],
        list(CELLS.values()),
        [kills[name] for name in MUTANTS if name in kills],
    )


def seed_of(seed: int, name: str, number: int) -> int:
    """The seed of a cell's run, from that of the invocation."""
    return zlib.crc32(f"{seed} {name} {number}".encode())


# --- many runs -----------------------------------------------------------------------------------------------


def _each(names: Sequence[str], step: Callable[[str], str | None], jobs: int, until: float) -> list[str]:
    """Take a step for each name, so many at a time, and print what it says. The names of those whose line begins with
    a ``!``."""
    failed: list[str] = []

    def work(numbered: tuple[int, str]) -> None:
        number, name = numbered
        if time.monotonic() > until:
            return
        said = step(name)
        if said is None:
            return
        with _lock:
            print(f"[{number}/{len(names)}] {name} ... {said.removeprefix('!')}", flush=True)
            if said.startswith("!"):
                failed.append(name)

    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(work, enumerate(names, 1)):
            pass
    return failed


def _run_until_good(cell: Cell, records: int, runs: int, seed: int, until: float) -> str | None:
    """Run a cell until so many runs with different seeds have come out well, or one has not. What the last one found;
    None when enough are on record."""
    said = None
    while time.monotonic() < until:
        with _lock:
            known = load().get(cell.name)
        if known is None or known.records != records:
            known = Result(cell.fault, cell.point, records, ())
        if len(known.seeds) >= runs:
            break
        used = {run.seed for run in known.runs}
        own = next(each for number in range(10**6) if (each := seed_of(seed, cell.name, number)) not in used)
        run = _run_apart(cell, records, own)
        with _lock:
            result = known.with_run(run)
            save(result)
        said = result.summary if run.good else f"!{result.summary}"
        if not run.good:
            break
    return said


def _forget(names: Sequence[str]) -> None:
    kept = load()
    for name in names:
        if name in kept:
            save(replace(kept[name], runs=()))


def _try(mutant: Mutant, records: int, seed: int) -> str:
    """Run a mutant through its cell. What that has counted."""
    own = seed_of(seed, mutant.name, 0)
    run = _run_apart(CELLS[mutant.cell], records, own, mutant.name)
    seen, failure = mutant.killed_by(run)
    kill = Kill(mutant.name, mutant.safeguard, mutant.cell, records, own, seen, failure, run.date)
    with _lock:
        save_kill(kill)
    return f"killed by {mutant.cell}: {seen}" if seen else f"!SURVIVES {mutant.cell}: {failure}"


# --- one run -------------------------------------------------------------------------------------------------


def _run_apart(cell: Cell, records: int, seed: int, mutant: str | None = None) -> Run:
    """Run a cell once in a process of its own, which is killed with all that it started when its time is up."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-fault-"))
    name = f"{mutant} {cell.name}" if mutant else cell.name
    log = LOGS / f"{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-')}.log"
    log.parent.mkdir(exist_ok=True)
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.faults", "--cell", cell.name, "--records", str(records)]
    command += ["--seed", str(seed), "--folder", str(folder), *(["--mutant", mutant] if mutant else [])]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
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
        Run.read(found)
        if found.exists()
        else Run(failure=late or f"it ended with status {process.returncode}: {log}", date=time.strftime("%Y-%m-%d"))
    )
    if run.good or mutant:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"(left in {folder}) ", end="")
    return Run(**{**asdict(run), "failure": run.failure or late, "seconds": time.monotonic() - begun, "seed": seed})


def _run_here(cell: Cell, records: int, folder: Path, seed: int, mutant: str | None) -> int:
    """The process of a run."""
    date = time.strftime("%Y-%m-%d")
    try:
        with cell.cluster() as cluster:
            run = Run.of(run_cell(cell, cluster, records, folder / "trial", mutant, seed), seed)
    except Unavailable as error:
        run = Run(unavailable=str(error), date=date)
    except Exception as error:  # noqa: BLE001 - the table says it
        traceback.print_exc()
        run = Run(failure=f"{type(error).__name__}: {error}", date=date)
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
