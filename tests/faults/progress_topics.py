"""F24: the progress topic is deleted, or given more partitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.progress import ensure_progress_topic
from penstock_testing import Then
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial, cell, story
from tests.faults.librdkafka import Administrator
from tests.faults.outcomes import HASTY
from tests.faults.steps import RESTARTING, reached, stopped, stops

# --- deleted -----------------------------------------------------------------------------------------------------


def delete(trial: Trial) -> None:
    """Delete the progress topic, and with it what is known of what was published."""
    Administrator(trial).delete_topic(PROGRESS)
    trial.session.forget_topics([PROGRESS])
    trial.hit("the progress topic is gone", PROGRESS not in trial.session.topics([PROGRESS]))


def deleted_while_down(trial: Trial, *, committed: bool) -> Outcome:
    """The job stops for want of progress. With ``--adopt-progress`` it goes on by its checkpoint alone. It promises all
    records then, each once, but for those of a batch that was committed and that Spark does not know as done: these are
    published again. Those come behind their first copies. (The
    verifier has no progress records to find torn batches by: those from before are gone.)"""
    trial.verify(transactional_ids=(), ordered=not committed)
    sql = trial.sql(keyed=True)
    job = trial.job(sql)
    options = {"call": lambda _: job.kill(), "then": Then.DROP}
    trap = (
        trial.ended(trial.before + 1, **options)
        if committed
        else trial.published(after=trial.ended(trial.before), **options)
    )
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    ends = [sum(reached(trial, job, batch).values()) for batch in (trial.before - 1, trial.before)]
    promised = ends[1] - ends[0] if committed else 0
    delete(trial)
    stop = stops(job.start(), "the record of published batches is lost", "--adopt-progress")
    trial.hit("stopped without it")
    again = trial.job(sql, folder="adopting", arguments=("--adopt-progress",))
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    outcome = trial.outcome(again, stop=stop)
    twice = outcome.verdict.duplicated
    said = f"adopted: {twice} records again, {promised} in the batch that was committed and not logged"
    return replace(
        outcome,
        verdict=replace(outcome.verdict, duplicated=abs(twice - promised)),
        hit=f"{outcome.hit}; {said}",
    )


@cell("F24", "progress topic deleted after a death mid-publish; stops, and adopts")
def deleted_mid_publish(trial: Trial) -> Outcome:
    return deleted_while_down(trial, committed=False)


@cell("F24", "progress topic deleted after a death after EndTxn; stops, and adopts with one batch twice")
def deleted_after_end_txn(trial: Trial) -> Outcome:
    return deleted_while_down(trial, committed=True)


@cell("F24", "progress topic deleted between batches of a job that adopts and restarts; stops")
def deleted_while_running(trial: Trial) -> Outcome:
    """``--adopt-progress`` is a word on what was lost before the start: what is lost since, no restart adopts."""
    trial.verify(transactional_ids=())
    job = trial.job(RESTARTING + trial.sql(sink=HASTY), arguments=("--adopt-progress",))
    trap = trial.ended(trial.before, call=lambda _: delete(trial))
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    stop = stops(job, "the record of published batches is lost")
    trial.hit(f"at {story(trap)} of batch {trial.before - 1}")
    stopped(trial, job, planned=trial.before)
    restarts = job.text.count("warning: job 'copy': restart ")
    trial.hit(f"restarted {restarts} times by its strategy, and stopped then", restarts == 1)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit("adopted by a new start")
    return trial.outcome(job, stop=stop)


# --- enlarged ----------------------------------------------------------------------------------------------------


class Enlargement:
    """More partitions for the progress topic, so many that a new job of this id would have another place there."""

    def __init__(self, trial: Trial):
        self.trial, self.before, self.after = trial, -1, -1

    def make(self, _: object = None) -> None:
        """Add them, and wait until it is so."""
        trial, own = self.trial, self.trial.transactional_id
        topic = ensure_progress_topic(trial.session)
        total = next(
            total
            for total in count(topic.partitions + 1)
            if replace(topic, partitions=total).partition_of(own) != topic.partition_of(own)
        )
        Administrator(trial).add_partitions(PROGRESS, total)
        trial.session.forget_topics([PROGRESS])
        trial.session.topic(PROGRESS, partition=total - 1)
        self.before, self.after = topic.partition_of(own), ensure_progress_topic(trial.session).partition_of(own)
        trial.hit(
            f"{total} partitions of the progress topic instead of {topic.partitions}: by its number the job's would be "
            f"{self.after}, and was {self.before}",
            self.after != self.before,
        )

    def unused(self) -> None:
        """Note that the job's progress has stayed where it was."""
        places = [(PROGRESS, self.before), (PROGRESS, self.after)]
        ends = list_offsets(self.trial.session, places, LATEST)
        kept, new = (ends[place] for place in places)
        self.trial.hit("progress stayed there", kept is not None and kept.offset > 0 and (not new or new.offset == 0))


@cell("F24", "progress topic enlarged after a death after EndTxn")
def enlarged_while_down(trial: Trial) -> Outcome:
    """The checkpoint knows how many partitions there were, and progress stays where it is."""
    job, larger = trial.job(), Enlargement(trial)
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    larger.make()
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    larger.unused()
    return trial.outcome(job)


@cell("F24", "progress topic enlarged mid-publish; killed after EndTxn of the next batch")
def enlarged_while_running(trial: Trial) -> Outcome:
    """The job goes on in the partition that it knows, and so does its next start."""
    job, larger = trial.job(trial.sql(keyed=True)), Enlargement(trial)
    grown = trial.published(after=trial.ended(trial.before), call=larger.make)
    trap = trial.ended(trial.before + 2, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before + 1, done=trial.before)
    trial.hit(f"enlarged at {story(grown)} of batch {trial.before}", grown.sprung)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    larger.unused()
    return trial.outcome(job)
