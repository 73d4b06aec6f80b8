"""What a job's settings rule out in its tables."""

from __future__ import annotations

import pytest

from penstock.cli.main import main
from penstock.errors import OptionsError
from penstock.plan.checks import check_settings
from penstock.sql import parse_script

KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'"
SCRIPT = """
    SET 'penstock.progress-topic' = 'acme.progress';
    CREATE TABLE s (id INT) WITH ({kafka}, 'topic' = 'in', 'properties.group.id' = 'g' {source});
    CREATE TABLE t (id INT {columns}) WITH ({kafka}, 'topic' = '{topic}' {sink});
    INSERT INTO t SELECT id {values} FROM s;
"""


def script(topic="out", columns="", values="", source="", sink=""):
    return SCRIPT.format(kafka=KAFKA, topic=topic, columns=columns, values=values, source=source, sink=sink)


def check(text):
    (job,) = parse_script(text, default_name="j").jobs
    check_settings(job)


EXACT = ", 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'p'"


@pytest.mark.parametrize("sink", [", 'sink.delivery-guarantee' = 'none'", "", EXACT])
@pytest.mark.parametrize(
    ("topic", "columns", "values"),
    [("acme.progress", "", ""), ("out;acme.progress", ", k STRING METADATA FROM 'topic'", ", 'out'")],
)
def test_the_progress_topic_is_written_by_no_table_whatever_it_is_called(topic, columns, values, sink):
    with pytest.raises(OptionsError, match=r"table 't': 'topic': 'acme\.progress' is the job's own progress"):
        check(script(topic, columns, values, sink=sink))


def test_the_progress_topic_takes_no_dead_letters():
    reason = r"table 's': 'scan\.dead-letter\.topic': 'acme\.progress' is the job's own progress"
    with pytest.raises(OptionsError, match=reason):
        check(script(source=", 'scan.dead-letter.topic' = 'acme.progress'"))


def test_other_topics_are_nothing_to_the_settings():
    check(script(source=", 'scan.dead-letter.topic' = 'dead'"))


def test_check_says_so_too(tmp_path, capsys):
    file = tmp_path / "job.sql"
    file.write_text(script("acme.progress"))
    assert main(["check", str(file)]) == 2
    assert "is the job's own progress topic" in capsys.readouterr().err
