"""Whole jobs on a broker with ACLs: what has to be granted, and what a job says when something is not."""

from __future__ import annotations

import uuid

import pytest

from penstock.errors import AuthorizationError
from tests.acls import grant, guarded_cluster
from tests.spark.conftest import Jobs, Topics


@pytest.fixture(scope="module")
def guarded():
    """The cluster, its administrator, and the names of users who have no rights yet."""
    from kafka.admin import KafkaAdminClient

    with guarded_cluster(3) as cluster, KafkaAdminClient(bootstrap_servers=cluster.plain_bootstrap) as admin:
        yield cluster, admin, iter(("user-1", "user-2", "user-3"))


class Copy:
    """An exactly-once job of three batches that commits its group's offsets, as a user with the listed rights but
    ``without``."""

    def __init__(self, guarded, folder, without=None):
        from penstock.kafka.progress import ensure_progress_topic
        from penstock.kafka.properties import ClientConfig
        from penstock.kafka.session import session_for

        self.cluster, admin, users = guarded
        self.jobs, self.topics = Jobs(self.cluster.bootstrap, folder), Topics(self.cluster.plain_bootstrap)
        self.name = name = uuid.uuid4().hex[:8]
        self.source, self.sink, self.progress, self.group = f"in-{name}", f"out-{name}", f"progress-{name}", f"g-{name}"
        topics = {each: {"num_partitions": 2, "replication_factor": 1} for each in (self.source, self.sink)}
        admin.create_topics(topics)
        admin.wait_for_topics([*topics], 60_000)
        self.root = session_for(ClientConfig.from_properties({"bootstrap.servers": self.cluster.plain_bootstrap}))
        ensure_progress_topic(self.root, self.progress)
        self.topics.write(self.source, [{"id": i} for i in range(300)])
        user = next(users)
        self.transactional_id = f"tx-{self.sink}-job"
        listed = (
            ("TRANSACTIONAL_ID", "transactional_id", "WRITE"),
            ("TRANSACTIONAL_ID", "transactional_id", "DESCRIBE"),
            ("TOPIC", "sink", "WRITE"),
            ("TOPIC", "sink", "DESCRIBE"),
            ("TOPIC", "progress", "READ"),
            ("TOPIC", "progress", "WRITE"),
            ("TOPIC", "progress", "DESCRIBE"),
            ("GROUP", "group", "READ"),
            ("TOPIC", "source", "READ"),
        )
        rights = [(kind, getattr(self, name), right) for kind, name, right in listed if (name, right) != without]
        grant(admin, user, rights)
        login = {
            f"properties_{key.replace('.', '_')}": value
            for key, value in self.cluster.client_settings(user).items()
            if key != "bootstrap.servers"
        }
        once = {"scan_max__records__per__trigger": "100", "properties_group_id": self.group, **login}
        self.sql = (
            f"SET 'penstock.progress-topic' = '{self.progress}';\n"
            + self.jobs.bounded("s", "id BIGINT", self.source, **once)
            + self.jobs.exactly_once("t", "id BIGINT", self.sink, **login)
            + "INSERT INTO t SELECT * FROM s;"
        )

    def written(self):
        return sorted(message.json["id"] for message in self.topics.read(self.sink))

    def offset(self):
        """What the group has committed, over both partitions."""
        from penstock.kafka.offsets import fetch_committed_offsets

        found = fetch_committed_offsets(self.root, self.group, [(self.source, 0), (self.source, 1)])
        return sum(each.offset for each in found.values())


def test_the_rights_that_are_listed_are_enough_for_a_whole_job(guarded, tmp_path):
    copy = Copy(guarded, tmp_path)
    assert copy.jobs.run(copy.sql).progress.batches == 3
    assert copy.jobs.warnings == []
    assert copy.written() == list(range(300))
    assert copy.offset() == 300


def test_without_the_right_to_write_a_job_ends_with_one_error_that_names_it(guarded, tmp_path):
    """The broker refuses the records of a task; they are not sent again, and the batch is not redone."""
    copy = Copy(guarded, tmp_path, without=("sink", "WRITE"))
    with pytest.raises(AuthorizationError, match=rf"'{copy.sink}', partition \d.* Write on the topic"):
        copy.jobs.run(copy.sql)
    assert copy.jobs.warnings == []
    assert copy.written() == []
    assert not copy.topics.open_transactions(copy.sink)


@pytest.mark.rule("group offsets join the transaction")
def test_without_the_right_to_commit_offsets_a_job_goes_on_and_says_so_once(guarded, tmp_path):
    copy = Copy(guarded, tmp_path, without=("group", "READ"))
    assert copy.jobs.run(copy.sql).progress.batches == 3
    warning, count = copy.jobs.warnings
    assert f"offsets of group '{copy.group}' are not committed" in warning
    assert "grant the principal Read on the group" in warning
    assert f"offsets of group '{copy.group}' were not committed in 3 batch" in count
    assert copy.written() == list(range(300))
    assert copy.offset() == 0
