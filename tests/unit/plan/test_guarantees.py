"""What the guarantees of a job's sinks need."""

from __future__ import annotations

import pytest

from penstock.cli.main import main
from penstock.errors import OptionsError
from penstock.plan.explain import explain
from penstock.plan.guarantees import check_guarantees
from penstock.sql import parse_script

KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'"
SOURCE = f"CREATE TABLE s (id INT) WITH ({KAFKA}, 'topic' = 'in', 'properties.group.id' = 'g');"
EXACT = "'topic' = 'out', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'p'"


def script(second, settings=""):
    """The SQL of a job with an exactly-once sink and a second one."""
    return f"""{settings} {SOURCE}
        CREATE TABLE exact (id INT) WITH ({KAFKA}, {EXACT});
        CREATE TABLE other (id INT) WITH ({second});
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO exact SELECT id FROM s;
          INSERT INTO other SELECT id FROM s;
        END;"""


def job(second, settings=""):
    """A job with an exactly-once sink and a second one."""
    (found,) = parse_script(script(second, settings), default_name="j").jobs
    return found


@pytest.mark.rule("targets commit independently")
def test_a_sink_that_repeats_is_refused_beside_an_exactly_once_one():
    with pytest.raises(
        OptionsError, match=r"table 'other': connector 'print' rewrites rows when a batch is retried.*'exact'"
    ):
        check_guarantees(job("'connector' = 'print'"))


@pytest.mark.rule("targets commit independently")
def test_check_refuses_it_too(tmp_path, capsys):
    file = tmp_path / "job.sql"
    file.write_text(script("'connector' = 'print'"))
    assert main(["check", str(file)]) == 2
    assert "rewrites rows when a batch is retried" in capsys.readouterr().err


@pytest.mark.parametrize(
    "second",
    [
        "'connector' = 'print', 'sink.delivery-guarantee' = 'at-least-once'",
        "'connector' = 'blackhole'",
        f"{KAFKA}, 'topic' = 'second'",
    ],
)
@pytest.mark.rule("targets commit independently")
def test_unless_it_says_so_or_keeps_nothing(second):
    check_guarantees(job(second))


@pytest.mark.rule("targets commit independently")
def test_explain_says_that_two_targets_are_not_atomic():
    elsewhere = KAFKA.replace("localhost:9092", "elsewhere:9092")
    assert "not atomic together" not in explain(job(f"{KAFKA}, 'topic' = 'second'"))
    assert "one commit each, not atomic together: kafka at localhost:9092; kafka at elsewhere:9092" in explain(
        job(f"{elsewhere}, 'topic' = 'second'")
    )
