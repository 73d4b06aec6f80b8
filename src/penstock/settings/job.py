"""The settings of a job, as every way of writing it gives them to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.settings.kerberos import KerberosSettings
from penstock.settings.restart import RestartStrategy

__all__ = ["Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a job runs. None means that the engine's default applies.

    ``checkpoint_interval``: how often a batch is planned (and, exactly-once, committed); None: as soon as the last
    one is done. ``checkpoint_dir``: a directory or URI. ``parallelism``: tasks at a time. ``restart``: when a job that
    failed is started again; None: never. ``kerberos``: the login of tables that ask for Kerberos and name none.
    ``start_time``: where sources without a checkpoint start, by the timestamps of their records in ms since 1970;
    None: as each source says. ``idle_timeout``: how long tables with event time wait for a partition that gives no
    rows; None: for ever.
    """

    checkpoint_interval: timedelta | None = None
    checkpoint_dir: str | None = None
    checkpointing: bool = True
    parallelism: int | None = None
    session_time_zone: str | None = None
    progress_topic: str = "__penstock_progress"
    adopt_progress: bool = False
    restart: RestartStrategy | None = None
    kerberos: KerberosSettings | None = None
    start_time: int | None = None
    idle_timeout: timedelta | None = None
