"""Spark's Python worker daemon with the data plane imported before it forks, so that a worker starts warm."""

from __future__ import annotations

import pyarrow  # noqa: F401 - loaded here, shared by every worker
from pyspark import daemon

import penstock.kafka.kernels
import penstock.spi  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
