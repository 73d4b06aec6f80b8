"""The grammar of tables of windows: TUMBLE, HOP, CUMULATE and SESSION in FROM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.sql.parse.grammar import Grammar
from penstock.sql.parse.syntax import Hint, Name, Unbound, UnboundSource, UnboundTable, UnboundWindow

#: The parameters of each function, in their order, by Flink's names.
PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}


class WindowGrammar(Grammar):
    """Parses tables of windows. Raises SqlError or UnsupportedError with the place."""

    def hints(self) -> tuple[Hint, ...]:
        """Hints, if they come next."""
        return ()

    def sees_window_table(self) -> bool:
        """Whether a table of windows comes next, which TABLE(..) may enclose."""
        first = 2 if self.sees("TABLE", "(") else 0
        return self.peek(first).keyword in PARAMETERS and self.peek(first + 1).keyword == "("

    def window_table(self, query: Callable[[], UnboundSource]) -> UnboundWindow:
        """A table of windows; ``query`` parses a query after its opening parenthesis, with the closing one."""
        at = self.at
        enclosed = self.take("TABLE", "(")
        name = self.advance()
        self.expect("(")
        found = self._window(at, name.keyword, query)
        self.expect(")")
        if enclosed:
            self.expect(")")
        return found

    def _window(self, at: int, function: str, query: Callable[[], UnboundSource]) -> UnboundWindow:
        parameters = PARAMETERS[function]
        table: UnboundSource | None = None
        time: Name | None = None
        keys: tuple[Name, ...] = ()
        values: dict[str, Unbound] = {}
        for position in range(len(parameters)):
            if position and not self.take(","):
                break
            parameter, where = parameters[position], self.at
            if self.peek().keyword == "=>":
                parameter = self.name("a parameter").text.upper()
                self.expect("=>")
            if parameter not in parameters:
                raise self.source.error(
                    where, f"{function} has no parameter {parameter}", f"it has {', '.join(parameters)}"
                )
            if (parameter == "DATA" and table) or (parameter == "TIMECOL" and time) or parameter in values:
                raise self.source.error(where, f"{parameter} is given twice", "leave one of them out")
            if parameter == "DATA":
                table, keys = self._data(function, query)
            elif parameter == "TIMECOL":
                time = self._descriptor()
            else:
                values[parameter] = self.expression()
        needed = [each for each in parameters if each not in ("DATA", "TIMECOL", "OFFSET") and each not in values]
        if table is None or time is None or needed:
            raise self.unexpected_token(f"the parameters {', '.join(parameters)}", _EXAMPLES[function])
        return UnboundWindow(at, function, table, time, tuple(values.items()), keys)

    def _data(self, function: str, query: Callable[[], UnboundSource]) -> tuple[UnboundSource, tuple[Name, ...]]:
        """The table, and the columns of PARTITION BY."""
        if self.take("("):
            table = query()
        else:
            self.expect("TABLE")
            at = self.at
            table = UnboundTable(at, self.table_name(), hints=self.hints())
        if not self.sees("PARTITION"):
            return table, ()
        if function != "SESSION":
            raise self.unsupported_feature(f"PARTITION BY in {function}", "leave it out: GROUP BY says what is grouped")
        self.expect("PARTITION", "BY")
        if self.sees("("):
            return table, self.parse_enclosed(partial(self.name, "a column"))
        found = [self.name("a column")]
        while self.sees(",") and self.peek().keyword != "DESCRIPTOR" and self.peek(2).keyword != "=>":
            self.expect(",")
            found.append(self.name("a column"))
        return table, tuple(found)

    def _descriptor(self) -> Name:
        self.expect("DESCRIPTOR", "(")
        found = self.name("the column with the time")
        if self.sees(","):
            raise self.source.error(self.at, "DESCRIPTOR takes one column", "name the time attribute")
        self.expect(")")
        return found


_EXAMPLES = {
    "TUMBLE": "such as TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "such as HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
    "CUMULATE": "such as CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)",
    "SESSION": "such as SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
}
