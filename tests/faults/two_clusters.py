"""F13: a job that writes to two Kafka clusters is killed between the two commits of a batch."""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.kafka.progress import ensure_progress_topic, read_progress
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock_testing import Then, Trap, Verifier
from penstock_testing.services import KafkaCluster
from tests.faults.contents import garbled
from tests.faults.driver_deaths import die
from tests.faults.harness import BROKER, PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.jvm import UNOPTIMISED


class _Elsewhere:
    """Another cluster, with a topic that is given all records too."""

    def __init__(self, trial: Trial):
        self._trial, self.topic = trial, f"elsewhere-{trial.tag}"
        cluster = trial.stack.enter_context(KafkaCluster(properties=BROKER, jvm_options=[UNOPTIMISED]))
        self._bootstrap = cluster.bootstrap
        self._session = session_for(ClientConfig.from_properties({"bootstrap.servers": self._bootstrap}))
        create_topic(self._session, self.topic, partitions=trial.sink_partitions)
        self._verifier = trial.stack.enter_context(Verifier(self._bootstrap, trial.numbered, [self.topic]))

    def job(self, *order: str) -> JobProcess:
        """The job ``copy`` with a table in each cluster, which are committed in this order."""
        # A target that commits the group's offsets would be last.
        source = {} if order[-1] == "t" else {"properties.commit.offsets.on.checkpoint": "false"}
        head, _, _ = self._trial.sql(keyed=True, source=source).rpartition("INSERT INTO")
        (table,) = re.findall(r"^CREATE TABLE t .*;\n", head, re.MULTILINE)
        again = table.replace("TABLE t ", "TABLE u ").replace(f"'{self._trial.sink}'", f"'{self.topic}'")
        again = again.replace(self._trial.cluster.bootstrap, self._bootstrap)
        inserts = "".join(f"INSERT INTO {each} SELECT k, n, h FROM s;\n" for each in order)
        return self._trial.job(f"{head}{again}EXECUTE STATEMENT SET BEGIN\n{inserts}END;\n")

    def committed(self) -> int:
        """The last batch there."""
        found = read_progress(self._session, ensure_progress_topic(self._session), self._trial.transactional_id)
        return found.progress.batch_id if found.progress else -1

    def problem(self) -> str:
        """What is wrong there; nothing when each record is there once and nothing was left open."""
        verdict = self._verifier.verdict()
        wrong = garbled(self._session, [self.topic])
        return "" if verdict.exact and not wrong else f"in the other cluster: {verdict}, {wrong} garbled"


def _killed_between(trial: Trial, elsewhere: _Elsewhere, job: JobProcess, trap: Trap, *, there: int) -> Outcome:
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    trial.hit(f"in the other cluster batch {elsewhere.committed()} was committed", elsewhere.committed() == there)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    outcome = trial.outcome(job)
    return replace(outcome, problem="; ".join(filter(None, (outcome.problem, elsewhere.problem()))))


@cell("F13", "two Kafka clusters, killed when only the first has committed", deadline=900)
def first_cluster_alone(trial: Trial) -> Outcome:
    elsewhere = _Elsewhere(trial)
    job = elsewhere.job("t", "u")
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return _killed_between(trial, elsewhere, job, trap, there=trial.before - 1)


@cell("F13", "two Kafka clusters, killed when only the other one has committed", deadline=900)
def other_cluster_alone(trial: Trial) -> Outcome:
    elsewhere = _Elsewhere(trial)
    job = elsewhere.job("u", "t")
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return _killed_between(trial, elsewhere, job, trap, there=trial.before)
