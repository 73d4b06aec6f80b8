"""The types of columns in Canal's messages."""

from __future__ import annotations

import pytest

from penstock.formats.canal_json.column_types import MySqlTypes, find_jdbc_type

#: By code of java.sql.Types: BIT, BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, DECIMAL, NUMERIC, REAL, FLOAT, DOUBLE,
#: BINARY, VARBINARY, LONGVARBINARY, BLOB, DATE, TIME, TIMESTAMP, CHAR, VARCHAR, LONGVARCHAR, CLOB, OTHER.
CODES = {
    -7: "BOOLEAN",
    16: "BOOLEAN",
    -6: "TINYINT",
    5: "SMALLINT",
    4: "INT",
    -5: "BIGINT",
    3: "DECIMAL(38, 18)",
    2: "DECIMAL(38, 18)",
    7: "FLOAT",
    6: "FLOAT",
    8: "DOUBLE",
    -2: "BYTES",
    -3: "BYTES",
    -4: "BYTES",
    2004: "BYTES",
    91: "DATE",
    92: "TIME(3)",
    93: "TIMESTAMP(6)",
    1: "STRING",
    12: "STRING",
    -1: "STRING",
    2005: "STRING",
    1111: "STRING",
}

MYSQL = {
    "bit(1)": "BOOLEAN",
    "bit": "BOOLEAN",
    "bit(9)": "BINARY(2)",
    "bit(64)": "BINARY(8)",
    "bool": "BOOLEAN",
    "boolean": "BOOLEAN",
    "tinyint(1)": "BOOLEAN",
    "tinyint(4)": "TINYINT",
    "tinyint": "TINYINT",
    "tinyint(1) unsigned": "SMALLINT",
    "tinyint(3) unsigned": "SMALLINT",
    "smallint(6)": "SMALLINT",
    "smallint(5) unsigned": "INT",
    "mediumint(8)": "INT",
    "mediumint unsigned": "INT",
    "int": "INT",
    "INT(11)": "INT",
    "integer": "INT",
    "int(10) unsigned": "BIGINT",
    "int(8) zerofill": "BIGINT",
    "year(4)": "INT",
    "bigint(20)": "BIGINT",
    "bigint(20) unsigned": "DECIMAL(20, 0)",
    "bigint(20) unsigned zerofill": "DECIMAL(20, 0)",
    "serial": "DECIMAL(20, 0)",
    "float": "FLOAT",
    "float(7,3)": "DOUBLE",
    "float unsigned": "FLOAT",
    "real": "DOUBLE",
    "double": "DOUBLE",
    "double precision": "DOUBLE",
    "double(10, 2) unsigned": "DOUBLE",
    "decimal": "DECIMAL(10, 0)",
    "decimal(10,2)": "DECIMAL(10, 2)",
    "decimal(5)": "DECIMAL(5, 0)",
    "numeric(38, 10) unsigned": "DECIMAL(38, 10)",
    "fixed(4,1)": "DECIMAL(4, 1)",
    "decimal(65,30)": "STRING",
    "date": "DATE",
    "time": "TIME(0)",
    "time(3)": "TIME(3)",
    "time(6)": "STRING",
    "datetime": "TIMESTAMP(0)",
    "datetime(6)": "TIMESTAMP(6)",
    "timestamp": "TIMESTAMP(0)",
    "timestamp(3)": "TIMESTAMP(3)",
    "char(10)": "CHAR(10)",
    "char": "CHAR(1)",
    "varchar(255)": "VARCHAR(255)",
    "varchar(20) character set utf8mb4": "VARCHAR(20)",
    "tinytext": "STRING",
    "text": "STRING",
    "longtext": "STRING",
    "json": "STRING",
    "enum('a','b')": "STRING",
    "set('a(1)','b')": "STRING",
    "geometry": "STRING",
    "binary(16)": "BINARY(16)",
    "binary": "BINARY(1)",
    "varbinary(64)": "VARBINARY(64)",
    "blob": "BYTES",
    "longblob": "BYTES",
    "": "STRING",
    "vector(3)": "STRING",
}


def test_codes_of_jdbc():
    assert {code: str(find_jdbc_type(code)) for code in CODES} == CODES


@pytest.mark.parametrize("text", MYSQL)
def test_types_of_mysql(text: str):
    assert str(MySqlTypes().find_type(text)) == MYSQL[text]


def test_a_tinyint_of_one_digit_is_a_number_where_it_is_not_a_boolean():
    types = MySqlTypes(tinyint1_as_boolean=False)
    assert [str(types.find_type(each)) for each in ("tinyint(1)", "bit(1)", "bool")] == [
        "TINYINT",
        "BOOLEAN",
        "BOOLEAN",
    ]


def test_a_timestamp_is_a_moment_where_it_is_not_a_datetime():
    types = MySqlTypes(timestamp_as_datetime=False)
    assert [str(types.find_type(each)) for each in ("timestamp(3)", "datetime(3)")] == [
        "TIMESTAMP_LTZ(3)",
        "TIMESTAMP(3)",
    ]
