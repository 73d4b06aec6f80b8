"""The ``datagen`` connector: from a table definition to how its rows are made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation

from penstock.connectors.datagen.generators import Generator
from penstock.connectors.datagen.options import DatagenOptions
from penstock.connectors.datagen.spec import DatagenScanSpec
from penstock.errors import OptionsError, Problem, UnsupportedError, nearest
from penstock.options import BOOLEAN, DURATION, OptionSet
from penstock.spi import ColumnKind, TableDefinition
from penstock.types import ArrayType, BinaryType, DataType, DecimalType, MapType, RowType, StringType, TimestampType
from penstock.types.logical import MAX_LENGTH, root

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_REALS = {"FLOAT": (1.4e-45, 3.4028235e38), "DOUBLE": (4.9e-324, 1.7976931348623157e308)}
_TEXT_LENGTH, _LIST_LENGTH, _MOST_LENGTH = 100, 3, 1_000_000
#: The digits of random decimals: units of the last one are 64-bit numbers.
_DIGITS = 18


class DatagenConnector:
    """Tables of generated rows, for trying out SQL and for load tests: each value is random, or the next one of a
    sequence. A row that is read again after a failure is the same, so that exactly-once holds."""

    identifier = "datagen"
    options: Mapping[str, type[OptionSet]] = {"Source": DatagenOptions}
    runtime = "penstock.connectors.datagen.spark:DatagenRuntime"

    def scan(self, table: TableDefinition) -> DatagenScanSpec:
        """How the rows of ``table`` are made. Raises OptionsError or UnsupportedError with every problem found."""
        options = table.bind_options(DatagenOptions)
        metadata = [column.name for column in table.columns if column.kind is ColumnKind.METADATA]
        if metadata:
            where = table.origin.locate("") or f"table '{table.name}'"
            reason = "connector 'datagen' has no metadata columns"
            hint = "declare it without METADATA"
            raise UnsupportedError(
                tuple(Problem(f"column '{each}': {reason}", where=where, hint=hint) for each in metadata)
            )
        reading = _Reading(table, dict(options.fields))
        generators = tuple(reading.build_generator(each.name, each.type) for each in table.produced.fields)
        reading.check_unread()
        if reading.problems:
            raise OptionsError(tuple(reading.problems))
        ends = [end for end in (options.number_of_rows, *reading.ends) if end is not None]
        return DatagenScanSpec(
            table=table.name,
            options=options,
            schema=table.produced,
            generators=generators,
            rows=min(ends, default=None),
        )


class _Reading:
    """Reads the options of columns, and collects what is wrong with them."""

    def __init__(self, table: TableDefinition, given: dict[str, str]):
        self.table = table
        self.given = given
        self.problems: list[Problem] = []
        #: How many values each sequence has.
        self.ends: list[int] = []
        self._known: set[str] = set()

    def build_generator(self, path: str, data_type: DataType) -> Generator:
        """The generator of a column, or of a part of it."""
        kind = self._read_text(path, "kind") or "random"
        null_rate = self._read_null_rate(path, data_type)
        if kind == "sequence":
            return Generator(path, data_type, start=self._read_sequence(path, data_type), null_rate=null_rate)
        if kind != "random":
            self._add_problem(path, "kind", f"expected 'random' or 'sequence', not '{kind}'")
        low, high = self._read_bounds(path, data_type)
        return Generator(
            path,
            data_type,
            low=low,
            high=high,
            length=self._read_length(path, data_type),
            varied=self._read_varied(path, data_type),
            past_ms=self._read_past(path, data_type),
            null_rate=null_rate,
            parts=tuple(self.build_generator(f"{path}.{name}", each) for name, each in _find_parts(data_type)),
        )

    def check_unread(self) -> None:
        """Add a problem for each option that no column has."""
        for key in self.given.keys() - self._known:
            hint = nearest(key, self._known)
            full = f"fields.{key}"
            hint = hint.replace("'", "'fields.", 1) if hint else "name a column and an option that its type has"
            self.problems.append(Problem("the column has no such option", full, self.table.origin.locate(full), hint))

    # --- options ---------------------------------------------------------------------------------------------

    def _read_sequence(self, path: str, data_type: DataType) -> int:
        bounds = [self._read_number(path, option, "is required for a sequence") for option in ("start", "end")]
        if root(data_type) not in (*_INTEGERS, *_REALS, "DECIMAL", "STRING"):
            self._add_problem(path, "kind", f"{data_type.text()} cannot be a sequence; use random")
        if None in bounds:
            return 0
        start, end = (int(each) for each in bounds if each is not None)
        if end < start:
            self._add_problem(path, "end", f"is {end}, less than the start, {start}")
        low, high = self._find_limits(data_type) if root(data_type) in _INTEGERS else (-(2.0**63), 2.0**63)
        if not low <= start <= end <= high:
            self._add_problem(
                path, "end", f"the sequence from {start} to {end} is beyond the range of {data_type.text()}"
            )
        self.ends.append(end - start + 1)
        return start

    def _read_bounds(self, path: str, data_type: DataType) -> tuple[float, float]:
        if root(data_type) not in (*_INTEGERS, *_REALS, "DECIMAL"):
            return 0, 0
        least, most = self._find_limits(data_type)
        scale = data_type.scale if isinstance(data_type, DecimalType) else 0
        given = [self._read_number(path, option) for option in ("min", "max")]
        exact = root(data_type) not in _REALS
        bounds: list[float] = []
        for each, limit, rounding in zip(given, (least, most), (ROUND_CEILING, ROUND_FLOOR), strict=True):
            if each is None:
                bounds.append(limit)
            else:
                scaled = each.scaleb(scale)
                bounds.append(int(scaled.to_integral_value(rounding)) if exact else float(scaled))
        low, high = bounds
        if low > high:
            self._add_problem(path, "max", "is less than the minimum")
        elif low < (least if exact else -most) or high > most:
            self._add_problem(path, "max" if high > most else "min", f"is beyond the range of {data_type.text()}")
        return low, high

    @staticmethod
    def _find_limits(data_type: DataType) -> tuple[float, float]:
        name = root(data_type)
        if isinstance(data_type, DecimalType):
            most = 10 ** min(_DIGITS, data_type.precision) - 1
            return -most, most
        if name in _REALS:
            return _REALS[name]
        bits = _INTEGERS[name]
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def _read_length(self, path: str, data_type: DataType) -> int:
        match data_type:
            case StringType() | BinaryType():
                usual = min(data_type.length, _MOST_LENGTH) if data_type.length != MAX_LENGTH else _TEXT_LENGTH
                most = data_type.length
            case ArrayType() | MapType():
                usual, most = _LIST_LENGTH, _MOST_LENGTH
            case _:
                return 0
        given = self._read_number(path, "length")
        length = usual if given is None else int(given)
        if isinstance(data_type, StringType | BinaryType) and data_type.fixed and length != most:
            self._add_problem(path, "length", f"{data_type.text()} always has the length {most}", "leave it out")
        elif not 0 < length <= min(most, _MOST_LENGTH):
            self._add_problem(path, "length", f"expected a length from 1 to {min(most, _MOST_LENGTH)}, not {length}")
        return length

    def _read_varied(self, path: str, data_type: DataType) -> bool:
        if not isinstance(data_type, StringType | BinaryType):
            return False
        text = self._read_text(path, "var-len")
        try:
            varied = text is not None and bool(BOOLEAN.read(text))
        except ValueError as error:
            self._add_problem(path, "var-len", str(error))
            return False
        if varied and data_type.fixed:
            self._add_problem(path, "var-len", f"{data_type.text()} always has the length {data_type.length}")
        return varied

    def _read_past(self, path: str, data_type: DataType) -> int:
        text = self._read_text(path, "max-past") if isinstance(data_type, TimestampType) else None
        try:
            past = timedelta() if text is None else DURATION.read(text)
        except ValueError as error:
            self._add_problem(path, "max-past", str(error))
            return 0
        return int(past.total_seconds() * 1000)

    def _read_null_rate(self, path: str, data_type: DataType) -> float:
        given = self._read_number(path, "null-rate")
        rate = 0.0 if given is None else float(given)
        if not 0 <= rate <= 1:
            self._add_problem(path, "null-rate", f"expected a number from 0 to 1, not {given}")
        elif rate and not data_type.nullable:
            self._add_problem(path, "null-rate", f"the column is {data_type}", "leave it out, or NOT NULL")
        return rate

    # --- reading ---------------------------------------------------------------------------------------------

    def _read_number(self, path: str, option: str, required: str = "") -> Decimal | None:
        text = self._read_text(path, option)
        if text is None:
            if required:
                self._add_problem(path, option, required)
            return None
        try:
            found = Decimal(text.strip())
        except InvalidOperation:
            self._add_problem(path, option, f"expected a number, not '{text}'")
            return None
        if not found.is_finite():
            self._add_problem(path, option, f"expected a finite number, not '{text}'")
            return None
        return found

    def _read_text(self, path: str, option: str) -> str | None:
        self._known.add(f"{path}.{option}")
        return self.given.get(f"{path}.{option}")

    def _add_problem(self, path: str, option: str, reason: str, hint: str = "") -> None:
        key = f"fields.{path}.{option}"
        self.problems.append(Problem(reason, key, self.table.origin.locate(key), hint))


def _find_parts(data_type: DataType) -> tuple[tuple[str, DataType], ...]:
    """The names and types of the parts of a type."""
    match data_type:
        case RowType(fields=fields):
            return tuple((each.name, each.type) for each in fields)
        case ArrayType(element=element):
            return (("element", element),)
        case MapType(key=key, value=value):
            return (("key", key.with_nullability(False)), ("value", value))
    return ()
