"""Which cell turns red when which safeguard is taken out of penstock, and by what. ``mutant.py`` takes them out."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.results import Run

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A safeguard that is taken out, and the cell that must notice.

    ``counts`` are those of the verdict of which one must not be 0; ``texts`` are those of which one must be in what the
    run says went wrong, where that is what gives the mutant away. ``ci``: part of every test run. ``seed``: of the run,
    where only some are hit.
    """

    name: str
    safeguard: str
    cell: str
    counts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    ci: bool = False
    seed: int | None = None

    def killed_by(self, run: Run) -> tuple[str, str]:
        """What has given it away in a run; or, when nothing has, why the run does not count."""
        counted = [f"{run.verdict[name]} {name}" for name in self.counts if run.verdict and run.verdict[name]]
        told = [text for text in self.texts if text in run.failure]
        seen = ", ".join(counted + [f"'{text}'" for text in told])
        return seen, "" if seen else run.failure or run.unavailable or f"came out as {run.verdict}"


_ALL = (
    Mutant(
        "skip-fencing",
        "each start has an id of its own and fences nobody",
        "F1 mid-publish",
        ("lost", "open_transactions"),
    ),
)

#: By name.
MUTANTS = {each.name: each for each in _ALL}
