"""Functions in Python: CREATE FUNCTION and the like, their types, and what calls of them compute."""

from __future__ import annotations

import zipfile
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.errors import DefinitionError, FunctionError, RecordError, SqlError, UnsupportedError
from penstock.flow.rows.calc import Calc, calc_of
from penstock.plan.nodes import Sink
from penstock.plan.planning import plan_job
from penstock.spi import HIDDEN
from penstock.sql import parse_script
from penstock.table import DataTypes, ScalarFunction
from penstock.table.udf import udf
from penstock.types import INT, ArrayType, MapType, arrow_schema

MODULE = """
import itertools, random
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

    with pytest.raises(FunctionError, match="SHORT: the function raised ValueError: expected 2 values, not 1"):
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


# --- failures --------------------------------------------------------------------------------------------------


def test_an_exception_names_the_function_and_the_place_of_the_record(folder):
    work = calc(folder, "picky", "SELECT picky(i) AS x FROM t")
    hidden = pa.RecordBatch.from_pylist([{"__partition": 3, "__offset": 70 + each} for each in range(3)], HIDDEN_SCHEMA)
    batch = pa.RecordBatch.from_arrays(
        [*rows([1, 2, 3]).columns, *hidden.columns], names=["i", "s", *hidden.schema.names]
    )

    with pytest.raises(FunctionError) as caught:
        work.batch(batch)

    assert (caught.value.partition, caught.value.offset) == (3, 71)
    assert "PICKY: the function raised ValueError (sample_functions.py, line 15): two is not" in str(caught.value)


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


def test_a_retraction_cannot_find_a_row_by_chance(folder):
    """As with RAND()."""
    with pytest.raises(UnsupportedError, match=r"CHANCE\(\) .* has another value when its row is retracted"):
        planned(
            folder,
            "chance",
            "SELECT c, COUNT(*) AS n FROM (SELECT i, chance() + COUNT(*) AS c FROM t GROUP BY i) GROUP BY c",
        )


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
        (create("triple") * 2, "function 'triple' exists already (write IF NOT EXISTS, or DROP FUNCTION before it)"),
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
    with pytest.raises(ValueError, match="func_type is one of general, pandas, arrow, not 'java'"):
        udf(lambda: 1, result_type="INT", func_type="java")
    with pytest.raises(TypeError, match="udf takes a function or a ScalarFunction, not 1"):
        udf(1, result_type="INT")
    with pytest.raises(TypeError, match="result_type takes types such as"):
        udf(lambda: 1, result_type=int)


HIDDEN_SCHEMA = arrow_schema(HIDDEN)
