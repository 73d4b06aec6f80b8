"""The options of inference from ``canal-json``, which only pipelines have."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.formats.json.inference_options import InferenceOptions
from penstock.options import BOOLEAN, choice, opt


class TypeStrategy(enum.Enum):
    """Where the types of columns come from."""

    AUTO = "AUTO"
    SQL_TYPE = "SQL_TYPE"
    MYSQL_TYPE = "MYSQL_TYPE"


@dataclass(frozen=True, kw_only=True)
class CanalInferenceOptions(InferenceOptions):
    """How the columns of tables are inferred from ``canal-json``."""

    strategy: TypeStrategy = opt(
        "infer-schema.strategy",
        choice(TypeStrategy),
        default=TypeStrategy.AUTO,
        doc="Where the types of columns come from. AUTO: from the values, which Canal writes as texts; SQL_TYPE: from "
        "the codes of JDBC in sqlType; MYSQL_TYPE: from the types of MySQL in mysqlType.",
        example="MYSQL_TYPE",
    )
    timestamp_as_datetime: bool = opt(
        "mysql.treat-mysql-timestamp-as-datetime-enabled",
        BOOLEAN,
        default=True,
        doc="Whether MYSQL_TYPE reads TIMESTAMP of MySQL as TIMESTAMP, and not as TIMESTAMP_LTZ.",
    )
    tinyint1_as_boolean: bool = opt(
        "mysql.treat-tinyint1-as-boolean.enabled",
        BOOLEAN,
        default=True,
        doc="Whether MYSQL_TYPE reads TINYINT(1) as BOOLEAN, and not as TINYINT.",
    )
