"""``penstock`` without a safeguard: ``python mutated_penstock.py MUTATION run FILE ...``.

It makes sure that cells can fail. Each of these changes what the driver does by one rule of the protocol;
``mutants.py`` says which cell must notice, and by what.
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from dataclasses import replace
from typing import Any


def skip_fencing() -> None:
    """Each start has a transactional id of its own, and fences nobody; progress stays under the checkpoint's id."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter
    from penstock.delivery import Progress
    from penstock.kafka.progress import records

    own = uuid.uuid4().hex
    keep, key, seal = KafkaCommitter._keep, records.record_key, records.Seal.sign

    def shared(name: str) -> str:
        return name.partition("#")[0]

    def keep_own(self: Any, *args: Any) -> None:
        keep(self, *args)
        self.transactional_id += f"#{own}"

    KafkaCommitter._keep = keep_own
    records.record_key = lambda name, record: key(shared(name) if record is Progress else name, record)
    records.Seal.sign = lambda self, name, fields: seal(self, shared(name), fields)


# --- progress ----------------------------------------------------------------------------------------------------


def ignore_progress() -> None:
    """Every batch is published, whatever the progress record says."""
    from penstock.connectors.kafka.sink import committer
    from penstock.delivery import Publish

    committer.decide = lambda *args, **kwargs: Publish()


def accept_older_checkpoint() -> None:
    """What a checkpoint that contradicts progress asks for is published."""
    from penstock.connectors.kafka.sink import committer
    from penstock.delivery import Publish
    from penstock.errors import CheckpointError

    decide = committer.decide

    def decide_so(*args: Any, **kwargs: Any) -> Any:
        try:
            return decide(*args, **kwargs)
        except CheckpointError:
            return Publish()

    committer.decide = decide_so
    committer.check_ahead = lambda *args: None  # a start checks for it as well, before the id is taken


def believe_aborted_progress() -> None:
    """Progress of transactions that were aborted counts as well."""
    from penstock.kafka.progress.reading import _Reader
    from penstock.kafka.record_batches import ControlType

    end = _Reader._end

    def end_with_commit(self: Any, marker: Any) -> None:
        committing = marker.copy()
        committing["control_type"] = ControlType.COMMIT
        end(self, committing)

    _Reader._end = end_with_commit


def read_stable_progress() -> None:
    """Progress is read as far as no transaction is open, somebody else's among them."""
    from penstock.kafka.progress import reading
    from penstock.kafka.properties import READ_COMMITTED, READ_UNCOMMITTED

    read = reading.read_progress_of

    def read_so(*args: Any, **kwargs: Any) -> Any:
        reading.READ_UNCOMMITTED = READ_COMMITTED
        try:
            return read(*args, **kwargs)
        finally:
            reading.READ_UNCOMMITTED = READ_UNCOMMITTED

    reading.read_progress_of = read_so


def move_progress() -> None:
    """Records go to the partition that an id has in the topic as it is now, and are read from there alone."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter
    from penstock.kafka.progress import reading

    keep, read, list_offsets = KafkaCommitter._keep, reading.read_progress_of, reading.list_offsets

    def keep_none(self: Any, known: Any, found: Any) -> None:
        keep(self, {**known, "progress_partitions": found.partitions}, found)

    def read_so(session: Any, topic: Any, transactional_ids: Any, **kwargs: Any) -> Any:
        ids = tuple(transactional_ids)
        wanted = {topic.partition_of(each) for each in ids}

        def listed(session: Any, places: Any, *args: Any, **options: Any) -> Any:
            found = list_offsets(session, [place for place in places if place[1] in wanted], *args, **options)
            return {place: found.get(place) for place in places}

        reading.list_offsets = listed
        try:
            return read(session, topic, ids, **kwargs)
        finally:
            reading.list_offsets = list_offsets

    KafkaCommitter._keep = keep_none
    reading.read_progress_of = read_so


def record_outside() -> None:
    """A batch's progress is committed in a transaction of its own, before the batch is."""
    from penstock.connectors.kafka.sink import committer
    from penstock.delivery import Progress
    from penstock.kafka.produce import Producer
    from penstock.kafka.progress import encode_progress
    from penstock.kafka.transactions import TransactionClient

    record = committer.write_progress

    def record_so(session: Any, client: Any, topic: Any, what: Any, **kwargs: Any) -> Any:
        if not isinstance(what, Progress):
            return record(session, client, topic, what, **kwargs)
        other = TransactionClient(session, uuid.uuid4().hex)
        other.init()
        other.begin()
        with Producer(session, other.identity, transactional_id=other.transactional_id) as producer:
            producer.submit(topic.name, *encode_progress(topic, client.transactional_id, what))
            producer.flush()
            (ack,) = producer.acks()
        other.commit()
        return ack

    committer.write_progress = record_so


# --- unknown outcomes --------------------------------------------------------------------------------------------


def skip_settling() -> None:
    """A transaction whose end is unknown is taken for committed."""
    from penstock.connectors.kafka.sink import committer

    def settle(session: Any, client: Any, *args: Any, **kwargs: Any) -> bool:
        client.leave_unknown(fenced=False)
        return True

    committer.settle = settle


def settle_as_aborted() -> None:
    """What was found out about an unknown end is taken for an abort."""
    from penstock.connectors.kafka.sink import committer

    settle = committer.settle

    def settle_so(*args: Any, **kwargs: Any) -> bool:
        settle(*args, **kwargs)
        return False

    committer.settle = settle_so


def settle_failed_as_aborted() -> None:
    """Where the outcome cannot be found out, it is taken for an abort."""
    from penstock.connectors.kafka.sink import committer
    from penstock.errors import KafkaError
    from penstock.kafka.transactions import State

    settle = committer.settle

    def settle_so(session: Any, client: Any, *args: Any, **kwargs: Any) -> bool:
        try:
            return settle(session, client, *args, **kwargs)
        except KafkaError:
            if client.state is State.UNKNOWN:
                client.leave_unknown(fenced=False)
            return False

    committer.settle = settle_so


def settle_in_the_old_epoch() -> None:
    """Progress is believed before the id has been taken again, so that the end may still arrive."""
    from penstock.kafka import ownership, progress

    def look(session: Any, client: Any, topic: Any, *args: Any) -> Any:
        return progress.read_progress(session, topic, client.transactional_id)

    ownership._retake = look


# --- transactions ------------------------------------------------------------------------------------------------


def abort_in_the_old_epoch() -> None:
    """Below transaction.version 2 an abort is EndTxn, which leaves the epoch as it is."""
    from penstock.kafka.transactions import State, TransactionClient

    def abort(self: Any, deadline: Any = None) -> None:
        self._expect(State.ENDING)
        self._become(State.ENDING)
        self._end(False, deadline)

    TransactionClient.abort = abort


def offsets_outside() -> None:
    """A group's offsets are committed outside of the transaction, before it is."""
    from penstock.kafka.offsets import commit_offsets
    from penstock.kafka.transactions import TransactionClient

    TransactionClient.add_offsets = lambda self, group, offsets, deadline=None: commit_offsets(
        self._session, group, offsets
    )


# --- tasks -------------------------------------------------------------------------------------------------------


def _acknowledged(**flags: Any) -> None:
    from penstock.connectors.kafka.sink.writing_committer import WritingCommitter

    collect = WritingCommitter.collect
    WritingCommitter.collect = lambda *args, **kwargs: replace(collect(*args, **kwargs), **flags)


def always_clean() -> None:
    """Spark runs again what has failed in a transaction, as it does by default, and nobody looks."""
    from penstock.connectors.kafka.spark import runtime
    from penstock.engine.session import spark as session

    for key in ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts"):
        session._ONE_ATTEMPT[key] = "4"
    runtime._check_attempts = lambda spark: None
    _acknowledged(doubt="")


def always_one_writer() -> None:
    """Every task publishes its own rows, and that two of them wrote to one partition is not noticed."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter
    from penstock.connectors.kafka.sink.writing_committer import WritingCommitter

    WritingCommitter.one_writer_each = lambda self, tasks: True
    KafkaCommitter._shared = property(lambda self: False, lambda self, found: None)
    _acknowledged(one_writer=True, whole=True)


# --- restarts ----------------------------------------------------------------------------------------------------


def restart_when_fenced() -> None:
    """A restart strategy starts a job again that another run has shut out."""
    from penstock.errors import FencedError

    FencedError.restartable = True


# --- the lease ---------------------------------------------------------------------------------------------------


def start_unrefused() -> None:
    """A start does not look whether another process runs the job."""
    from penstock.engine.checkpoint import lease

    lease._Watch.check = lambda *_: None


def never_look() -> None:
    """A copy of a job does not look whether another one has taken over."""
    from penstock.engine.checkpoint.lease import Lease

    Lease.look = lambda self: None


def newer_ends() -> None:
    """A copy that has taken over ends where it meets what the other one has done."""
    from penstock.engine.runs.supervisor import RunningJob

    RunningJob._outlives = lambda self, failure: False


# --- state -------------------------------------------------------------------------------------------------------


def _reference(storage: Any, name: str) -> str:
    """The reference to a manifest, whatever is in it."""
    return f"{name}#{hashlib.sha256(storage.open(name).to_pybytes()).hexdigest()}"


def state_unverified() -> None:
    """A manifest counts whatever is in it."""
    from penstock.flow.state.manifest import Manifest

    read = Manifest.read

    def read_so(storage: Any, reference: str) -> Any:
        return read(storage, _reference(storage, reference.partition("#")[0]) if reference else "")

    Manifest.read = staticmethod(read_so)


def newest_state() -> None:
    """A batch begins with the newest state in the checkpoint, whichever attempt it is of."""
    from penstock.engine.runs.states import StateHistory

    known = StateHistory.state_before

    def newest(self: Any, reference: str) -> Any:
        found = [each for each in self.storage.files() if each.name.endswith(".manifest")] if reference else []
        if not found:
            return known(self, reference)
        last = max(found, key=lambda each: (each.name.partition("-")[0], each.written_ms))
        return known(self, _reference(self.storage, last.name))

    StateHistory.state_before = newest


def state_outside() -> None:
    """The state is committed apart from its batch: to the checkpoint, after it."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter

    status = KafkaCommitter.commit_status

    def status_so(self: Any, batch: Any) -> Any:
        known = self.context.checkpoint.latest("state") or {"state": ""}
        return replace(status(self, batch), state=known["state"])

    KafkaCommitter.commit_status = status_so


def delete_before_commit() -> None:
    """Files that a batch does not need any more are deleted when its manifest is written."""
    from penstock.engine.runs.flows import FlowRun
    from penstock.flow.state.manifest import Manifest

    run = FlowRun.run

    def run_so(self: Any, batch: Any, frame: Any, folder: str, state: str) -> Any:
        attempt = run(self, batch, frame, folder, state)
        storage = self._states.storage
        before, after = (Manifest.read(storage, each) for each in (state, attempt.state))
        for file in before.files() - after.files():
            storage.delete(file)
        return attempt

    FlowRun.run = run_so


def attempt_unbound() -> None:
    """A batch that is in one of two targets is computed again for the other."""
    from penstock.engine.runs.flows import FlowRun, _Operators

    def kept(self: Any, batch: Any, state: str) -> Any:
        flow: FlowRun = self.flow
        storage = flow._states.storage
        names = [each.name for each in storage.files() if each.name.endswith(".manifest")]
        (before,) = (each for each in names if each.startswith(f"{batch.id - 1:09d}-"))
        return flow.run(batch, self.given, self.folder, _reference(storage, before))

    _Operators.kept = kept


MUTATIONS = {
    each.__name__.replace("_", "-"): each
    for each in (
        skip_fencing,
        ignore_progress,
        accept_older_checkpoint,
        believe_aborted_progress,
        read_stable_progress,
        move_progress,
        record_outside,
        skip_settling,
        settle_as_aborted,
        settle_failed_as_aborted,
        settle_in_the_old_epoch,
        abort_in_the_old_epoch,
        offsets_outside,
        always_clean,
        always_one_writer,
        restart_when_fenced,
        start_unrefused,
        never_look,
        newer_ends,
        state_unverified,
        newest_state,
        state_outside,
        delete_before_commit,
        attempt_unbound,
    )
}

if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    MUTATIONS[sys.argv[1]]()
    from penstock.cli.main import main

    sys.exit(main(sys.argv[2:]))
