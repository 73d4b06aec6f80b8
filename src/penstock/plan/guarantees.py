"""What the guarantees of a job's sinks need of the job, and of one another."""

from __future__ import annotations

from penstock.errors import OptionsError, Problem
from penstock.plan.nodes import Job
from penstock.spi import Guarantee


def check_guarantees(job: Job) -> None:
    """Raises OptionsError with every sink that cannot do what it is asked for.

    Exactly-once needs a checkpoint that lasts (rule 27 of exactly-once). A sink that writes a batch that is done again
    once more stands beside an exactly-once one only when its table says that this is meant (rule 21).
    """
    given = [(sink, sink.spec.capabilities.guarantee) for sink in job.sinks]
    exact = [sink for sink, guarantee in given if guarantee is Guarantee.EXACTLY_ONCE]
    problems = []
    if not job.settings.checkpointing:
        problems += [
            Problem(
                "exactly-once needs checkpointing, which is off", where=f"table '{sink.table}'", hint="switch it on"
            )
            for sink in exact
        ]
    if exact:
        problems += [
            Problem(
                f"connector '{sink.connector}' writes the rows of a batch that is done again once more, beside the "
                f"exactly-once table '{exact[0].table}'",
                where=f"table '{sink.table}'",
                hint="if that is meant, set 'sink.delivery-guarantee' = 'at-least-once'; else use a job of its own",
            )
            for sink, guarantee in given
            if guarantee is None
        ]
    if problems:
        raise OptionsError(tuple(problems))
