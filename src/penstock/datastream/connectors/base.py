"""The base of all sources and sinks."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod

from penstock.common import TypeInformation, WatermarkStrategy
from penstock.datastream.function_steps import Step
from penstock.datastream.refusals import lookup
from penstock.spi import TableDefinition

__getattr__ = lookup("connectors.base")


class Source(ABC):
    """What ``from_source`` and ``add_source`` take: the definition of a table that is read."""

    #: Whether its table may have the metadata column ``timestamp``, the timestamps of a stream's records.
    timestamps = False
    #: Whether its parallelism bounds the tasks that read.
    parallel = False
    #: The strategy of a source of the former API.
    strategy = WatermarkStrategy.no_watermarks()

    @property
    @abstractmethod
    def type_info(self) -> TypeInformation:
        """The type of the stream's values."""

    @property
    def read_info(self) -> TypeInformation:
        """The type of the table's rows, before :meth:`steps`."""
        return self.type_info

    @abstractmethod
    def table(self, name: str) -> TableDefinition:
        """The table named ``name``. Raises DefinitionError with every problem of the source."""

    def steps(self) -> tuple[Step, ...]:
        """User-defined functions that make the stream's values from the table's rows."""
        return ()


class Sink(ABC):
    """What ``sink_to`` and ``add_sink`` take: the definition of a table that is written."""

    #: Whether the timestamps of the stream's records are written to the metadata column ``timestamp``.
    writes_timestamps = False
    #: Whether its parallelism bounds the tasks that write.
    parallel = False

    @abstractmethod
    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table named ``name`` for values of the type ``stream``. Raises DefinitionError when they do not fit."""

    def steps(self, stream: TypeInformation) -> tuple[Step, ...]:
        """User-defined functions that make the table's rows from the stream's values."""
        return ()


class DeliveryGuarantee(enum.Enum):
    """What a failure may do to written records."""

    #: Neither lost nor repeated: one Kafka transaction per batch.
    EXACTLY_ONCE = 0
    #: Not lost; repeated when a batch is retried.
    AT_LEAST_ONCE = 1
    #: Lost or repeated.
    NONE = 2

    @property
    def text(self) -> str:
        """The value of the option ``sink.delivery-guarantee``."""
        return self.name.lower().replace("_", "-")
