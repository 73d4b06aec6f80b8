"""``penstock txn`` and what it is made of, on real transactions: open, orphaned, hanging, hidden for lack of rights."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from penstock.cli.main import main
from penstock.delivery import Claim, Progress
from penstock.errors import AuthorizationError, KafkaError, UnknownOutcomeError
from penstock.kafka.inspection import (
    HeldBack,
    abort_hanging,
    abort_transaction,
    explain_unlisted,
    find_held_back,
    find_transactions,
    list_leaderless,
    read_owners,
)
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.ownership import write_progress
from penstock.kafka.produce import Producer
from penstock.kafka.progress import ProgressTopic, ensure_progress_topic
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode
from penstock.kafka.session import TRANSACTION, Session
from penstock.kafka.topics import create_topic
from penstock.kafka.transactions import TransactionClient, describe_transaction
from penstock_testing.services import KafkaCluster, Security
from penstock_testing.services.broker_config import render
from tests.sockets import nobody
from tests.waiting import eventually

PASSWORD = "a-password-nobody-may-see"
RECORDS = 3


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A broker with rights (admin has all, alice none), transaction.version 0, and no check by brokers of whether a
    partition was added to a transaction: that is what lets transactions hang."""
    properties = {
        "transaction.version": "0",
        "transaction.partition.verification.enable": "false",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    security = Security("SASL_PLAINTEXT", "PLAIN", {"admin": PASSWORD, "alice": PASSWORD})
    with KafkaCluster(properties=properties, security=security) as cluster:
        yield cluster


@dataclass
class Scene:
    """A cluster with topics of one test: ``out`` (2 partitions) and a progress topic, and ids with a prefix."""

    cluster: KafkaCluster
    session: Session
    prefix: str = field(default_factory=lambda: f"txn-{uuid.uuid4().hex[:8]}-")

    def __post_init__(self) -> None:
        self.out = f"{self.prefix}out"
        create_topic(self.session, self.out, partitions=2)
        self.progress: ProgressTopic = ensure_progress_topic(self.session, f"{self.prefix}progress", partitions=1)

    def open(self, name: str, claim: Claim | None, partitions: tuple[int, ...] = (0, 1)) -> TransactionClient:
        """A transaction of ``prefix + name`` that is left open, after a batch that was committed."""
        client = TransactionClient(self.session, self.prefix + name, 600_000)
        client.init()
        progress = Progress(name, 7, {"in": {"0": 70}}, {"in": {"0": 80}})
        for each in (claim, progress) if claim else (progress,):
            client.begin()
            write_progress(self.session, client, self.progress, each)
            client.commit()
        client.begin()
        for partition in partitions:
            self.write(client, partition)
        return client

    def write(self, client: TransactionClient, partition: int, *, unannounced: bool = False) -> None:
        """Records within the client's transaction. ``unannounced``: as a request that comes too late does it, which
        the coordinator does not hear of."""
        (batch,) = encode(
            keys=None,
            values=pa.array([b"x"] * RECORDS, pa.binary()),
            timestamps=np.full(RECORDS, time.time_ns() // 1_000_000),
            partitions=np.zeros(RECORDS, np.int32),
        )
        with Producer(self.session, client.identity, transactional_id=client.transactional_id) as producer:
            if unannounced:
                producer._added.add((self.out, partition))
            producer.submit(self.out, partition, batch.data, batch.count)
            producer.flush()

    def done(self, name: str, claim: Claim | None = None, partitions: tuple[int, ...] = (0, 1)) -> TransactionClient:
        """A transaction of ``prefix + name`` that is committed in all of its partitions."""
        client = self.open(name, claim, partitions)
        client.commit()
        until = self.session.deadline()
        while self.states()[name] != "CompleteCommit":
            assert not until.passed
            time.sleep(0.01)
        return client

    def states(self) -> dict[str, str]:
        return {
            each.transactional_id.removeprefix(self.prefix): each.state
            for each in find_transactions(self.session, self.prefix, ended=True)
        }

    def held(self) -> list[HeldBack]:
        return find_held_back(self.session, [self.out])

    def readable(self) -> list[int]:
        """How far a read_committed reader of ``out`` gets in each partition."""
        places = [(self.out, 0), (self.out, 1)]
        found = list_offsets(self.session, places, LATEST, isolation="read_committed")
        return [each.offset for each in (found[place] for place in places) if each]

    def options(self, user: str | None = None) -> list[str]:
        settings = self.cluster.client_settings(user)
        given = [f"--property={key}={value}" for key, value in settings.items()]
        return [*given, "--progress-topic", self.progress.name]


def scenes(cluster: KafkaCluster) -> Iterator[Scene]:
    """A scene whose transactions are all ended afterwards: nothing holds back the tests that follow."""
    session = Session(ClientConfig.from_properties(cluster.client_settings()))
    made = Scene(cluster, session)
    yield made
    for each in find_transactions(session, made.prefix):
        if each.state == "Ongoing":
            abort_transaction(session, each)
    session.close()


@pytest.fixture
def plain(kafka: KafkaCluster) -> Iterator[Scene]:
    yield from scenes(kafka)


@pytest.fixture
def restricted(guarded: KafkaCluster) -> Iterator[Scene]:
    yield from scenes(guarded)


@pytest.fixture(params=["version 2", "version 0"])
def any_version(request: pytest.FixtureRequest) -> Scene:
    made: Scene = request.getfixturevalue("plain" if request.param == "version 2" else "restricted")
    return made


@dataclass(frozen=True)
class Shown:
    status: int
    out: str
    err: str

    def line(self, start: str) -> str:
        (found,) = [line for line in self.out.splitlines() if line.lstrip().startswith(start)]
        return found


@pytest.fixture
def txn(capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    def run(*arguments: str) -> Shown:
        capsys.readouterr()
        status = main(["txn", *arguments])
        out, err = capsys.readouterr()
        assert PASSWORD not in out + err
        return Shown(status, out, err)

    return run


def running() -> Claim:
    """The claim of this very process."""
    return Claim.from_this_process("run-of-a-running-query")


def gone() -> Claim:
    """The claim of a process of this host that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Claim("run-that-was-killed", socket.gethostname(), process.pid, time.time_ns() // 1_000_000)


class TestList:
    def test_open_transactions_their_owners_and_whom_they_hold_back(
        self, plain: Scene, txn: Callable[..., Shown]
    ) -> None:
        plain.open("query", running(), (0, 1))
        plain.open("orphan", gone(), (1,))
        shown = txn("list", "--prefix", plain.prefix, *plain.options())
        assert (shown.status, shown.err) == (0, "")
        me = f"process {os.getpid()} on {socket.gethostname()}"
        assert re.fullmatch(
            rf"{plain.prefix}query +Ongoing +\S.*? +10 min +\d+ +\d+ +{plain.out} 0-1 +{me}, runs",
            shown.line(f"{plain.prefix}query "),
        )
        assert re.fullmatch(
            rf"{plain.prefix}orphan +Ongoing +\S.*? +10 min +\d+ +\d+ +{plain.out} 1 +process \d+ on \S+, gone",
            shown.line(f"{plain.prefix}orphan "),
        )
        held = shown.out.partition("Read_committed readers wait")[2].splitlines()[2:]
        assert [re.sub(r" {2,}", "|", line).rpartition("|")[0] for line in held] == [
            f"{plain.out} 0|0|3|{plain.prefix}query",
            f"{plain.out} 1|0|6|{plain.prefix}query",
            f"|3|3|{plain.prefix}orphan",
        ]

    def test_nothing_is_open(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        plain.done("done")
        shown = txn("list", "--prefix", plain.prefix, *plain.options())
        assert (shown.status, shown.err) == (0, "")
        assert shown.out.splitlines() == [
            f"No open transactions of ids that start with '{plain.prefix}'",
            "No last stable offset is held back by them",
        ]
        ended = txn("list", "--all", "--prefix", plain.prefix, *plain.options())
        assert re.search(rf"{plain.prefix}done +CompleteCommit +- ", ended.out)

    def test_without_a_progress_topic_owners_are_not_known(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        plain.open("query", running())
        shown = txn("list", "--prefix", plain.prefix, *plain.options(), "--progress-topic", "nowhere")
        assert shown.line(f"{plain.prefix}query ").endswith("  not known")
        assert shown.err == "warning: owners are not known: progress topic 'nowhere' does not exist\n"

    def test_an_unreachable_cluster_is_one_error(self, txn: Callable[..., Shown]) -> None:
        with nobody() as address:
            shown = txn("list", "--bootstrap-servers", address, "--property", "default.api.timeout.ms=500")
        assert (shown.status, shown.out) == (1, "")
        assert re.fullmatch(rf"error: Kafka at {address} was not reached in [0-9.]+ s: nothing listens .*\n", shown.err)


class TestDescribe:
    def test_everything_that_is_known(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        client = plain.open("query", running())
        plain.open("orphan", gone(), (1,))
        shown = txn("describe", client.transactional_id, *plain.options())
        assert (shown.status, shown.err) == (0, "")
        assert shown.out.startswith(f"{client.transactional_id}\n")
        identity = client.identity
        assert shown.line("state").endswith(" Ongoing")
        assert shown.line("producer").endswith(f" id {identity.producer_id}, epoch {identity.epoch}")
        assert shown.line("coordinator").endswith(f" node 1, {plain.cluster.bootstrap}")
        assert re.search(r"10 min: left open, it is aborted at 20..-..-.. ..:..:.. UTC$", shown.line("timeout"))
        assert shown.line("partitions").endswith(f" {plain.out} 0-1")
        assert re.search(rf"run run-of-a-running-query \(process {os.getpid()} on .*, which runs$", shown.line("owner"))
        assert shown.line("last progress").endswith(
            'batch 7 of query \'query\' (from {"in":{"0":70}} to {"in":{"0":80}})'
        )
        assert f"{plain.out} 0 from offset 0 on: 3 of 3 are not readable" in shown.out
        both = txn("describe", "--prefix", plain.prefix, *plain.options())
        assert f"{plain.out} 1 from offset 3 on, once {client.transactional_id} has ended" in both.out

    def test_an_id_that_nobody_knows(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        shown = txn("describe", f"{plain.prefix}no-such-id", *plain.options())
        assert (shown.status, shown.out) == (1, "")
        assert f"no coordinator knows transactional id '{plain.prefix}no-such-id'" in shown.err


class TestAbort:
    def test_an_orphan_is_aborted_and_readers_go_on(self, any_version: Scene, txn: Callable[..., Shown]) -> None:
        scene = any_version
        client = scene.open("orphan", gone())
        assert scene.readable() == [0, 0]
        shown = txn("abort", client.transactional_id, "--yes", *scene.options())
        assert (shown.status, shown.err) == (0, "")
        assert f"aborted '{client.transactional_id}' in 2 partitions" in shown.out
        assert "is fenced" in shown.out
        assert scene.readable() == [RECORDS + 1, RECORDS + 1]  # with the marker of the abort
        assert scene.held() == []
        assert scene.states() == {"orphan": "Empty"}
        with pytest.raises(UnknownOutcomeError, match=r"INVALID_PRODUCER_EPOCH|PRODUCER_FENCED"):
            client.commit()

    def test_the_id_of_a_running_query_is_refused_unless_forced(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        client = plain.open("query", running())
        shown = txn("abort", client.transactional_id, "--yes", *plain.options())
        assert shown.status == 1
        assert f"'{client.transactional_id}' is left alone: its owner runs: run run-of-a-running-query" in shown.err
        assert plain.states() == {"query": "Ongoing"}
        forced = txn("abort", client.transactional_id, "--yes", "--force", *plain.options())
        assert (forced.status, forced.err) == (0, "")
        assert plain.states() == {"query": "Empty"}

    @pytest.mark.parametrize(
        ("claim", "reason"),
        [
            (
                lambda: Claim("run", "another-host", os.getpid(), 0),
                "its owner may run on another host: run run (process",
            ),
            (lambda: None, "it is not known whether its owner runs (no claim in topic"),
        ],
    )
    def test_where_it_cannot_be_told_whether_the_owner_runs_it_is_left_alone(
        self, plain: Scene, txn: Callable[..., Shown], claim: Callable[[], Claim | None], reason: str
    ) -> None:
        client = plain.open("query", claim())
        shown = txn("abort", client.transactional_id, "--yes", *plain.options())
        assert shown.status == 1
        assert reason in shown.err
        assert plain.states() == {"query": "Ongoing"}

    def test_a_later_process_with_the_same_number_is_not_the_owner(
        self, plain: Scene, txn: Callable[..., Shown]
    ) -> None:
        before_this_process = Claim("run", socket.gethostname(), os.getpid(), 1_000_000)
        client = plain.open("orphan", before_this_process)
        shown = txn("abort", client.transactional_id, "--yes", *plain.options())
        assert (shown.status, shown.err) == (0, "")
        assert plain.states() == {"orphan": "Empty"}

    def test_a_prefix_aborts_what_is_open_and_has_no_owner(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        plain.open("a-orphan", gone())
        plain.open("a-query", running())
        plain.done("a-done", gone())
        plain.open("b-orphan", gone())
        shown = txn("abort", "--prefix", f"{plain.prefix}a-", "--yes", *plain.options())
        assert shown.status == 1  # one was refused
        states = {"a-orphan": "Empty", "a-query": "Ongoing", "a-done": "CompleteCommit", "b-orphan": "Ongoing"}
        assert plain.states() == states
        assert "a-done" not in shown.out + shown.err

    def test_nothing_to_abort(self, plain: Scene, txn: Callable[..., Shown]) -> None:
        client = plain.done("done", gone())
        shown = txn("abort", client.transactional_id, *plain.options())
        assert (shown.status, shown.err) == (0, "")
        assert f"'{client.transactional_id}' has no open transaction (CompleteCommit)" in shown.out
        shown = txn("abort", "--prefix", plain.prefix, *plain.options())
        assert (shown.status, shown.out, shown.err) == (
            0, f"No open transactions of ids that start with '{plain.prefix}'\n", ""
        )  # fmt: skip

    def test_what_was_shown_is_aborted_and_nothing_that_came_after_it(self, plain: Scene) -> None:
        client = plain.open("query", running())
        (shown,) = find_transactions(plain.session, plain.prefix)
        client.commit()
        client.begin()
        plain.write(client, 0)
        with pytest.raises(KafkaError, match=r"was not aborted: it has ended meanwhile"):
            abort_transaction(plain.session, shown)
        client.commit()

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ((), "name transactional ids, or give --prefix P"),
            (("an-id", "--prefix", "a"), "and not both"),
            (("--prefix", ""), "every transaction"),
            (("--hanging", "topic", "--yes"), "'topic': expected a topic, a dash and a partition's number"),
            (("--hanging", "t-0", "an-id"), "--hanging: cannot be combined"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(
        self, plain: Scene, txn: Callable[..., Shown], arguments: tuple[str, ...], problem: str
    ) -> None:
        shown = txn("abort", *arguments, *plain.options())
        assert (shown.status, shown.out) == (2, "")
        assert problem in shown.err


class TestProcess:
    """The command as it is started from a shell."""

    def start(self, scene: Scene, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "penstock.cli.main", "txn", *arguments, *scene.options()]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **streams)

    def test_without_a_terminal_nothing_is_aborted_unasked(self, plain: Scene) -> None:
        client = plain.open("orphan", gone())
        process = self.start(plain, "abort", client.transactional_id, stdin=subprocess.DEVNULL)
        out, err = process.communicate()
        assert process.returncode == 2
        assert client.transactional_id in out
        assert "there is no terminal" in err
        assert "--yes" in err
        assert plain.states() == {"orphan": "Ongoing"}

    @pytest.mark.parametrize(("answer", "status", "state"), [("n", 1, "Ongoing"), ("y", 0, "Empty")])
    def test_on_a_terminal_it_asks(self, plain: Scene, answer: str, status: int, state: str) -> None:
        client = plain.open("orphan", gone())
        ours, theirs = pty.openpty()
        try:
            process = self.start(plain, "abort", client.transactional_id, stdin=theirs)
            os.write(ours, answer.encode() + b"\n")
            out, err = process.communicate()
        finally:
            os.close(ours)
            os.close(theirs)
        assert (process.returncode, err) == (status, "")
        assert "Abort 1 transaction? [y/N]" in out
        assert plain.states() == {"orphan": state}


class TestHanging:
    def hang(self, scene: Scene) -> TransactionClient:
        """What a produce request leaves behind that arrives after the transaction has ended."""
        client = scene.done("late", running(), (1,))
        scene.write(client, 0, unannounced=True)
        return client

    def test_it_is_told_apart_and_ended(self, restricted: Scene, txn: Callable[..., Shown]) -> None:
        client = self.hang(restricted)
        assert find_transactions(restricted.session, restricted.prefix) == []
        (held,) = restricted.held()
        (holder,) = held.holders
        assert (held.partition, held.records, holder.hanging) == (0, RECORDS, True)
        assert holder.producer_id == client.identity.producer_id

        shown = txn("list", *restricted.options())
        assert re.search(
            rf"{restricted.out} 0 +0 +3 +{client.transactional_id}, hanging: not open at its coordinator \(producer "
            rf"{holder.producer_id}, epoch {holder.epoch}\)",
            shown.out,
        )
        assert f"penstock txn abort --hanging {restricted.out}-0" in shown.out

        shown = txn("abort", "--hanging", f"{restricted.out}-0", "--yes", *restricted.options())
        assert (shown.status, shown.err) == (0, "")
        assert restricted.held() == []
        assert restricted.readable()[0] == RECORDS + 1
        again = txn("abort", "--hanging", f"{restricted.out}-0", *restricted.options())
        assert (again.status, again.out) == (0, f"No hanging transactions in topic '{restricted.out}', partition 0\n")
        with pytest.raises(KafkaError, match="has no hanging transaction there that begins at offset 0"):
            abort_hanging(restricted.session, held, holder)

    def test_what_is_in_work_is_never_ended_so(self, restricted: Scene, txn: Callable[..., Shown]) -> None:
        restricted.open("query", running())
        (held, _) = restricted.held()
        with pytest.raises(KafkaError, match="has no hanging transaction there"):
            abort_hanging(restricted.session, held, held.holders[0])
        shown = txn("abort", "--hanging", f"{restricted.out}-0", "--yes", *restricted.options())
        assert shown.out == f"No hanging transactions in topic '{restricted.out}', partition 0\n"
        assert restricted.states() == {"query": "Ongoing"}

    def test_who_cannot_see_every_id_cannot_tell_what_hangs(
        self, restricted: Scene, alice: Callable[..., None], txn: Callable[..., Shown]
    ) -> None:
        restricted.open("query", running(), (0,))
        alice(ResourceType.TOPIC, restricted.prefix, ACLOperation.READ)
        shown = txn("abort", "--hanging", f"{restricted.out}-0", "--yes", *restricted.options("alice"))
        assert shown.status == 1
        assert (
            "hanging transactions look like those of ids that are not listed: this principal may not describe all"
            in shown.err
        )
        assert restricted.states() == {"query": "Ongoing"}

    def test_ending_it_needs_a_right_on_the_cluster(
        self, restricted: Scene, alice: Callable[..., None], txn: Callable[..., Shown]
    ) -> None:
        self.hang(restricted)
        alice(ResourceType.TOPIC, restricted.prefix, ACLOperation.READ)
        alice(ResourceType.TRANSACTIONAL_ID, "*", ACLOperation.DESCRIBE)
        arguments = ("abort", "--hanging", f"{restricted.out}-0", "--yes")
        shown = txn(*arguments, *restricted.options("alice"))
        assert shown.status == 1
        assert re.search(r"error: aborting a hanging transaction: CLUSTER_AUTHORIZATION_FAILED", shown.err)
        assert len(restricted.held()) == 1
        alice(ResourceType.CLUSTER, "kafka-cluster", ACLOperation.ALTER)
        assert txn(*arguments, *restricted.options("alice")).status == 0
        assert restricted.held() == []


@pytest.mark.slow
def test_a_lost_broker_hides_what_it_coordinated_and_this_is_said(txn: Callable[..., Shown]) -> None:
    properties = {
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "transaction.state.log.num.partitions": "6",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with KafkaCluster(3, properties=properties) as cluster:
        session = Session(ClientConfig.from_properties(cluster.client_settings()))
        scene = Scene(cluster, session)
        clients = [scene.open(f"query-{number}", running(), (0,)) for number in range(3)]
        homes = {
            each.transactional_id: session.coordinator(TRANSACTION, each.transactional_id, session.deadline())
            for each in clients
        }
        assert {each.transactional_id for each in find_transactions(session, scene.prefix)} == set(homes)
        assert len(set(homes.values())) > 1
        lost = homes[clients[0].transactional_id]
        assert isinstance(lost, int)
        cluster.kill(lost)
        until = session.deadline()
        while not any(topic == "__transaction_state" for topic, _ in list_leaderless(session)):
            assert not until.passed
            time.sleep(0.05)
        shown = txn("list", *scene.options())
        assert (shown.status, session.close()) == (0, None)
    listed = {name for name in homes if f"{name} " in shown.out.partition("Read_committed")[0]}
    assert listed == {name for name, home in homes.items() if home != lost}
    assert "partitions of '__transaction_state' have no leader" in shown.err
    assert re.search(r"left out, because they have no leader: .*__transaction_state \d", shown.err)
    # Those that are not listed hold readers back nevertheless, and are not taken for hanging.
    assert re.search(r" producer \d+, epoch \d+: hanging, or of an id that is not listed ", shown.out)
    assert "--hanging" not in shown.out


class TestRights:
    def test_without_describe_there_is_one_error(self, restricted: Scene, txn: Callable[..., Shown]) -> None:
        client = restricted.open("query", running())
        for arguments in (
            ("list",),
            ("list", "--prefix", restricted.prefix),
            ("describe", "--prefix", restricted.prefix),
        ):
            shown = txn(*arguments, *restricted.options("alice"))
            assert (shown.status, shown.out) == (1, "")
            assert re.fullmatch(
                r"error: no transactional id is listed: this principal may not describe all .*grant it.*\n", shown.err
            )
        shown = txn("describe", client.transactional_id, *restricted.options("alice"))
        assert (shown.status, shown.out) == (1, "")
        assert re.fullmatch(r"error: .*TRANSACTIONAL_ID_AUTHORIZATION_FAILED.*\n", shown.err)

    def test_describe_suffices_to_look(
        self, restricted: Scene, alice: Callable[..., None], txn: Callable[..., Shown]
    ) -> None:
        restricted.open("query", running(), (0,))
        alice(ResourceType.TRANSACTIONAL_ID, restricted.prefix, ACLOperation.DESCRIBE)
        alice(ResourceType.TOPIC, restricted.out, ACLOperation.DESCRIBE)
        shown = txn("list", *restricted.options("alice"))
        assert shown.status == 0
        assert re.search(rf"^{restricted.prefix}query +Ongoing .* not known$", shown.out, re.MULTILINE)
        assert re.search(rf"^{restricted.out} 0 +0 +3 +{restricted.prefix}query ", shown.out, re.MULTILINE)
        warnings = shown.err.splitlines()
        assert [line.partition(":")[0] for line in warnings] == ["warning", "warning"]
        assert "may not describe all transactional ids" in warnings[0]
        assert f"owners are not known: progress topic '{restricted.progress.name}' cannot be read" in warnings[1]
        narrow = txn("list", "--prefix", restricted.prefix, *restricted.options("alice"))
        assert "may not describe all" not in narrow.err  # all that were asked for may be

        refused = txn("abort", f"{restricted.prefix}query", "--yes", "--force", *restricted.options("alice"))
        assert refused.status == 1
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in refused.err
        assert restricted.states() == {"query": "Ongoing"}

    def test_who_holds_back_is_said_to_be_unknown_where_it_is(
        self, restricted: Scene, alice: Callable[..., None]
    ) -> None:
        restricted.open("query", running(), (0,))
        alice(ResourceType.TOPIC, restricted.prefix, ACLOperation.DESCRIBE)
        session = Session(ClientConfig.from_properties(restricted.cluster.client_settings("alice")))
        (held,) = find_held_back(session, [restricted.out])
        assert (held.records, held.holders) == (RECORDS, ())
        assert "may not describe all" in explain_unlisted(session)
        assert "cannot be read" in read_owners(session, [f"{restricted.prefix}query"], restricted.progress.name).unknown
        with pytest.raises(AuthorizationError):
            describe_transaction(session, f"{restricted.prefix}query")
        session.close()

    def test_the_login_comes_from_a_file_and_stays_hidden(
        self, restricted: Scene, txn: Callable[..., Shown], tmp_path: Path
    ) -> None:
        restricted.open("query", running())
        settings = restricted.cluster.client_settings("admin")
        bootstrap = settings.pop("bootstrap.servers")
        file = tmp_path / "client.properties"
        file.write_text("# the login\n" + render(settings), "latin-1")
        given = ("--bootstrap", bootstrap, "--command-config", str(file), "--prefix", restricted.prefix)
        shown = txn("list", *given)
        assert f"{restricted.prefix}query" in shown.out
        file.write_text(render(settings).replace(PASSWORD, f"not-{PASSWORD}"), "latin-1")
        shown = txn("list", *given)
        assert (shown.status, shown.out) == (1, "")
        assert "SASL_AUTHENTICATION_FAILED" in shown.err


@pytest.fixture
def alice(guarded: KafkaCluster) -> Iterator[Callable[..., None]]:
    """Grants alice an operation on all of a kind whose names start with a prefix ("*": on all), until the test ends."""
    granted: list[ACL] = []
    with KafkaAdminClient(bootstrap_servers=guarded.plain_bootstrap) as admin:

        def grant(kind: ResourceType, prefix: str, operation: ACLOperation) -> None:
            whole = prefix == "*" or kind is ResourceType.CLUSTER
            match = ACLResourcePatternType.LITERAL if whole else ACLResourcePatternType.PREFIXED
            pattern = ResourcePattern(kind, prefix, match)
            granted.append(ACL("User:alice", "*", operation, ACLPermissionType.ALLOW, pattern))
            admin.create_acls(granted[-1:])
            known(granted[-1], 1)

        def known(acl: ACL, times: int) -> None:
            # The broker learns it from the controller, a moment later.
            eventually(lambda: len(admin.describe_acls(acl)[0]) == times)

        yield grant
        admin.delete_acls(granted)
        for each in granted:
            known(each, 0)
