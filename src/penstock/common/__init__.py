"""PyFlink's ``pyflink.common`` with the same names: rows, type information, watermarks, simple schemas."""

from penstock.common.arrow_functions import ArrowFunction, call_arrow
from penstock.common.completable_future import CompletableFuture
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.execution_mode import ExecutionMode
from penstock.common.expressions import SqlExpression, call_sql
from penstock.common.input_dependency_constraint import InputDependencyConstraint
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
    TypeInformationSerializationSchema,
)
from penstock.common.time import Duration, Instant, Time
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.common.types import Row
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.types import RowKind

__all__ = [
    "ArrowFunction",
    "ByteArraySchema",
    "CompletableFuture",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "RowTypeInfo",
    "SerializationSchema",
    "SimpleStringSchema",
    "SqlExpression",
    "Time",
    "TypeInformation",
    "TypeInformationSerializationSchema",
    "Types",
    "WatermarkStrategy",
    "call_arrow",
    "call_sql",
]
