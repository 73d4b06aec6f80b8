"""The columns of tables of SQL that declare none: from records, or from the checkpoint of a job that continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from penstock.plan.nodes import Job
from penstock.spi import ScanSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.ingest import ColumnFinder
    from penstock.schemas import FoundColumns
    from penstock.settings import Settings


def make_finder(complete: Callable[[Job], Job]) -> ColumnFinder:
    """Finds the columns of tables. ``complete`` gives a job the settings of the command line."""
    from penstock.ingest import ColumnFinder

    @cache  # many tables ask about one job
    def know_columns(name: str, settings: Settings) -> Mapping[str, FoundColumns]:
        from penstock.engine.checkpoint.state_report import find_columns

        return find_columns(complete(Job(name, (), settings)))

    return ColumnFinder(_read_records, know_columns)


def _read_records(spec: ScanSpec, number: int, settings: Settings) -> Sequence[pa.RecordBatch]:
    from penstock.connectors.kafka.source.samples import read_sample
    from penstock.connectors.kafka.source.spec import KafkaScanSpec
    from penstock.connectors.kafka.table.client_properties import with_login

    assert isinstance(spec, KafkaScanSpec)  # noqa: S101 - columns are found in topics alone
    return read_sample(replace(spec, client=with_login(spec.client, settings.kerberos)), number).batches
