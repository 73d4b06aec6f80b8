"""Functions in Python: CREATE FUNCTION and the like, their types, and what calls of them compute."""

from __future__ import annotations

import datetime
import sys
import zipfile
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.errors import DefinitionError, FunctionError, RecordError, SqlError, UnsupportedError
from penstock.flow.kernels.session import UNKNOWN
from penstock.flow.kernels.user_functions import UserKernelMaker
from penstock.flow.kernels.vectors import Vector
from penstock.flow.rows.calc import Calc, calc_of
from penstock.plan.expressions import Call, ColumnRef
from penstock.plan.nodes import Materialize, Node, Sink
from penstock.plan.planning import plan_job
from penstock.plan.walk import fold
from penstock.spi import HIDDEN
from penstock.sql import parse_script
from penstock.table import DataTypes, ScalarFunction
from penstock.table.udf import udf
from penstock.types import INT, ArrayType, MapType, arrow_schema

MODULE = """
import itertools, random, sys
from decimal import Decimal
from penstock.table import DataTypes, ScalarFunction
from penstock.table.udf import udf

COUNTER = itertools.count()
EVENTS = []

def triple(x: int | None) -> int | None:
    return None if x is None else 3 * x

def picky(x: int) -> int:
    if x == 2:
        raise ValueError("two is not welcome")
    return x

def wrong(x: int) -> int:
    return "text" if x == 2 else x

@udf(result_type=DataTypes.DOUBLE(), deterministic=False)
def chance():
    return random.random()

@udf(result_type=DataTypes.BIGINT(), deterministic=False)
def moody(x):
    return x // (x != 2)

@udf(result_type=DataTypes.BIGINT(), deterministic=False)
def next_number(given):
    return next(COUNTER)

@udf(result_type="STRING")
def show(*args):
    return repr(args)

@udf(input_types=["ROW<a INT, b STRING>"], result_type="ROW<b STRING, a INT>")
def turn(row):
    return row.b, row.a

@udf(result_type="BIGINT", func_type="pandas")
def summed(a, b):
    return a + b

@udf(result_type=DataTypes.STRING(), func_type="arrow")
def upper(texts):
    import pyarrow.compute as pc
    return pc.utf8_upper(texts)

@udf(result_type="BIGINT", func_type="pandas")
def short(a):
    return a[:1]

class Scale(ScalarFunction):
    def open(self, context):
        EVENTS.append("open")
        self.factor = 2
    def close(self):
        EVENTS.append("close")
    def eval(self, x):
        return x * self.factor

scale = udf(Scale(), result_type="INT")

def untyped(x):
    return x

def leaves(x: int) -> int:
    if x == 2:
        sys.exit("no more")
    return x

@udf(result_type=DataTypes.BIGINT(nullable=False))
def always(x):
    return None if x == 2 else x

@udf(result_type="ARRAY<BIGINT NOT NULL>")
def parts(x):
    return [x, None if x == 2 else x]

@udf(result_type="BIGINT NOT NULL", func_type="pandas")
def always_of_pandas(a):
    return a.where(a != 2)

@udf(result_type="BIGINT NOT NULL", func_type="arrow")
def always_of_arrow(a):
    import pyarrow.compute as pc
    return pc.if_else(pc.equal(a, 2), None, a)

@udf(result_type="BIGINT", func_type="pandas")
def same(a):
    return a

@udf(result_type="STRING", func_type="pandas")
def dtype(a):
    return [str(a.dtype)] * len(a)

@udf(result_type="BIGINT", func_type="pandas")
def last_one(a):
    return [each[1] for each in a]

class Broken(ScalarFunction):
    def open(self, context):
        raise OSError("no connection")
    def eval(self, x):
        return x

broken = udf(Broken(), result_type="INT")

NUMBER = 1
"""
COLUMNS = "i INT, s STRING"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the module ``sample_functions``."""
    path = tmp_path_factory.mktemp("functions")
    (path / "sample_functions.py").write_text(MODULE)
    (path / "broken_functions.py").write_text("import no_such_module_at_all")
    (path / "failing_functions.py").write_text("1 / 0")
    return path


def create(name: str, module: str = "sample_functions") -> str:
    return f"CREATE FUNCTION {name} AS '{module}.{name}' LANGUAGE PYTHON;"


def planned(folder, names: str, query: str, columns: str = COLUMNS) -> Sink:
    """The sink of a query over the table t that calls functions of the module."""
    script = parse_script(
        f"{''.join(map(create, names.split()))}"
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'datagen', 'number-of-rows' = '1');"
        f"CREATE VIEW v AS {query}; CREATE TABLE o WITH ('connector' = 'print') AS SELECT * FROM v;",
        folder=str(folder),
    )
    return plan_job(script.jobs[0]).sinks[0]


def calc(folder, names: str, query: str, columns: str = COLUMNS) -> Calc:
    """The work on the rows of t, as it comes to a task."""
    found = calc_of(planned(folder, names, query, columns).input)
    assert isinstance(found, Calc)
    pickler: Any = cloudpickle
    made = pickler.loads(pickler.dumps(found))
    assert isinstance(made, Calc)
    return made


def rows(numbers: list[int | None], texts: list[str | None] | None = None) -> pa.RecordBatch:
    return pa.record_batch({"i": pa.array(numbers, pa.int32()), "s": texts or [str(each) for each in numbers]})


def values(made: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(each.to_pylist() for each in made.columns), strict=True))


def refused(folder, sql: str) -> str:
    with pytest.raises(DefinitionError) as caught:
        parse_script(sql, folder=str(folder))
    return str(caught.value)


# --- values ----------------------------------------------------------------------------------------------------


def test_a_function_computes_columns_and_conditions(folder):
    work = calc(
        folder, "triple show", "SELECT triple(i) AS x, show(i, s, 1.5, ARRAY[i]) AS y FROM t WHERE TRIPLE(i) > 3"
    )

    assert values(work.batch(rows([1, 2, None, 4]))) == [
        (6, "(2, '2', Decimal('1.5'), [2])"),
        (12, "(4, '4', Decimal('1.5'), [4])"),
    ]


def test_rows_are_rows(folder):
    sink = planned(folder, "turn", "SELECT turn(ROW(i, s)) AS r FROM t")
    work = calc(folder, "turn", "SELECT turn(ROW(i, s)) AS r FROM t")

    assert sink.input.schema.fields[0].type.text() == "ROW<`b` STRING, `a` INT>"
    assert values(work.batch(rows([1], ["x"]))) == [({"b": "x", "a": 1},)]


def test_functions_of_batches_get_series_and_arrays(folder):
    work = calc(folder, "summed upper", "SELECT summed(i, 10) AS x, upper(s) AS y FROM t")

    assert values(work.batch(rows([1, 2], ["a", "b"]))) == [(11, "A"), (12, "B")]


def test_a_function_of_batches_gives_a_value_for_each_row(folder):
    work = calc(folder, "short", "SELECT short(i) AS x FROM t")

    with pytest.raises(FunctionError, match="SHORT: the function returned 1 values for 2 rows"):
        work.batch(rows([1, 2]))


def test_no_row_calls_no_function(folder):
    work = calc(folder, "summed triple", "SELECT summed(i, 10) AS x, triple(i) AS y FROM t")

    assert work.batch(rows([])).schema.types == [pa.int64(), pa.int64()]


def test_a_function_is_opened_with_its_first_rows_and_closed_after_the_last(folder):
    sink = planned(folder, "scale", "SELECT scale(i) AS x FROM t")
    import sample_functions  # type: ignore[import-not-found]

    sample_functions.EVENTS.clear()
    found = calc_of(sink.input)
    assert isinstance(found, Calc)
    found.batch(rows([]))
    assert sample_functions.EVENTS == []
    assert values(found.batch(rows([1, 2]))) + values(found.batch(rows([3]))) == [(2,), (4,), (6,)]
    assert sample_functions.EVENTS == ["open"]
    del found
    assert sample_functions.EVENTS == ["open", "close"]


def test_each_call_has_a_copy_of_a_function_of_its_own(folder):
    """As in PyFlink, where each call is unpickled."""
    sink = planned(folder, "scale", "SELECT scale(i) AS x, scale(i + 1) AS y FROM t")
    import sample_functions

    sample_functions.EVENTS.clear()
    found = calc_of(sink.input)
    assert isinstance(found, Calc)
    assert values(found.batch(rows([1, 2]))) == [(2, 4), (4, 6)]
    assert not hasattr(sample_functions.scale.function, "factor")
    del found
    assert sample_functions.EVENTS == ["open", "open", "close", "close"]


LARGE = 2**53 + 1


def test_integers_of_pandas_are_exact(folder):
    """NULL does not make them floating numbers, which have 53 bits; nor does it in a list."""
    columns = "b BIGINT, l ARRAY<BIGINT>"
    work = calc(folder, "same dtype last_one", "SELECT same(b) AS x, dtype(b) AS d, last_one(l) AS y FROM t", columns)
    lists = pa.array([[None, LARGE], None, [1, 2]], pa.list_(pa.field("element", pa.int64())))

    made = work.batch(pa.record_batch({"b": pa.array([LARGE, None, -LARGE]), "l": lists}).slice(0, 1))
    assert values(made) == [(LARGE, "int64", LARGE)]
    work = calc(folder, "same dtype", "SELECT same(b) AS x, dtype(b) AS d FROM t", columns)
    made = work.batch(pa.record_batch({"b": pa.array([LARGE, None, -LARGE]), "l": lists}))
    assert values(made) == [(LARGE, "Int64"), (None, "Int64"), (-LARGE, "Int64")]


# --- failures --------------------------------------------------------------------------------------------------


def test_an_exception_names_the_function_and_the_place_of_the_record(folder):
    work = calc(folder, "picky", "SELECT picky(i) AS x FROM t")

    with pytest.raises(FunctionError) as caught:
        work.batch(placed(rows([1, 2, 3])))

    assert (caught.value.partition, caught.value.offset) == (3, 71)
    assert "PICKY: the function raised ValueError (sample_functions.py, line 15): two is not" in str(caught.value)


def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, from offset 70 of partition 3 on."""
    places = [dict(zip(HIDDEN.names, (3, 70 + each), strict=True)) for each in range(batch.num_rows)]
    hidden = pa.RecordBatch.from_pylist(places, HIDDEN_SCHEMA)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *hidden.columns], names=[*batch.schema.names, *hidden.schema.names]
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "always",
            "returned None, which is not a value of BIGINT NOT NULL (return a value, or declare the type without",
        ),
        ("parts", "returned [2, None], with None in it, which is not a value of BIGINT NOT NULL (return a value"),
        ("always_of_pandas", "returned None, which is not a value of BIGINT NOT NULL (return a value"),
        ("always_of_arrow", "returned None, which is not a value of BIGINT NOT NULL (return a value"),
        ("leaves", "raised SystemExit (sample_functions.py, line"),
    ],
)
def test_a_failure_names_the_function_and_the_place_of_the_record(folder, name, problem):
    work = calc(folder, name, f"SELECT {name}(i) AS x FROM t")

    with pytest.raises(FunctionError) as caught:
        work.batch(placed(rows([1, 2, 3])))

    assert (caught.value.partition, caught.value.offset) == (3, 71)
    assert f"{name.upper()}: the function {problem}" in str(caught.value)
    assert values(calc(folder, name, f"SELECT i FROM t WHERE i <> 2 AND {name}(i) IS NOT NULL").batch(rows([1, 2, 3])))


def test_a_function_that_cannot_be_opened_says_so(folder):
    work = calc(folder, "broken", "SELECT broken(i) AS x FROM t")

    with pytest.raises(FunctionError, match=r"BROKEN: open\(\) raised OSError .*: no connection"):
        work.batch(rows([1]))


RETURNED = [
    (2.5, "BIGINT", "2.5"),
    (2.0, "INT", "2.0"),
    (True, "BIGINT", "True"),
    (True, "DOUBLE", "True"),
    (2**40, "INT", "1099511627776"),
    (1, "BOOLEAN", "1"),
    (b"x", "STRING", "b'x'"),
    (5, "STRING", "5"),
    ("x", "BYTES", "'x'"),
    (5, "DATE", "5"),
    (5, "TIMESTAMP(3)", "5"),
    ("2020-01-01", "DATE", "'2020-01-01'"),
    (1.5, "DECIMAL(5, 2)", "1.5"),
    (Decimal("1234.5"), "DECIMAL(5, 2)", "Decimal('1234.5')"),
    ("ab", "ARRAY<STRING>", "'ab'"),
    ([1, 2.5], "ARRAY<BIGINT>", "[1, 2.5], with 2.5 in it"),
    (5, "ARRAY<ROW<a INT>>", "5"),
    (5, "MAP<STRING, INT>", "5"),
    ({"a": "b"}, "MAP<STRING, INT>", "[('a', 'b')], with 'b' in it"),
    ((1, "x"), "ROW<a INT, b INT>", "(1, 'x'), with 'x' in it"),
]


@pytest.mark.parametrize(("value", "type_", "shown"), RETURNED, ids=[f"{each[0]!r} {each[1]}" for each in RETURNED])
def test_a_result_of_another_type_is_refused(value, type_, shown):
    call = UserKernelMaker(udf(lambda x: value, result_type=type_))
    (failure,) = call(Call("F", (ColumnRef("i", type=INT),), type=INT), UNKNOWN)([Vector(pa.array([1]))], 1).failures

    assert failure.rows.tolist() == [True]
    found = failure.reason(0)
    assert found.startswith(f"F: the function returned {shown}, which is not a value of ")
    assert failure.hint


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (5, "DOUBLE", 5.0),
        (LARGE, "DOUBLE", float(LARGE)),
        (Decimal("0.5"), "DOUBLE", 0.5),
        (np.int64(5), "INT", 5),
        (np.bool_(True), "BOOLEAN", True),
        (Decimal("1.235"), "DECIMAL(5, 2)", Decimal("1.24")),
        (Decimal(1) / Decimal(3), "DECIMAL(38, 18)", Decimal("0." + 18 * "3")),
        (5, "DECIMAL(5, 2)", Decimal("5.00")),
        ([Decimal("0.125")], "ARRAY<DECIMAL(5, 2)>", [Decimal("0.12")]),
        (np.array([1, 2]), "ARRAY<BIGINT>", [1, 2]),
        ({"a": 1}, "MAP<STRING, DOUBLE>", [("a", 1.0)]),
        ((1, None), "ROW<a DOUBLE, b INT>", {"a": 1.0, "b": None}),
        (datetime.datetime(2020, 1, 2, 3), "DATE", datetime.date(2020, 1, 2)),
    ],
)
def test_a_result_is_converted_as_in_pyflink(value, type_, expected):
    call = UserKernelMaker(udf(lambda x: value if x else None, result_type=type_))
    made = call(Call("F", (ColumnRef("i", type=INT),), type=INT), UNKNOWN)([Vector(pa.array([1, 0, 1]))], 3)

    assert made.failures == ()
    assert made.values.to_pylist() == [expected, None, expected]


@pytest.mark.parametrize(
    ("kind", "found", "type_", "problem"),
    [
        ("arrow", pa.array(["1"]), "BIGINT", "a column of string, which are not values of BIGINT"),
        ("arrow", pa.array([1.0]), "BIGINT", "a column of double, which are not values of BIGINT"),
        ("arrow", pa.array([True]), "INT", "a column of bool, which are not values of INT"),
        ("arrow", pa.array([1]), "TIMESTAMP(3)", "a column of int64, which are not values of TIMESTAMP(3)"),
        ("arrow", pa.array([2**40]), "INT", "values that are not of INT: Integer value 1099511627776 not in range"),
        ("arrow", "x", "STRING", "a str, not a column of values"),
        ("pandas", {"a": 1}, "STRING", "a dict, not a column of values"),
        ("pandas", pd.Series([2.5]), "BIGINT", "values that are not of BIGINT: Float value 2.5"),
        ("pandas", pd.Series([1]), "BOOLEAN", "a column of int64, which are not values of BOOLEAN"),
        ("pandas", pd.Series([b"x"]), "STRING", "b'x', which is not a value of STRING"),
    ],
)
def test_a_column_of_another_type_is_refused(kind, found, type_, problem):
    call = UserKernelMaker(udf(lambda x: found, result_type=type_, func_type=kind))
    (failure,) = call(Call("F", (ColumnRef("i", type=INT),), type=INT), UNKNOWN)([Vector(pa.array([1]))], 1).failures

    assert f"F: the function returned {problem}" in failure.reason(0)


@pytest.mark.parametrize(
    ("kind", "found", "type_", "expected"),
    [
        ("arrow", pa.array([1], pa.int8()), "BIGINT", 1),
        ("arrow", pa.array(["x"], pa.large_string()), "STRING", "x"),
        ("arrow", pa.array(["x"]).dictionary_encode(), "STRING", "x"),
        ("arrow", pa.nulls(1), "ARRAY<INT>", None),
        ("arrow", pa.chunked_array([pa.array([1])]), "DOUBLE", 1.0),
        ("pandas", pd.Series([2.0]), "BIGINT", 2),
        ("pandas", pd.Series([2.5], dtype="float64"), "FLOAT", 2.5),
        ("pandas", pd.Series(["x"], dtype="category"), "STRING", "x"),
        (
            "pandas",
            pd.Series([pd.Timestamp("2020-01-02 03:04:05.123456789")]),
            "TIMESTAMP(6)",
            datetime.datetime(2020, 1, 2, 3, 4, 5, 123456),
        ),
        ("pandas", np.array([1], np.int32), "BIGINT", 1),
        ("pandas", [None], "BIGINT", None),
        ("pandas", pd.Series([Decimal("1.235")]), "DECIMAL(5, 2)", Decimal("1.24")),
    ],
)
def test_a_column_is_converted_where_its_meaning_stays(kind, found, type_, expected):
    call = UserKernelMaker(udf(lambda x: found, result_type=type_, func_type=kind))
    made = call(Call("F", (ColumnRef("i", type=INT),), type=INT), UNKNOWN)([Vector(pa.array([1]))], 1)

    assert (made.values.to_pylist(), made.failures) == ([expected], ())


def test_a_failure_counts_only_where_its_value_is_used(folder):
    work = calc(folder, "picky", "SELECT CASE WHEN i <> 2 THEN picky(i) END AS x FROM t")

    assert values(work.batch(rows([1, 2, 3]))) == [(1,), (None,), (3,)]


def test_a_value_of_another_type_fails_its_row(folder):
    work = calc(folder, "wrong", "SELECT wrong(i) AS x FROM t WHERE i <> 2")
    assert values(work.batch(rows([1, 2, 3]))) == [(1,), (3,)]

    work = calc(folder, "wrong", "SELECT wrong(i) AS x FROM t")
    with pytest.raises(FunctionError, match="WRONG: the function returned 'text', which is not a value of BIGINT"):
        work.batch(rows([1, 2, 3]))


def test_a_function_is_not_called_with_an_argument_that_failed(folder):
    work = calc(folder, "show", "SELECT show(10 / i) AS x FROM t")

    with pytest.raises(RecordError, match="by zero"):
        work.batch(rows([1, 0]))


# --- chance ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["chance()", "RAND()"])
def test_a_row_has_one_value_of_a_nondeterministic_function(folder, call):
    """Also where a condition of an outer query reads it."""
    query = f"SELECT c, c + 0 AS d FROM (SELECT {call} AS c FROM t WHERE i > 0) WHERE c > 0.5"
    made = values(calc(folder, "chance", query).batch(rows(list(range(200)))))

    assert 0 < len(made) < 200
    assert all(c == d > 0.5 for c, d in made)
    assert len(set(made)) == len(made)


def test_a_failure_of_chance_counts_only_in_rows_that_are_left(folder):
    query = "SELECT c FROM (SELECT i, moody(i) AS c FROM t) WHERE i <> 2 AND c > 0"
    assert values(calc(folder, "moody", query).batch(rows([1, 2, 3]))) == [(1,), (3,)]


def test_each_call_of_a_nondeterministic_function_is_computed_once(folder):
    work = calc(folder, "next_number", "SELECT next_number(i) AS x, next_number(i) AS y FROM t")

    numbers = [each for row in values(work.batch(rows([1, 2, 3]))) for each in row]
    assert sorted(numbers) == list(range(min(numbers), min(numbers) + 6))


GROUPED = "SELECT i, COUNT(*) AS n FROM t GROUP BY i"


def test_a_retraction_finds_a_row_by_values_of_chance_that_are_kept(folder):
    """As with RAND(): by the key of the rows, and not at all without one."""
    sink = planned(
        folder, "chance", f"SELECT c, SUM(n) AS m FROM (SELECT n, chance() AS c FROM ({GROUPED})) GROUP BY c"
    )
    (kept,) = [each for each in steps(sink) if isinstance(each, Materialize)]
    assert (kept.keys, len(kept.decided)) == (("i",), 1)

    with pytest.raises(UnsupportedError, match=r"CHANCE\(\) has another value when its row is retracted"):
        planned(folder, "chance", f"SELECT chance() + n AS x FROM ({GROUPED} UNION ALL {GROUPED})")


def steps(sink: Sink) -> list[Node]:
    """The nodes of a plan."""
    found: list[Node] = []
    fold((sink,), lambda node, _: found.append(node))
    return found


# --- names -----------------------------------------------------------------------------------------------------


def printed(folder, sql: str) -> str:
    return "\n".join(parse_script(sql, folder=str(folder)).printed)


def test_functions_are_shown(folder):
    made = create("triple") + "CREATE TEMPORARY SYSTEM FUNCTION Chance AS 'sample_functions.chance' LANGUAGE PYTHON;"

    assert "|        chance |\n|        triple |\n+" in printed(folder, made + "SHOW USER FUNCTIONS;")
    every = printed(folder, made + "SHOW FUNCTIONS;")
    assert all(f" {name} |" in every for name in ("chance", "triple", "upper", "count"))
    assert printed(folder, made + "DROP FUNCTION TRIPLE; SHOW USER FUNCTIONS LIKE 't%';") == "Empty set"


def test_a_system_function_hides_a_built_in_one_and_that_one_hides_others(folder):
    for kind, expected in (("TEMPORARY SYSTEM", "BIGINT"), ("TEMPORARY", "STRING"), ("", "STRING")):
        script = parse_script(
            f"CREATE {kind} FUNCTION reverse AS 'sample_functions.triple' LANGUAGE PYTHON;"
            "CREATE TABLE t (i INT, s STRING) WITH ('connector' = 'datagen');"
            f"CREATE VIEW v AS SELECT reverse({'i' if kind.endswith('SYSTEM') else 's'}) AS x FROM t; DESCRIBE v;",
            folder=str(folder),
        )
        assert f" {expected} |" in script.printed[0]


def test_a_temporary_function_hides_one_of_its_database(folder):
    sql = (
        create("triple") + "CREATE TEMPORARY FUNCTION triple AS 'sample_functions.show' LANGUAGE PYTHON;"
        "CREATE TABLE t (i INT) WITH ('connector' = 'datagen');"
        "CREATE VIEW v AS SELECT triple(i) AS x FROM t; DESCRIBE v;"
        "DROP TEMPORARY FUNCTION triple; DESCRIBE v;"
    )
    before, after = parse_script(sql, folder=str(folder)).printed
    assert " STRING |" in before
    assert " BIGINT |" in after


def test_a_function_belongs_to_its_database(folder):
    sql = (
        "CREATE DATABASE other;" + create("triple") + "CREATE TABLE t (i INT) WITH ('connector' = 'datagen');"
        "USE other; CREATE VIEW v AS SELECT triple(i) AS x FROM default_database.t; DESCRIBE v;"
    )
    assert "there is no function TRIPLE" in refused(folder, sql)
    named = sql.replace("SELECT triple(i)", "SELECT default_database.`triple`(i)")
    assert " BIGINT |" in printed(folder, named)
    assert "there is no function other.TRIPLE" in refused(folder, sql.replace("triple(i)", "other.triple(i)"))
    assert " BIGINT |" in printed(folder, sql.replace("USE other;", "").replace("triple(i)", "`triple`(i)"))


def test_functions_are_in_computed_columns(folder):
    script = parse_script(
        create("triple") + "CREATE TABLE t (i INT, x AS triple(i)) WITH ('connector' = 'datagen');"
        "CREATE TABLE o (x BIGINT) WITH ('connector' = 'print'); INSERT INTO o SELECT x FROM t;",
        folder=str(folder),
    )
    found = calc_of(plan_job(script.jobs[0]).sinks[0].input)
    assert isinstance(found, Calc)
    assert values(found.batch(rows([1, 2]))) == [(3, "1"), (6, "2")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (create("triple") * 2, "function 'triple' already exists (write IF NOT EXISTS, or DROP FUNCTION first)"),
        ("DROP FUNCTION triple;", "there is no function 'triple'"),
        ("DROP TEMPORARY FUNCTION triple;", "there is no temporary function 'triple'"),
        ("DROP TEMPORARY SYSTEM FUNCTION triple;", "there is no temporary system function 'triple'"),
        ("CREATE FUNCTION f AS 'a.B';", "a function in Java is not supported (write the function in Python"),
        ("CREATE FUNCTION f AS 'a.B' LANGUAGE SCALA;", "a function in Scala is not supported"),
        ("CREATE FUNCTION f AS 'triple' LANGUAGE PYTHON;", "'triple' does not name a module and a function in it"),
        (create("tripel", "sample_functions"), "module 'sample_functions' has no 'tripel' (did you mean 'triple'?)"),
        (create("f", "no_such_functions"), "there is no module 'no_such_functions' in "),
        (create("f", "broken_functions"), "'broken_functions' imports 'no_such_module_at_all', which cannot be found"),
        (create("f", "failing_functions"), "importing 'failing_functions' raised ZeroDivisionError: division by zero"),
        (create("untyped"), "the type of the result of untyped is not known: give result_type, or a hint such as"),
        (create("NUMBER"), "'sample_functions.NUMBER' is a int, not a function"),
        ("CREATE TEMPORARY SYSTEM FUNCTION a.f AS 'm.f' LANGUAGE PYTHON;", "a system function has no database"),
        ("ALTER FUNCTION f AS 'm.g' LANGUAGE PYTHON;", "ALTER FUNCTION is not supported (write DROP FUNCTION and"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(folder, sql, expected):
    found = refused(folder, sql)
    assert expected in found
    assert "line 1, column" in found


def test_if_exists_and_if_not_exists(folder):
    sql = "DROP FUNCTION IF EXISTS f; CREATE FUNCTION IF NOT EXISTS f AS 'sample_functions.triple' LANGUAGE PYTHON;"
    assert " f |" in printed(folder, sql * 2 + "SHOW USER FUNCTIONS;")


def test_arguments_have_types(folder):
    with pytest.raises(
        SqlError, match=r"triple takes \(BIGINT\), not \(STRING\)|TRIPLE takes \(BIGINT\), not \(STRING\)"
    ):
        planned(folder, "triple", "SELECT triple(s) AS x FROM t")
    with pytest.raises(SqlError, match=r"TRIPLE takes \(BIGINT\), not \(INT, INT\)"):
        planned(folder, "triple", "SELECT triple(i, i) AS x FROM t")


def test_python_files_are_searched(tmp_path):
    """Files, folders and archives, by their whole names or relative to the SQL file."""
    code = "def f(x: int) -> int:\n    return x\n"
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    (tmp_path / "a" / "in_a_file.py").write_text(code)
    (tmp_path / "b" / "in_a_folder.py").write_text(code)
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("in_an_archive.py", code)
    names = ("in_a_file", "in_a_folder", "in_an_archive")
    functions = "".join(f"CREATE FUNCTION {each} AS '{each}.f' LANGUAGE PYTHON;" for each in names)

    found = refused(tmp_path, functions)
    assert all(f"there is no module '{each}' in {tmp_path}, and none is installed" in found for each in names)
    given = f"SET 'python.files' = '{tmp_path}/a/in_a_file.py,b,c.zip';"
    script = parse_script(given + functions + "SHOW USER FUNCTIONS;", folder=str(tmp_path))
    assert all(f" {each} |" in script.printed[0] for each in names)
    assert script.warnings == ()


def test_modules_of_one_name_in_two_folders_are_two(tmp_path):
    """Also those that they import; and neither replaces what the process has imported."""
    kernels = []
    for number, part in enumerate(("a", "b")):
        folder = tmp_path / part
        folder.mkdir()
        (folder / "of_one_name.py").write_text("import helped\ndef f(x: int) -> int:\n    return helped.NUMBER\n")
        (folder / "helped.py").write_text(f"NUMBER = {number}\n")
        script = parse_script("CREATE FUNCTION f AS 'of_one_name.f' LANGUAGE PYTHON;" + USE, folder=str(folder))
        found = calc_of(plan_job(script.jobs[0]).sinks[0].input)
        assert isinstance(found, Calc)
        kernels.append(found)
    import of_one_name  # type: ignore[import-not-found]

    assert of_one_name.f(1) == 0
    assert [values(each.batch(rows([1]))) for each in kernels] == [[(0,)], [(1,)]]
    (tmp_path / "c").mkdir()
    assert "there is no module 'of_one_name'" in refused(
        tmp_path / "c", "CREATE FUNCTION f AS 'of_one_name.f' LANGUAGE PYTHON;"
    )


def test_a_module_of_a_file_hides_one_of_python(tmp_path):
    (tmp_path / "this.py").write_text("def f(x: int) -> int:\n    return x\n")
    (tmp_path / "calendar.py").write_text("def f(x: int) -> int:\n    return x\n")
    import calendar

    for name in ("this", "calendar"):
        assert " BIGINT |" in printed(
            tmp_path, f"CREATE FUNCTION f AS '{name}.f' LANGUAGE PYTHON;" + USE + "DESCRIBE v;"
        )
    assert sys.modules["calendar"] is calendar


USE = (
    "CREATE TABLE t (i INT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '1');"
    "CREATE VIEW v AS SELECT f(i) AS x FROM t; CREATE TABLE o WITH ('connector' = 'print') AS SELECT * FROM v;"
)

# --- udf -------------------------------------------------------------------------------------------------------


def test_types_follow_from_hints():
    def f(a: int, b: list[str], c: dict[str, float] | None) -> bytes:
        return b""

    made = udf(f)
    assert made.result_type.text() == "BYTES"
    assert [each.text() for each in made.input_types] == ["BIGINT", "ARRAY<STRING>", "MAP<STRING, DOUBLE>"]
    assert udf(lambda *a: 1, result_type=DataTypes.INT()).input_types is None


def test_types_are_flinks():
    made = udf(lambda a, b: a, [DataTypes.INT(), "ARRAY<INT>"], DataTypes.MAP(DataTypes.INT(), DataTypes.INT()))
    assert (made.result_type, made.input_types) == (MapType(INT, INT), (INT, ArrayType(INT)))
    fields = [DataTypes.FIELD("a", DataTypes.DECIMAL(5, 2)), DataTypes.FIELD("b", DataTypes.TIMESTAMP(3))]
    assert DataTypes.ROW(fields).text() == "ROW<`a` DECIMAL(5, 2), `b` TIMESTAMP(3)>"


def test_a_function_can_be_called_as_before():
    class Scale(ScalarFunction):
        def eval(self, x: int) -> int:
            return 2 * x

    assert udf(Scale)(3) == 6
    assert udf(lambda x: x + 1, result_type="INT")(3) == 4


def test_what_udf_does_not_take():
    with pytest.raises(ValueError, match="func_type must be one of general, pandas, arrow, not 'java'"):
        udf(lambda: 1, result_type="INT", func_type="java")
    with pytest.raises(TypeError, match="udf takes a function or a ScalarFunction, not 1"):
        udf(1, result_type="INT")
    with pytest.raises(TypeError, match="result_type takes types such as"):
        udf(lambda: 1, result_type=int)


HIDDEN_SCHEMA = arrow_schema(HIDDEN)
