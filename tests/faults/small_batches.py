"""F27: batches that the driver reads, computes and publishes by itself, because they are small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock_testing import Api, Frame, Trap
from tests.faults import driver_deaths, endings, stateful, zombies
from tests.faults.harness import Outcome, Trial, cell
from tests.faults.states import finish


def small(trial: Trial, run: Callable[[Trial], Outcome]) -> Outcome:
    """The cell ``run`` with small batches. Only drivers may publish to the output."""
    trial.small = True
    by_drivers: list[bool] = []

    def note(frame: Frame) -> None:
        by_drivers.append(any(job.started and job.pid == frame.pid for job in trial.jobs))

    where = trial.about(trial.sink)
    trial.cluster.add(Trap(Api.PRODUCE, contains=[trial.transactional_id], where=where, times=None, call=note))
    outcome = run(trial)
    if not by_drivers or not all(by_drivers):
        return replace(outcome, problem=f"the fault has missed: published by drivers: {by_drivers}")
    return replace(outcome, hit=f"{outcome.hit}; published by the driver")


@cell("F27", "killed, all five points, one after the other", deadline=1200)
def five_points(trial: Trial) -> Outcome:
    return small(trial, driver_deaths.five_points)


@cell("F27", "killed mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    return small(trial, driver_deaths.mid_publish)


@cell("F27", "killed after publishing, before the progress record")
def before_the_progress_record(trial: Trial) -> Outcome:
    return small(trial, driver_deaths.before_the_progress_record)


@cell("F27", "stopped before its first Produce of a batch, and replaced")
def stopped_before_producing(trial: Trial) -> Outcome:
    return small(trial, zombies.stopped_before_producing)


@cell("F27", "stopped in an open transaction, and replaced")
def stopped_in_a_transaction(trial: Trial) -> Outcome:
    return small(trial, zombies.stopped_in_a_transaction)


@cell("F27", "asked to stop (SIGTERM) mid-publish")
def asked_mid_publish(trial: Trial) -> Outcome:
    return small(trial, endings.asked_mid_publish)


@cell("F27", "with state, killed when the driver has written a segment")
def at_a_segment(trial: Trial) -> Outcome:
    trial.small = True
    return finish(trial, stateful.die_at(trial, "after", "*.arrow", trial.before, left=[".arrow"], by_driver=True))


@cell("F27", "with state, killed when the driver has written the manifest")
def at_the_manifest(trial: Trial) -> Outcome:
    trial.small = True
    left = [".arrow", ".manifest"]
    return finish(trial, stateful.die_at(trial, "after", "*.manifest", trial.before, left=left, by_driver=True))


@cell("F27", "with state, killed between manifest and EndTxn")
def before_end_txn(trial: Trial) -> Outcome:
    trial.small = True
    return stateful.before_end_txn(trial)
