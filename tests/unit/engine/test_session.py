"""Which Spark sessions jobs run in."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.engine.session import spark, spark_session
from penstock.errors import UnsupportedError
from penstock.settings import Settings


@pytest.mark.parametrize(("name", "value"), [("SPARK_REMOTE", "sc://localhost"), ("SPARK_API_MODE", "connect")])
@pytest.mark.rule("unsafe setups are refused")
def test_spark_connect_is_refused_before_a_session_is_made(name, value, monkeypatch):
    """The driver must be this process: it begins and commits the transactions."""
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(UnsupportedError, match=rf"'{name}': Spark Connect is not supported.*unset {name}"):
        spark_session(Settings(), "job")


@pytest.mark.rule("unsafe setups are refused")
def test_a_process_with_a_connect_session_is_refused(monkeypatch):
    monkeypatch.setattr(spark, "is_remote", lambda: True)
    with pytest.raises(UnsupportedError, match="Spark Connect is not supported"):
        spark_session(Settings(), "job")
