"""How compiled loops tell types apart, and what became of a record."""

from __future__ import annotations

__all__ = [
    "ARRAY",
    "BIGINT",
    "BOOLEAN",
    "BYTES",
    "DATE",
    "DECIMAL",
    "DOUBLE",
    "EXACT",
    "FLOAT",
    "INT",
    "MAP",
    "NO_ROW",
    "OTHER",
    "READ",
    "ROW",
    "SMALLINT",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "TINYINT",
]

#: A record was read by the loop, is left to the exact path, or is a message that gives no row.
READ, EXACT, NO_ROW = 0, 1, 2

#: Numeric types come first: integers up to BIGINT, all numbers up to DECIMAL. OTHER is every nested type, where the
#: loops take flat columns alone; where they take nested ones these are told apart.
TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL = 0, 1, 2, 3, 4, 5, 6
BOOLEAN, STRING, BYTES, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, OTHER = 7, 8, 9, 10, 11, 12, 13, 14
ROW, ARRAY, MAP = 15, 16, 17
