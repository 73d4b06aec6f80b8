"""Which sinks a job gets for what its scans cannot decode."""

from __future__ import annotations

from penstock.plan.dead_letter_sinks import with_dead_letters
from penstock.plan.explain import explain
from penstock.plan.nodes import DeadLetters, Filter, Project, Scan, scans
from penstock.plan.walk import base
from penstock.spi import Guarantee
from penstock.sql import parse_script

CONNECTOR = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'here:1', 'format' = 'json'"
SOURCE = f"CREATE TABLE s (id INT) WITH ({CONNECTOR}, 'topic' = 'orders', 'scan.dead-letter.topic' = 'orders-dead');"
EXACT = "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'mine'"


def job(*inserts, sink=""):
    text = SOURCE + "".join(
        f"CREATE TABLE t{i} (id INT) WITH ({CONNECTOR}, 'topic' = 'copies' {sink});" for i in range(len(inserts))
    )
    text += "CREATE TABLE p (id INT) WITH ('connector' = 'print');"
    (found,) = parse_script(f"{text} EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END;").jobs
    return found


def added(found):
    whole = with_dead_letters(found)
    assert whole.sinks[: len(found.sinks)] == found.sinks
    return whole.sinks[len(found.sinks) :]


def test_one_sink_for_a_scan_however_many_branches_read_it():
    found = job("INSERT INTO t0 SELECT id FROM s WHERE id > 1", "INSERT INTO t1 SELECT id + 1 FROM s")
    (sink,) = added(found)
    assert isinstance(found.sinks[0].input, Filter)
    assert isinstance(found.sinks[1].input, Project)
    assert isinstance(sink.input, DeadLetters)
    assert isinstance(sink.input.input, Scan)
    assert {scans(each.input)[0] for each in (*found.sinks, sink)} == {sink.input.input} == {base(sink.input)}
    assert (sink.table, sink.connector, sink.spec.topics) == ("s.dead-letters", "kafka", ("orders-dead",))
    assert sink.schema.names == ("key", "value", "headers", "timestamp")


def test_dead_letters_take_part_in_the_transaction_of_the_job():
    (sink,) = added(job("INSERT INTO t0 SELECT id FROM s", sink=f", {EXACT}"))
    assert (sink.spec.guarantee, sink.spec.transactional_id_prefix) == (Guarantee.EXACTLY_ONCE, "mine")


def test_without_transactions_dead_letters_are_written_at_least_once():
    (sink,) = added(job("INSERT INTO p SELECT id FROM s"))
    assert sink.spec.guarantee is Guarantee.AT_LEAST_ONCE


def test_a_job_without_dead_letters_stays_as_it_is():
    text = SOURCE.replace(", 'scan.dead-letter.topic' = 'orders-dead'", "")
    (found,) = parse_script(
        f"{text} CREATE TABLE p (id INT) WITH ('connector' = 'print'); INSERT INTO p SELECT id FROM s;"
    ).jobs
    assert with_dead_letters(found) is found


def test_explain_names_the_topic_and_the_sink():
    text = explain(with_dead_letters(job("INSERT INTO p SELECT id FROM s")))
    assert "  dead letters: orders-dead\n" in text
    assert "kafka sink 's.dead-letters'" in text
    assert "records that cannot be decoded" in text
