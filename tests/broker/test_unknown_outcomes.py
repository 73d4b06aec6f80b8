"""Batches whose commit has no definite answer (rule "outcomes are never guessed"): the whole way of
:class:`KafkaCommitter`, before a broker behind a proxy that loses answers. Tasks are played by a producer in this
process."""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink import committer
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.errors import (
    CheckpointError,
    FencedError,
    PossibleDataLossError,
    TransactionExpiredError,
    UnknownOutcomeError,
)
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.produce import Producer, ProducerIdentity
from penstock.kafka.progress import read_progress
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import create_topic
from penstock.kafka.transactions import TransactionClient, describe_transaction
from penstock.settings import Settings
from penstock.spi import (
    Batch,
    Column,
    JobContext,
    NextBatch,
    Output,
    Published,
    TableDefinition,
    TaskResults,
    unpickle_text,
)
from penstock.types import BIGINT
from penstock_testing import Api, ProxiedCluster, Then, Trap
from tests.committers import Computed, Memory, acknowledged
from tests.waiting import eventually

if TYPE_CHECKING:
    from penstock.connectors.kafka.sink.writer import OpenTransaction

BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module", params=[2, 0], ids=["version 2", "version 0"])
def proxied(request: pytest.FixtureRequest) -> Iterator[ProxiedCluster]:
    properties = BROKER if request.param == 2 else BROKER | {"transaction.version": "0"}
    with ProxiedCluster(properties=properties) as cluster:
        with closing(Session(ClientConfig.from_properties({"bootstrap.servers": cluster.direct}))) as session:
            TransactionClient(session, "first", 60_000).init()  # what Kafka makes for the first id takes a while
        yield cluster


@dataclass
class Rows:
    """Plays the tasks: writes its batch's number ten times into each of two partitions."""

    session: Session
    topic: str
    writes: int = 0
    #: Called when all is written, before the driver goes on.
    then: Callable[[], object] = lambda: None

    def write(self, number: int, transaction: OpenTransaction) -> TaskResults:
        self.writes += 1
        with Producer(self.session, transaction.identity, transactional_id=transaction.transactional_id) as producer:
            for partition in (0, 1):
                (made,) = encode(
                    keys=None,
                    values=pa.array([str(number).encode()] * 10, pa.binary()),
                    timestamps=np.full(10, time.time_ns() // 1_000_000),
                    partitions=np.zeros(10, np.int32),
                )
                producer.submit(self.topic, partition, made.data, made.count)
            producer.flush()
        self.then()
        last = {"count": 10, "last_sequence": 9}
        acks = [acknowledged(self.topic, partition=partition, **last) for partition in (0, 1)]
        return TaskResults([*acks, acknowledged("", count=20, bytes=0)])


@dataclass(frozen=True)
class Tasks(Computed):
    """The tasks of the batch of that number."""

    rows_of: Rows = field(kw_only=True)
    number: int = field(kw_only=True)
    computed: bool = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        transaction = unpickle_text(instructions).transaction
        assert transaction is not None
        assert once
        return self.rows_of.write(self.number, transaction)


class NumberCommitter(KafkaCommitter):
    """Publishes numbers."""

    rows: Rows

    def publish(self, batch: Batch, tasks: Any) -> Published:
        return super().publish(batch, Tasks(rows_of=self.rows, number=tasks))


class Scene:
    """A job's committer on a topic of its own, and what readers of that topic see."""

    def __init__(self, cluster: ProxiedCluster, **properties: str):
        tag = uuid.uuid4().hex[:8]
        self.cluster, self.topic, self.transactional_id = cluster, f"out-{tag}", f"tx-{tag}-job"
        self.direct = Session(ClientConfig.from_properties({"bootstrap.servers": cluster.direct}))
        create_topic(self.direct, self.topic, partitions=2)
        self.properties = {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": tag,  # sessions are shared by settings: this one is the scene's
            **properties,
        }
        self.prefix, self.progress_topic = f"tx-{tag}", f"progress-{tag}"
        self.checkpoint, self.query_id = Memory(), str(uuid.uuid4())
        self.warnings: list[str] = []
        self.warn: Callable[[str], None] = self.warnings.append
        self.stopping: Callable[[], bool] = lambda: False

    def committer(self, next_batch: Callable[[], int] | None = None, **settings: Any) -> tuple[KafkaCommitter, Rows]:
        """A new run, opened. ``next_batch``: what its checkpoint goes on with, by default 0 at the first start and then
        one that no test gets to."""
        known = any(document for name, document in self.checkpoint.documents.items() if name.startswith("identity"))
        goes_on_with = next_batch or (lambda: 9 if known else 0)
        options = {
            "connector": "kafka",
            "topic": self.topic,
            "format": "json",
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": self.prefix,
            **{f"properties.{key}": value for key, value in self.properties.items()},
        }
        sink = KafkaConnector().sink(TableDefinition("t", (Column("n", BIGINT),), options))
        context = JobContext(
            job="job",
            query_id=self.query_id,
            run_id=str(uuid.uuid4()),
            checkpoint=self.checkpoint,
            settings=Settings(progress_topic=self.progress_topic, **settings),
            parallelism=1,
            spark=None,
            planned=True,
            next_batch=lambda: NextBatch(goes_on_with()),
            stopping=lambda: self.stopping(),  # noqa: PLW0108 - it may be replaced
            warn=lambda text: self.warn(text),  # noqa: PLW0108 - the same
        )
        rows = Rows(self.direct, self.topic)
        made = NumberCommitter([Output(0, "t", sink, sink.schema)], context)
        made.rows = rows
        made.open()
        self.transactional_id = made.transactional_id
        return made, rows

    def give_up_soon(self, *, patience_ms: int = 1000) -> None:
        """From now on a request is given up after 0.4 s and an operation with all its attempts after 1 s; and finding
        out what became of a batch after ``patience_ms``."""
        session = session_for(ClientConfig.from_properties(self.properties))
        session.config = replace(
            session.config, request_timeout_ms=400, default_api_timeout_ms=1000, delivery_timeout_ms=patience_ms
        )

    def rename(self) -> None:
        """Let later runs ask for another transactional id."""
        self.prefix += "-new"

    def trap(self, api: Api, **options: Any) -> Trap:
        return self.cluster.add(Trap(api, times=None, **options))

    def seen(self) -> list[int]:
        """What read_committed readers see, of each partition in turn."""
        found = []
        for partition in (0, 1):
            place = (self.topic, partition)
            end = list_offsets(self.direct, [place], LATEST, isolation="read_committed")[place]
            assert end is not None
            for chunk in Fetcher(self.direct, [Range(*place, 0, end.offset)], isolation="read_committed"):
                records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
                found += [int(value) for value in records.values.to_pylist()]
        return found

    def expect(self, *batches: int) -> None:
        """Each of these batches is there once, whole, and nothing else."""
        eventually(self.ended)
        assert self.seen() == [number for number in batches for _ in range(10)] * 2

    def ended(self) -> bool:
        seen = describe_transaction(self.direct, self.transactional_id)
        return seen is not None and seen.state in {"CompleteCommit", "CompleteAbort", "Empty"}


@pytest.fixture
def scene(proxied: ProxiedCluster) -> Iterator[Scene]:
    made = Scene(proxied)
    yield made
    proxied.heal()
    made.direct.close()


def batch(number: int) -> Batch:
    return Batch(number, ({"at": number} if number else None,), ({"at": number + 1},), tasks=1)


@pytest.mark.rule("outcomes are never guessed")
class TestOutcomesAreNeverGuessed:
    """Batch 0 is committed; the commit of batch 1 gets no answer, or does not arrive."""

    def lose(self, scene: Scene, *, answers: bool) -> Trap:
        """Every commit from now on, or the answers to them."""
        return scene.trap(Api.END_TXN, contains=[scene.transactional_id], response=answers, then=Then.DROP)

    def lose_after(self, scene: Scene, lost: Trap, step: str) -> Trap:
        """The answers to one step of finding out what became of the commit."""
        if step == "describing":
            return scene.trap(Api.DESCRIBE_TRANSACTIONS, response=True, after=lost, then=Then.DROP)
        if step == "reading before":
            return scene.trap(Api.LIST_OFFSETS, response=True, after=lost, then=Then.DROP)
        taken = scene.trap(
            Api.INIT_PRODUCER_ID,
            contains=[scene.transactional_id],
            response=True,
            after=lost,
            then=Then.DROP if step == "taking the id" else Then.FORWARD,
        )
        if step == "taking the id":
            return taken
        api = Api.LIST_OFFSETS if step == "listing offsets" else Api.FETCH
        return scene.trap(api, response=True, after=taken, then=Then.DROP)

    steps = pytest.mark.parametrize(
        "step", ["describing", "reading before", "taking the id", "listing offsets", "fetching"]
    )
    outcomes = pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])

    @steps
    @pytest.mark.parametrize(
        "committed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["committed", "not committed"]
    )
    def test_it_stays_unknown_until_progress_was_read(self, scene: Scene, committed: bool, step: str) -> None:
        committer, rows = scene.committer()
        committer.publish(batch(0), 0)
        scene.give_up_soon()
        lost = self.lose(scene, answers=committed)
        unread = self.lose_after(scene, lost, step)
        with pytest.raises(
            UnknownOutcomeError, match=r"whether batch 1 was committed is not known: .* no (success|progress)"
        ):
            committer.publish(batch(1), 1)
        assert lost.sprung
        assert unread.sprung
        assert rows.writes == 2
        scene.cluster.heal()
        scene.properties["client.id"] += "-again"
        again, rows = scene.committer()
        assert again.publish(batch(1), 1).skipped == committed
        again.publish(batch(2), 2)
        scene.expect(0, 1, 2)

    @pytest.mark.parametrize(
        "step",
        [
            pytest.param("describing", marks=pytest.mark.slow),
            pytest.param("reading before", marks=pytest.mark.slow),
            "taking the id",
            pytest.param("listing offsets", marks=pytest.mark.slow),
            "fetching",
        ],
    )
    def test_the_job_goes_on_when_it_can_be_read_again(self, scene: Scene, step: str) -> None:
        committer, rows = scene.committer()
        committer.publish(batch(0), 0)
        scene.give_up_soon(patience_ms=60_000)
        lost = self.lose(scene, answers=True)
        unread = self.lose_after(scene, lost, step)

        def heal(warning: str) -> None:
            scene.warnings.append(warning)
            scene.cluster.heal()

        scene.warn = heal
        assert not committer.publish(batch(1), 1).skipped
        assert lost.sprung
        assert unread.sprung
        assert "whether batch 1 was committed is not known yet" in scene.warnings[0]
        assert rows.writes == 2
        committer.publish(batch(2), 2)
        scene.expect(0, 1, 2)

    @outcomes
    def test_it_is_found_out(self, scene: Scene, committed: bool) -> None:
        committer, rows = scene.committer()
        committer.publish(batch(0), 0)
        scene.give_up_soon(patience_ms=60_000)
        lost = self.lose(scene, answers=committed)
        scene.cluster.add(
            Trap(Api.DESCRIBE_TRANSACTIONS, after=lost, call=lambda _: lost.release())
        )  # the redone batch is committed
        committer.publish(batch(1), 1)
        assert lost.sprung
        assert rows.writes == (2 if committed else 3)
        committer.publish(batch(2), 2)
        scene.expect(0, 1, 2)

    def test_a_job_that_is_stopped_does_not_wait_for_it(self, scene: Scene) -> None:
        committer, _ = scene.committer()
        committer.publish(batch(0), 0)
        scene.give_up_soon(patience_ms=60_000)
        lost = self.lose(scene, answers=True)
        unread = self.lose_after(scene, lost, "describing")
        scene.stopping = lambda: lost.sprung
        with pytest.raises(UnknownOutcomeError):
            committer.publish(batch(1), 1)
        assert unread.sprung
        (warning,) = scene.warnings  # of a job that was asked to stop nobody asks for errors
        assert warning.startswith("whether batch 1 was committed is not known: ")


class TestExpiry:
    """A transaction that takes longer than its time-out, in a job that lives."""

    @pytest.fixture
    def hasty(self, scene: Scene) -> Scene:
        scene.properties["transaction.timeout.ms"] = "1000"
        return scene

    def outlast(self, scene: Scene) -> None:
        eventually(
            lambda: (
                (seen := describe_transaction(scene.direct, scene.transactional_id)) and seen.state == "CompleteAbort"
            )
        )

    def test_before_the_progress_record(self, hasty: Scene) -> None:
        committer, rows = hasty.committer()
        committer.publish(batch(0), 0)
        slow = [True]
        rows.then = lambda: self.outlast(hasty) if slow.pop() else None
        slow.insert(0, False)
        committer.publish(batch(1), 1)
        assert rows.writes == 3
        (warning,) = hasty.warnings
        assert re.search(r"batch 1 is retried: batch 1: its transaction was open for \d+\.\d s", warning)
        assert "longer than transaction.timeout.ms, which is 1000; nothing of it was published" in warning
        assert "Raise 'properties.transaction.timeout.ms' of the sink" in warning
        hasty.expect(0, 1)

    @pytest.mark.parametrize("api", [Api.END_TXN, Api.PRODUCE], ids=["EndTxn", "progress record"])
    def test_while_a_request_is_on_its_way(self, hasty: Scene, api: Api) -> None:
        committer, rows = hasty.committer()
        committer.publish(batch(0), 0)
        late = hasty.cluster.add(
            Trap(api, contains=[hasty.transactional_id], call=lambda _: self.outlast(hasty))
        )  # tasks go past the proxy
        committer.publish(batch(1), 1)
        assert late.sprung
        assert rows.writes == 3
        assert "which is 1000; nothing of it was published" in hasty.warnings[0]
        hasty.expect(0, 1)

    def test_each_time(self, hasty: Scene) -> None:
        committer, rows = hasty.committer()
        rows.then = lambda: self.outlast(hasty)
        with pytest.raises(
            TransactionExpiredError, match=r"or make batches smaller with 'scan\.max-records-per-trigger'"
        ):
            committer.publish(batch(0), 0)
        assert rows.writes == 3
        hasty.expect()


@pytest.mark.rule("one identity per job")
class TestOneIdentityPerJob:
    """A checkpoint keeps its transactional id."""

    def test_the_id_stays_when_the_prefix_is_changed(self, scene: Scene) -> None:
        former = scene.transactional_id
        scene.committer()[0].publish(batch(0), 0)
        scene.rename()
        committer, _ = scene.committer()
        assert committer.transactional_id == former
        assert [each for each in scene.warnings if f"transactional id stays '{former}'" in each]
        committer.publish(batch(1), 1)
        assert describe_transaction(scene.direct, f"{scene.prefix}-job") is None
        scene.expect(0, 1)

    def test_of_copies_with_different_prefixes_that_start_at_once_one_publishes(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The copy is started and has published before this one has taken the id."""
        copies = []

        def start_a_copy(client: TransactionClient) -> ProducerIdentity:
            monkeypatch.undo()
            scene.rename()
            copies.append(scene.committer()[0])
            copies[0].publish(batch(0), 0)
            return client.init()

        monkeypatch.setattr(TransactionClient, "init", start_a_copy)
        committer, _ = scene.committer()
        with pytest.raises(FencedError, match="was taken over by run"):
            copies[0].publish(batch(1), 1)
        committer.publish(batch(1), 1)
        scene.expect(0, 1)

    def test_adopting_progress_changes_neither_the_id_nor_a_progress_topic_that_is_there(self, scene: Scene) -> None:
        former, topic = scene.transactional_id, scene.progress_topic
        scene.committer()[0].publish(batch(0), 0)
        scene.rename()
        scene.progress_topic = f"{topic}-new"
        committer, _ = scene.committer(adopt_progress=True)
        assert committer.transactional_id == former
        assert [each for each in scene.warnings if f"progress topic stays '{topic}'" in each]
        assert scene.direct.topics([scene.progress_topic]) == {}
        assert committer.publish(batch(0), 0).skipped
        scene.expect(0)

    def test_of_copies_with_different_progress_topics_that_start_at_once_one_publishes(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The copy is started and has published when this one has found its topic."""
        copies, original = [], committer.ensure_progress_topic

        def overtaken(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            if not copies:
                copies.append(scene)
                scene.progress_topic += "-new"
                copies[:] = [scene.committer()[0]]
                copies[0].publish(batch(0), 0)
            return found

        monkeypatch.setattr(committer, "ensure_progress_topic", overtaken)
        with pytest.raises(FencedError, match="with another progress topic") as raised:
            scene.committer()
        assert raised.value.winner == f"process {os.getpid()} on {socket.gethostname()}"
        assert f", {raised.value.winner}, was started on" in str(raised.value)
        assert f"with another progress topic, '{scene.progress_topic}'" in str(raised.value)
        copies[0].publish(batch(1), 1)
        scene.expect(0, 1)


def test_a_start_with_an_older_checkpoint_does_not_take_the_id(scene: Scene) -> None:
    """Another run may be well."""
    first, _ = scene.committer()
    for number in range(3):
        first.publish(batch(number), number)
    with pytest.raises(CheckpointError, match=r"continues with batch 1 .* but batch 2 .* was published already"):
        scene.committer(lambda: 1)
    first.publish(batch(3), 3)
    scene.expect(0, 1, 2, 3)


def test_a_start_beside_a_run_that_publishes_meanwhile_takes_over(scene: Scene) -> None:
    """Both have the same checkpoint, which goes on with what the former run has done since this one has looked."""
    first, _ = scene.committer()
    first.publish(batch(0), 0)
    done = [0]

    def next_batch() -> int:
        return done[-1] + 1

    def publish_more(session: Any, *args: Any, **more: Any) -> Any:
        for number in range(1, 4) if done == [0] else ():
            first.publish(batch(number), number)
            done.append(number)
        return read_progress(session, *args, **more)

    with mock.patch.object(committer, "read_progress", publish_more):
        second, _ = scene.committer(next_batch)
    assert done == [0, 1, 2, 3]
    with pytest.raises(FencedError, match="taken over by"):
        first.publish(batch(4), 4)
    second.publish(batch(4), 4)
    scene.expect(0, 1, 2, 3, 4)


def test_a_sink_that_comes_to_a_job_begins_when_progress_is_adopted(scene: Scene) -> None:
    """As when the guarantee is changed. That its progress was lost would look the same."""
    committer, _ = scene.committer(lambda: 5)
    with pytest.raises(CheckpointError, match=r"sink was added to the job with this batch.*--adopt-progress"):
        committer.publish(batch(5), 5)
    committer, _ = scene.committer(lambda: 5, adopt_progress=True)
    committer.publish(batch(5), 5)
    again, _ = scene.committer(lambda: 5)
    assert again.publish(batch(5), 5).skipped
    again.publish(batch(6), 6)
    scene.expect(5, 6)


def test_a_sink_that_was_left_out_for_a_while_comes_back_when_progress_is_adopted(scene: Scene) -> None:
    committer, _ = scene.committer()
    committer.publish(batch(0), 0)
    committer, _ = scene.committer(lambda: 5)
    with pytest.raises(PossibleDataLossError, match=r"ran without this sink for a while.*--adopt-progress"):
        committer.publish(batch(5), 5)
    committer, _ = scene.committer(lambda: 5, adopt_progress=True)
    committer.publish(batch(5), 5)
    with pytest.raises(PossibleDataLossError, match="ran without this sink"):
        committer.publish(batch(8), 8)  # what this run has published is there
    scene.expect(0, 5)


def epoch_of(scene: Scene, transactional_id: str) -> tuple[int, int]:
    seen = describe_transaction(scene.direct, transactional_id)
    assert seen is not None
    return seen.producer_id, seen.epoch


@pytest.fixture(params=[2, 0], ids=["version 2", "version 0"])
def forgetful(request: pytest.FixtureRequest) -> Iterator[ProxiedCluster]:
    """A broker that forgets idle transactional ids quickly."""
    properties = {
        "transactional.id.expiration.ms": "3000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    }
    with ProxiedCluster(
        properties=properties | ({} if request.param == 2 else {"transaction.version": "0"})
    ) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.rule("forgotten ids prove nothing")
def test_a_job_whose_idle_id_was_forgotten_goes_on(forgetful: ProxiedCluster) -> None:
    """What the coordinator has forgotten is evidence of nothing: progress decides."""
    scene = Scene(forgetful)
    committer, _ = scene.committer()
    for number in range(3):
        committer.publish(batch(number), number)
        eventually(lambda: describe_transaction(scene.direct, scene.transactional_id) is None)
    assert scene.seen() == [number for number in range(3) for _ in range(10)] * 2
    again, _ = scene.committer()
    assert again.publish(batch(2), 2).skipped
    scene.direct.close()
