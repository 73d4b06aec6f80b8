"""Several targets of a job with state, in every order of events: crashes, and runs that take over at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from penstock.delivery import Delivered, deliver
from penstock.errors import AbortableError, CheckpointError, FencedError
from penstock.spi import Batch, CommitStatus, Committer, Published, WriterFactory, WriteTasks
from tests.committers import Computed

BATCHES = 2


class Crashed(Exception):
    """The process of a run is gone."""


@dataclass
class System:
    """A system that batches are committed to: its owner, and what was committed."""

    owner: str = ""
    committed: list[tuple[int, str]] = field(default_factory=list)

    def state_after(self, batch: int) -> str | None:
        return next((state for number, state in reversed(self.committed) if number == batch), None)


@dataclass
class World:
    """What outlives a run. ``choose`` says what happens at a step: nothing (0), a crash, or that another run takes
    over and goes on to its end."""

    choose: Callable[[int], int]
    systems: dict[str, System]
    repeating: list[tuple[int, str]] = field(default_factory=list)
    done: int = -1
    #: The batch of each attempt, the state that it began with, and whether its output is there.
    attempts: dict[str, tuple[int, str, bool]] = field(default_factory=dict)
    #: The targets that repeat batches, by name: those of each attempt, and what each was given.
    made_for: dict[str, frozenset[str]] = field(default_factory=dict)
    given: dict[str, list[int]] = field(default_factory=dict)
    runs: int = 0
    crashes: int = 0

    def step(self) -> None:
        choice = self.choose(3) if self.runs < 3 else 0
        if choice == 1:
            raise Crashed
        if choice == 2:
            start(self)


@dataclass
class Keeper(Committer):
    """A target that commits the state, and is all or nothing."""

    world: World
    run: str
    system: System
    #: What it found when it was opened, or has committed since.
    last: tuple[int, str] | None = None
    keeps_state = True

    def open(self) -> None:
        self.system.owner = self.run
        self.last = self.system.committed[-1] if self.system.committed else None

    def commit_status(self, batch: Batch) -> CommitStatus:
        if self.last is not None and self.last[0] == batch.id:
            return CommitStatus(True, self.last[1])
        if batch.id == 0:
            return CommitStatus(False, "")
        return CommitStatus(False, self.last[1] if self.last and self.last[0] == batch.id - 1 else None)

    def check_owner(self) -> None:
        if self.system.owner != self.run:
            raise FencedError("another run has taken over")

    def writers(self) -> WriterFactory:
        raise NotImplementedError

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        self.world.step()
        self.check_owner()
        self.last = (batch.id, tasks.state)
        self.system.committed.append(self.last)
        self.world.step()
        return Published()


@dataclass
class Repeater(Committer):
    """A target that takes every batch that it is given."""

    world: World
    name: str = "repeater"

    def writers(self) -> WriterFactory:
        raise NotImplementedError

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        self.world.step()
        self.world.repeating.append((batch.id, tasks.state))
        self.world.given.setdefault(self.name, []).append(batch.id)
        return Published()


@dataclass(frozen=True)
class Made:
    state: str

    def tasks(self, target: int) -> Computed:
        return Computed(self.state)


@dataclass
class Counted:
    """Operators that number their attempts."""

    world: World
    run_id: str
    keeps: bool = True
    repeaters: frozenset[str] = frozenset({"repeater"})
    keeps_rows = True

    def run(self, batch: Batch, state: str) -> Made:
        name = f"attempt-{len(self.world.attempts)}"
        self.world.attempts[name] = (batch.id, state, self.keeps)
        self.world.made_for[name] = self.repeaters
        self.world.step()
        return Made(name)

    def kept(self, batch: Batch, state: str) -> Made:
        number, _, there = self.world.attempts[state]
        if not there:
            raise CheckpointError("the output is not there")
        assert number == batch.id
        return Made(state)

    def check_repeating(self, batch: Batch, state: str) -> None:
        if not self.repeaters <= self.world.made_for[state]:
            raise CheckpointError("made for other tables")


def batch(number: int) -> Batch:
    return Batch(number, (None,), ({"at": number},), 1)


def start(world: World, operators: Callable[[World, str], Counted] = Counted) -> None:
    """One run, to its end."""
    world.runs += 1
    run = f"run-{world.runs}"
    keepers = [Keeper(world, run, system) for system in world.systems.values()]
    for keeper in keepers:
        keeper.open()
        world.step()
    targets = [keepers[0], Repeater(world), *keepers[1:]]
    try:
        while (number := world.done + 1) < BATCHES:
            deliver(batch(number), targets, operators(world, run))
            world.step()
            world.done = max(world.done, number)
    except FencedError:
        return


def histories(keepers: int, most: int) -> Iterator[World]:
    """The world after every history with at most so many events in which something happens."""
    open_prefixes: list[tuple[int, ...]] = [()]
    while open_prefixes:
        prefix = open_prefixes.pop()
        asked: list[int] = []

        def choose(count: int, prefix: tuple[int, ...] = prefix, asked: list[int] = asked) -> int:
            number = len(asked)
            asked.append(count)
            return prefix[number] if number < len(prefix) else 0

        world = World(choose, {f"system-{number}": System() for number in range(keepers)})
        while world.done < BATCHES - 1:
            try:
                start(world)
            except Crashed:
                world.crashes += 1
        yield world
        if sum(1 for each in prefix if each) < most:
            for number in range(len(prefix), len(asked)):
                open_prefixes += [(*prefix, *(0 for _ in range(number - len(prefix))), each) for each in (1, 2)]


@pytest.mark.rule("the first commit binds the attempt")
@pytest.mark.parametrize("keepers", [1, 2, 3])
def test_every_target_has_one_attempt_of_each_batch_whatever_happens(keepers: int) -> None:
    seen = 0
    for world in histories(keepers, most=2):
        seen += 1
        before = ""
        for number in range(BATCHES):
            committed = {system.state_after(number) for system in world.systems.values()}
            assert len(committed) == 1, f"batch {number} was committed as {committed}"
            (state,) = committed
            assert state is not None
            assert world.attempts[state][:2] == (number, before), "it was made from another state"
            assert (number, state) in world.repeating, "a target that repeats batches lacks it"
            before = state
        for system in world.systems.values():
            assert [number for number, _ in system.committed] == list(range(BATCHES)), "a batch was committed twice"
    assert seen > 300


@pytest.mark.rule("the first commit binds the attempt")
@pytest.mark.parametrize("keepers", [1, 2])
def test_a_run_that_was_taken_over_while_its_operators_ran_repeats_no_batch(keepers: int) -> None:
    world = World(lambda count: 0, {f"system-{number}": System() for number in range(keepers)})

    class Asleep(Counted):
        def run(self, batch: Batch, state: str) -> Made:
            made = super().run(batch, state)
            start(self.world)  # to its end
            return made

    start(world, Asleep)
    assert len(world.attempts) == 1 + BATCHES
    assert world.repeating == [(0, "attempt-1"), (1, "attempt-2")]


@dataclass(frozen=True)
class Definition:
    """The targets of a job, in order: those that are exactly-once, and others."""

    targets: tuple[str, ...]
    exact: frozenset[str]

    def start(self, world: World) -> None:
        """One run until both batches are done, or until it crashes."""
        world.runs += 1
        run = f"run-{world.runs}"
        keepers = {name: Keeper(world, run, world.systems[name]) for name in self.targets if name in self.exact}
        for keeper in keepers.values():
            keeper.open()
        targets = [keepers.get(name) or Repeater(world, name) for name in self.targets]
        operators = Counted(world, run, repeaters=frozenset(self.targets) - self.exact)
        while (number := world.done + 1) < BATCHES:
            deliver(batch(number), targets, operators)
            world.step()
            world.done = number


BOTH = Definition(("a", "b"), frozenset("ab"))
#: What a definition may become, and the target that may then lack a batch.
CHANGES = {
    "the second is at-least-once now": (BOTH, Definition(("a", "b"), frozenset("a")), "b"),
    "the first is at-least-once now": (BOTH, Definition(("a", "b"), frozenset("b")), "a"),
    "a table was added": (Definition(("a", "c"), frozenset("a")), Definition(("a", "c", "b"), frozenset("a")), "b"),
    "an exactly-once table was replaced": (BOTH, Definition(("a", "c"), frozenset("a")), "c"),
}


@pytest.mark.rule("the first commit binds the attempt")
@pytest.mark.parametrize("change", CHANGES)
def test_a_target_that_repeats_batches_misses_none_when_the_definition_changes(change: str) -> None:
    """The job dies at each of its steps, and is started with another definition. Either that stops, and the former one
    finishes the batch, or it goes on, and the target gets what Spark has not logged as done."""
    former, now, target = CHANGES[change]
    stopped, died = [], 0
    for death in range(100):
        steps = iter(range(100))
        world = World(lambda _, at=steps, death=death: int(next(at) == death), {"a": System(), "b": System()})
        try:
            former.start(world)
            break  # it has outlived its steps
        except Crashed:
            died += 1
        world.choose, undone = lambda _: 0, world.done + 1
        try:
            now.start(world)
        except CheckpointError:
            stopped.append(death)
            former.start(world)
            continue
        had = [number for number, _ in world.systems[target].committed] if target in world.systems else []
        assert {*had, *world.given.get(target, [])} >= set(range(undone, BATCHES)), f"killed at step {death}"
        for number in range(BATCHES):
            assert len({found for each in now.exact if (found := world.systems[each].state_after(number))}) == 1
    assert died > len(stopped) > 0


def one_of_two() -> tuple[World, list[Keeper]]:
    """Of two targets the first has batch 0."""
    world = World(lambda count: 0, {"a": System(), "b": System()})
    keepers = [Keeper(world, "run", system) for system in world.systems.values()]
    for keeper in keepers:
        keeper.open()
    world.attempts["attempt-0"] = (0, "", True)
    keepers[0].last = (0, "attempt-0")
    return world, keepers


def test_the_output_of_the_bound_attempt_is_published_to_the_others() -> None:
    world, keepers = one_of_two()
    done = deliver(batch(0), keepers, Counted(world, "run"))
    assert done == Delivered("attempt-0", (Published(skipped=True), Published()))
    assert world.systems["b"].committed == [(0, "attempt-0")]
    assert len(world.attempts) == 1


def test_a_bound_attempt_whose_output_is_gone_stops_the_job() -> None:
    world, keepers = one_of_two()
    world.attempts["attempt-0"] = (0, "", False)
    with pytest.raises(CheckpointError, match="not there"):
        deliver(batch(0), keepers, Counted(world, "run"))
    assert world.systems["b"].committed == []


def test_another_owner_explains_why_the_output_is_gone() -> None:
    world, keepers = one_of_two()
    world.attempts["attempt-0"] = (0, "", False)

    class Displaced(Keeper):
        def check_owner(self) -> None:
            raise FencedError("another run has taken over")

    displaced = Displaced(world, "run", world.systems["b"])
    with pytest.raises(FencedError):
        deliver(batch(0), [keepers[0], displaced], Counted(world, "run"))


def test_targets_that_disagree_stop_the_job() -> None:
    world, keepers = one_of_two()
    keepers[1].last = (0, "attempt-1")
    with pytest.raises(CheckpointError, match="different states"):
        deliver(batch(1), keepers, Counted(world, "run"))


def test_a_state_that_no_target_knows_stops_the_job() -> None:
    world = World(lambda count: 0, {"a": System("run")})
    with pytest.raises(CheckpointError, match=r"state before batch 1 is not known.*Make a savepoint of the checkpoint"):
        deliver(batch(1), [Keeper(world, "run", world.systems["a"])], Counted(world, "run"))


def test_what_sources_have_consumed_goes_to_the_last_target_alone() -> None:
    given: list[tuple[str, tuple[object, ...]]] = []

    class Recording(Keeper):
        def can_commit_offsets(self, consumed: object) -> bool:
            return self.system is self.world.systems["a"]

        def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
            given.append((next(n for n, s in self.world.systems.items() if s is self.system), batch.consumed))
            return Published()

    world = World(lambda count: 0, {"a": System(), "b": System()})
    targets = [Recording(world, "run", system) for system in world.systems.values()]
    whole = Batch(0, (None,), ({"at": 0},), 1, ("group",))
    deliver(whole, targets, Counted(world, "run"))
    assert given == [("b", ()), ("a", ("group",))]


def test_a_failure_before_the_first_commit_binds_nothing() -> None:
    world = World(lambda count: 0, {"a": System()})

    class Failing(Keeper):
        def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
            raise AbortableError("the broker aborted it")

    with pytest.raises(AbortableError):
        deliver(batch(0), [Failing(world, "run", world.systems["a"])], Counted(world, "run"))
    keeper = Keeper(world, "run", world.systems["a"])
    keeper.open()
    deliver(batch(0), [keeper], Counted(world, "run"))
    assert world.systems["a"].committed == [(0, "attempt-1")]


@dataclass
class Stateless(Counted):
    """The work of a job without state, whose attempts have a reference where the output is kept."""

    keeps_rows = False


@pytest.mark.parametrize("repeats", [False, True])
def test_a_batch_that_one_target_of_a_job_without_state_has_committed_alone_is_finished(repeats: bool) -> None:
    """By a former version, or by a definition with one target: without a reference to state."""
    world = World(lambda _: 0, {"a": System(), "b": System()})
    one, other = (Keeper(world, "run", system) for system in world.systems.values())
    one.system.committed.append((0, ""))
    targets: list[Committer] = [one, other, *([Repeater(world)] if repeats else [])]

    def run(number: int) -> Delivered:
        for keeper in (one, other):
            keeper.open()
        return deliver(batch(number), targets, Stateless(world, "run"))

    first = run(0)
    assert [each.skipped for each in first.published] == [True, False, False][: len(targets)]
    assert other.system.committed == [(0, first.state)]
    assert all(each.skipped for each in run(0).published[:2])
    after = run(1)
    assert one.system.committed[-1] == other.system.committed[-1] == (1, after.state)
    assert [number for number, _ in world.repeating] == ([0, 1] if repeats else [])


def test_a_table_that_repeats_gets_a_batch_that_the_others_have_committed_without_it() -> None:
    world = World(lambda _: 0, {"a": System()})
    keeper = Keeper(world, "run", world.systems["a"])
    keeper.system.committed.append((0, ""))
    keeper.open()
    done = deliver(batch(0), [keeper, Repeater(world)], Stateless(world, "run"))
    assert ([each.skipped for each in done.published], done.state) == ([True, False], "")
    assert keeper.system.committed == [(0, "")]
