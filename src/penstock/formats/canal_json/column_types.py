"""The types of columns by what Canal's messages say of them: codes of JDBC in ``sqlType``, types in ``mysqlType``.

The codes are those of seed 003, "Schema parsing for Canal JSON", but for SMALLINT, whose code there is that of BIGINT
(JDBC has 5). MySQL's types become what Flink CDC's MySQL connector makes of them. Two things differ, so that no value
loses digits: a time of day has three digits where its number of digits is not known, and is STRING where it has more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.loops.type_roots import TIME_DIGITS
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    BinaryType,
    DataType,
    DecimalType,
    StringType,
    TimestampType,
    TimeType,
)
from penstock.types.logical import MAX_PRECISION

_CODES = {
    **dict.fromkeys((-7, 16), BOOLEAN),
    -6: TINYINT,
    5: SMALLINT,
    4: INT,
    -5: BIGINT,
    **{code: DecimalType(MAX_PRECISION, 18) for code in (2, 3)},
    **dict.fromkeys((6, 7), FLOAT),
    8: DOUBLE,
    **dict.fromkeys((-2, -3, -4, 2004), BYTES),
    91: DATE,
    92: TimeType(TIME_DIGITS),
    93: TimestampType(6),
}


def find_jdbc_type(code: int) -> DataType:
    """The type for a code of ``java.sql.Types``; STRING for all that have no other."""
    return _CODES.get(code, STRING)


_MYSQL = re.compile(r"\s*([a-z]+(?: precision| varying)?)\s*(?:\(([^)]*)\))?(.*)", re.IGNORECASE | re.DOTALL)
#: Integers, and their types without a sign.
_INTEGERS: dict[str, tuple[DataType, DataType]] = {
    "tinyint": (TINYINT, SMALLINT),
    "smallint": (SMALLINT, INT),
    "mediumint": (INT, INT),
    "int": (INT, BIGINT),
    "integer": (INT, BIGINT),
    "year": (INT, INT),
    "bigint": (BIGINT, DecimalType(20, 0)),
    "serial": (DecimalType(20, 0), DecimalType(20, 0)),
}
_PLAIN: dict[str, DataType] = {
    **dict.fromkeys(("bool", "boolean"), BOOLEAN),
    **dict.fromkeys(("real", "double", "double precision"), DOUBLE),
    "date": DATE,
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), BYTES),
}


@dataclass(frozen=True)
class MySqlTypes:
    """How types of MySQL are read: ``canal-json.mysql.treat-tinyint1-as-boolean.enabled`` and
    ``canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled``."""

    tinyint1_as_boolean: bool = True
    timestamp_as_datetime: bool = True

    def find_type(self, text: str) -> DataType:
        """The type for one of MySQL, such as ``bigint(20) unsigned``; STRING for all that have no other."""
        match = _MYSQL.fullmatch(text)
        if match is None:
            return STRING
        name, given, rest = match[1].lower(), match[2], match[3].lower()
        sizes = [int(each) for each in (given or "").split(",") if each.strip().isdigit()]
        size = sizes[0] if sizes else None
        if name in _INTEGERS:
            signed, unsigned = _INTEGERS[name]
            if "unsigned" in rest or "zerofill" in rest:
                return unsigned
            return BOOLEAN if name == "tinyint" and size == 1 and self.tinyint1_as_boolean else signed
        if name in _PLAIN:
            return _PLAIN[name]
        return self._find_sized_type(name, size, sizes)

    def _find_sized_type(self, name: str, size: int | None, sizes: list[int]) -> DataType:
        match name:
            case "bit":
                return BOOLEAN if size in (None, 1) else BinaryType(-(-size // 8), fixed=True)
            case "float":
                return DOUBLE if len(sizes) > 1 else FLOAT
            case "decimal" | "dec" | "numeric" | "fixed":
                precision = 10 if size is None else size
                scale = sizes[1] if len(sizes) > 1 else 0
                return DecimalType(precision, scale) if precision <= MAX_PRECISION else STRING
            case "time":
                return TimeType(size or 0) if (size or 0) <= TIME_DIGITS else STRING
            case "datetime":
                return TimestampType(size or 0)
            case "timestamp":
                return TimestampType(size or 0, local_zone=not self.timestamp_as_datetime)
            case "char" | "character" | "nchar":
                return StringType(size or 1, fixed=True)
            case "varchar" | "character varying" | "nvarchar" if size:
                return StringType(size)
            case "binary":
                return BinaryType(size or 1, fixed=True)
            case "varbinary" if size:
                return BinaryType(size)
        return STRING
