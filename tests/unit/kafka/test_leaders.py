"""Whom to believe about who leads a partition."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.leaders import Leaders, PartitionInfo

TOPIC, ANEW = UUID(int=1), UUID(int=2)


def led(leader: int, epoch: int, partition: int = 0) -> PartitionInfo:
    return PartitionInfo(partition, leader, epoch, (1, 2, 3), (leader,))


def who(info: PartitionInfo) -> tuple[int, int]:
    return info.leader, info.leader_epoch


def test_a_leader_of_a_former_epoch_does_not_take_the_place_of_a_later_one():
    leaders = Leaders()
    assert who(leaders.choose_latest(TOPIC, led(1, 4))) == (1, 4)
    assert who(leaders.choose_latest(TOPIC, led(2, 5))) == (2, 5)
    assert who(leaders.choose_latest(TOPIC, led(1, 4))) == (2, 5)
    assert leaders.is_former(TOPIC, 0, 4)


def test_the_same_epoch_is_believed_also_when_its_leader_is_gone_or_back():
    leaders = Leaders()
    assert [who(leaders.choose_latest(TOPIC, led(each, 5))) for each in (2, -1, 2)] == [(2, 5), (-1, 5), (2, 5)]


def test_partitions_and_topics_that_were_created_anew_have_epochs_of_their_own():
    leaders = Leaders()
    leaders.choose_latest(TOPIC, led(2, 5))
    assert who(leaders.choose_latest(TOPIC, led(1, 0, partition=1))) == (1, 0)
    assert who(leaders.choose_latest(ANEW, led(1, 0))) == (1, 0)
    assert who(leaders.choose_latest(TOPIC, led(1, 4))) == (2, 5)


def test_without_topic_ids_or_epochs_nothing_is_compared():
    leaders = Leaders()
    assert [who(leaders.choose_latest(None, led(1, each))) for each in (5, 4)] == [(1, 5), (1, 4)]
    leaders.choose_latest(TOPIC, led(2, 5))
    assert who(leaders.choose_latest(TOPIC, led(1, -1))) == (1, -1)
    assert who(leaders.choose_latest(TOPIC, led(1, 4))) == (2, 5)


def test_what_was_read_tells_that_there_is_a_later_leader_though_not_which():
    leaders = Leaders()
    leaders.choose_latest(TOPIC, led(1, 4))
    assert leaders.note_epochs(TOPIC, {0: 5})
    assert who(leaders.choose_latest(TOPIC, led(1, 4))) == (-1, 5)
    assert who(leaders.choose_latest(TOPIC, led(3, 6))) == (3, 6)
    assert not leaders.note_epochs(TOPIC, {0: 5})
    assert who(leaders.choose_latest(TOPIC, led(1, 4))) == (3, 6)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5))))
def test_epochs_never_go_back_and_the_latest_is_always_believed(events):
    leaders, latest = Leaders(), -1
    for described, epoch in events:
        if described:
            found = leaders.choose_latest(TOPIC, led(epoch + 10, epoch))
            assert found.leader_epoch == max(latest, epoch)
            assert epoch < latest or found.leader == epoch + 10
        else:
            assert leaders.note_epochs(TOPIC, {0: epoch}) == (epoch > latest)
        latest = max(latest, epoch)
