"""The grammar of expressions and select lists, by recursive descent; precedence as in Flink's parser (Calcite)."""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.parse.functions import READERS, FunctionGrammar
from penstock.sql.parse.syntax import (
    FrameBound,
    Name,
    OverWindow,
    SelectItem,
    SortKey,
    Star,
    TableName,
    Unbound,
    UnboundAggregate,
    UnboundCall,
    UnboundField,
    UnboundFrame,
    UnboundLiteral,
    UnboundName,
    UnboundOver,
    UnboundQuery,
    UnboundSubquery,
)
from penstock.sql.parse.tokens import TokenType
from penstock.sql.parse.vocabulary import AGGREGATES, RESERVED
from penstock.types import DataType, IntervalType

_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: Reserved where a table or select list ends; elsewhere they may be names of columns.
_COLUMNS_TOO = frozenset({"OFFSET"})
_BARE_FUNCTIONS = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})
#: Functions that extract a part of a moment, and the part.
_PARTS = {
    **{unit: unit for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
}
_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})


class Grammar(FunctionGrammar):
    """Parses names and expressions. Raises SqlError or UnsupportedError with the place."""

    def table_id(self) -> tuple[Name, ...]:
        """The parts of a table's name: catalog and database, or fewer, and the table itself."""
        parts = [self.name("a table's name")]
        while self.take("."):
            parts.append(self.name("a table's name"))
        return tuple(parts)

    def table_name(self) -> TableName:
        """A table's name, which its catalog and its database may precede."""
        *spaces, last = self.table_id()
        if len(spaces) > 2:
            raise self.source.error(spaces[0].at, "a table's name has at most three parts", "catalog.database.table")
        return TableName(last.text, spaces[0].at if spaces else last.at, tuple(each.text for each in spaces))

    def query(self) -> UnboundQuery:
        """A query, up to the first token that does not belong to it."""
        raise self.unsupported_feature("a query", "write it in a SQL file")

    def _sees_query(self) -> bool:
        return self.sees("(") and self.peek().keyword in ("SELECT", "WITH", "VALUES")

    def _subquery(self) -> UnboundQuery:
        self.expect("(")
        found = self.query()
        self.expect(")")
        return found

    def items(self) -> tuple[SelectItem, ...]:
        """A select list."""
        return self.parse_list(self._item)

    def _alias(self, expected: str) -> Name | None:
        plain = self.token.type is TokenType.WORD and self.token.keyword not in RESERVED
        if self.take("AS") or plain or self.token.type is TokenType.QUOTED:
            return self.name(expected)
        return None

    def _item(self) -> SelectItem:
        if self.token.type is TokenType.HINT:
            raise self.unsupported_feature("a hint", "leave it out")
        if self.sees("*"):
            return SelectItem(Star(self.advance().at), None)
        if self._sees_names_and_star():
            at, parts = self.at, list[Name]()
            while not self.take("*"):
                parts.append(self.name("the name of a table or a column"))
                self.expect(".")
            return SelectItem(Star(at, tuple(parts)), None)
        return SelectItem(self.expression(), self._alias("a column's alias"))

    def _sees_names_and_star(self) -> bool:
        at = 1
        while self.peek(at).keyword == ".":
            if self.peek(at + 1).keyword == "*":
                return True
            at += 2
        return False

    # --- operators, by precedence ---------------------------------------------------------------------------

    def expression(self) -> Unbound:
        """A whole expression."""
        terms = [self._conjunction()]
        while self.take("OR"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else UnboundCall(terms[0].at, "OR", tuple(terms))

    def _conjunction(self) -> Unbound:
        terms = [self._negation()]
        while self.take("AND"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else UnboundCall(terms[0].at, "AND", tuple(terms))

    def _negation(self) -> Unbound:
        at = self.at
        return UnboundCall(at, "NOT", (self._negation(),)) if self.take("NOT") else self._predicate()

    def _predicate(self) -> Unbound:
        left = self._sum()
        while True:
            if sign := _COMPARISONS.get(self.token.keyword, ""):
                self.advance()
                if self.token.keyword in ("ANY", "SOME", "ALL") and self.peek().keyword == "(":
                    raise self.unsupported_feature(
                        f"a query with {self.token.keyword}", "use IN, or join with the query"
                    )
                left = UnboundCall(left.at, sign, (left, self._sum()))
            elif self.take("OVERLAPS"):
                left = UnboundCall(left.at, "OVERLAPS", (left, self._sum()))
            elif self.take("IS"):
                left = self._test(left)
            elif self.peek(int(self.sees("NOT"))).keyword in ("BETWEEN", "IN", "LIKE", "SIMILAR"):
                left = self._membership(left, self.take("NOT"))
            else:
                return left

    def _test(self, left: Unbound) -> Unbound:
        negated = self.take("NOT")
        if self.take("DISTINCT"):
            self.expect("FROM")
            return UnboundCall(left.at, "IS DISTINCT FROM", (left, self._sum()), negated)
        if self.take("JSON"):
            kind = self.take_any("VALUE", "SCALAR", "ARRAY", "OBJECT") or "VALUE"
            return UnboundCall(left.at, "IS JSON", (left, UnboundLiteral(left.at, "STRING", kind)), negated)
        value = self.take_any("NULL", "TRUE", "FALSE", "UNKNOWN")
        if not value:
            raise self.unexpected_token("NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM")
        return UnboundCall(left.at, f"IS {value}", (left,), negated)

    def _membership(self, left: Unbound, negated: bool) -> Unbound:
        match self.advance().keyword:
            case "BETWEEN":
                symmetric = self.take_any("SYMMETRIC", "ASYMMETRIC") == "SYMMETRIC"
                low = self._sum()
                self.expect("AND")
                high = self._sum()
                between = UnboundCall(left.at, "BETWEEN", (left, low, high), negated)
                other = UnboundCall(left.at, "BETWEEN", (left, high, low), negated)
                return UnboundCall(left.at, "AND" if negated else "OR", (between, other)) if symmetric else between
            case "IN":
                if self._sees_query():
                    return UnboundSubquery(left.at, self._subquery(), left, negated)
                return UnboundCall(left.at, "IN", (left, *self.parse_enclosed(self.expression)), negated)
            case "LIKE":
                pattern = self._sum()
                escape = (self._sum(),) if self.take("ESCAPE") else ()
                return UnboundCall(left.at, "LIKE", (left, pattern, *escape), negated)
        self.expect("TO")
        pattern = self._sum()
        escape = (self._sum(),) if self.take("ESCAPE") else ()
        return UnboundCall(left.at, "SIMILAR", (left, pattern, *escape), negated)

    def operand(self) -> Unbound:
        """An expression without comparisons, outside of parentheses."""
        return self._sum()

    def _sum(self) -> Unbound:
        left = self._product()
        while sign := self.take_any("+", "-"):
            left = UnboundCall(left.at, sign, (left, self._product()))
        return left

    def _product(self) -> Unbound:
        left = self._sign()
        while sign := self.take_any("*", "/", "%", "||"):
            right = self._sign()
            joined = left.args if sign == "||" and isinstance(left, UnboundCall) and left.name == "||" else (left,)
            left = UnboundCall(left.at, "MOD" if sign == "%" else sign, (*joined, right))
        return left

    def _sign(self) -> Unbound:
        at = self.at
        if self.take("+"):
            return UnboundCall(at, "+x", (self._sign(),))
        if self.take("-"):
            if self.token.type is TokenType.NUMBER:
                return self._postfix(UnboundLiteral(at, "NUMBER", "-" + self.advance().text))
            return UnboundCall(at, "-x", (self._sign(),))
        return self._postfix(self._primary())

    def _postfix(self, base: Unbound) -> Unbound:
        while True:
            if self.take("["):
                base = UnboundCall(base.at, "[]", (base, self.expression()))
                self.expect("]")
            elif self.sees("AT", "TIME", "ZONE"):
                raise self.unsupported_feature(
                    "AT TIME ZONE", "write CONVERT_TZ(text, from, to), or set table.local-time-zone"
                )
            elif self.sees(".") and not isinstance(base, UnboundLiteral):
                self.advance()
                if self.sees("*"):
                    raise self.unsupported_feature("'*' of a row that is computed", "name its fields")
                name = self.name("a field's name")
                if isinstance(base, UnboundName) and self.sees("("):
                    spaces = tuple(each.text for each in base.parts)
                    base = UnboundCall(base.at, name.text.upper(), self._arguments(), spaces=spaces)
                elif isinstance(base, UnboundName):
                    base = UnboundName(base.at, (*base.parts, name))
                else:
                    base = UnboundField(base.at, base, name)
            else:
                return base

    def _primary(self) -> Unbound:
        token = self.token
        match token.type:
            case TokenType.NUMBER | TokenType.STRING | TokenType.BYTES:
                return UnboundLiteral(self.advance().at, token.type.name, token.text)
            case TokenType.QUOTED:
                return self._parse_name_or_call()
            case TokenType.WORD:
                return self._word()
        if self._sees_query():
            return UnboundSubquery(token.at, self._subquery(), only=True)
        if self.take("("):
            inner = self.parse_list(self.expression)
            self.expect(")")
            return inner[0] if len(inner) == 1 else UnboundCall(token.at, "ROW", inner)
        hint = "put strings in single quotes and names in backquotes" if token.keyword == '"' else ""
        raise self.unexpected_token("an expression", hint)

    def _word(self) -> Unbound:
        token, word, after = self.token, self.token.keyword, self.peek()
        opens = after.keyword == "("
        if word in ("TRUE", "FALSE", "NULL"):
            return UnboundLiteral(self.advance().at, "NULL" if word == "NULL" else "BOOLEAN", word)
        if word in ("DATE", "TIME", "TIMESTAMP") and after.type is TokenType.STRING:
            self.advance()
            return UnboundLiteral(token.at, word, self.advance().text)
        if word == "INTERVAL" and (after.type in (TokenType.STRING, TokenType.NUMBER) or after.keyword in ("-", "+")):
            return self._interval()
        if word == "CASE":
            return self._case()
        if word == "EXISTS" and opens:
            self.advance()
            return UnboundSubquery(token.at, self._subquery())
        if word in ("ARRAY", "MAP") and after.keyword == "[":
            self.expect(word, "[")
            args = () if self.sees("]") else self.parse_list(self.expression)
            self.expect("]")
            return UnboundCall(token.at, f"{word}[]", args)
        if opens and word in READERS:
            self.expect(word, "(")
            special = READERS[word](self, token.at, word)
            self.expect(")")
            if isinstance(special, UnboundAggregate) and self.sees("FILTER", "("):
                special = replace(special, filter=self._filter())
            return special
        if word in _BARE_FUNCTIONS and not opens and after.keyword != ".":
            return UnboundCall(self.advance().at, word, ())
        if opens and (word not in RESERVED or word in ("LEFT", "RIGHT")):
            return self._call()
        if word in RESERVED - _COLUMNS_TOO:
            raise self.unexpected_token("an expression", f"quote it as `{token.shown}` if it is a column")
        return self._parse_name_or_call()

    def _parse_name_or_call(self) -> Unbound:
        name = self.name("a column")
        if not self.sees("("):
            return UnboundName(name.at, (name,))
        if name.text.upper() in AGGREGATES or name.text.upper() in READERS:
            raise self.unexpected_token("a column, not a function", "the name of this function is not quoted")
        return UnboundCall(name.at, name.text.upper(), self._arguments())

    def _arguments(self) -> tuple[Unbound, ...]:
        """The arguments of a plain call, in their parentheses."""
        self.expect("(")
        args = () if self.sees(")") else self.parse_list(self.expression)
        self.expect(")")
        return args

    def _call(self) -> Unbound:
        at, name = self.at, self.advance().keyword
        self.expect("(")
        star = self.take("*")
        distinct = not star and self.take_any("DISTINCT", "ALL") == "DISTINCT"
        args = () if star or self.sees(")") else self.parse_list(self.expression)
        nulls = self._nulls()
        if name in AGGREGATES and self.sees("ORDER", "BY"):
            raise self.unsupported_feature(f"{name} with ORDER BY", "values are in the order of their arrival", at)
        self.expect(")")
        if self.sees("WITHIN", "GROUP"):
            raise self.unsupported_feature(f"{name} with WITHIN GROUP", "values are in the order of their arrival", at)
        nulls = nulls or self._nulls()
        condition = self._filter() if self.sees("FILTER", "(") else None
        if self.sees("OVER"):
            if condition is not None:
                hint = f"aggregate a CASE: {name}(CASE WHEN .. THEN .. END) OVER (..)"
                raise self.unsupported_feature(f"{name} with FILTER and OVER", hint, at)
            self.expect("OVER")
            window = self.over_window() if self.sees("(") else self.name("the name of a window")
            return UnboundOver(at, name, args, window, distinct, nulls)
        if star or distinct or nulls or condition is not None or name in AGGREGATES:
            return UnboundAggregate(at, name, args, distinct, condition, nulls)
        if name in _PARTS and len(args) == 1:
            return UnboundCall(at, "EXTRACT", (UnboundLiteral(at, "STRING", _PARTS[name]), *args))
        return UnboundCall(at, name, args)

    def _nulls(self) -> str:
        """RESPECT or IGNORE, if NULLS follows it."""
        return next((each for each in ("RESPECT", "IGNORE") if self.take(each, "NULLS")), "")

    def _filter(self) -> Unbound:
        self.expect("FILTER", "(", "WHERE")
        condition = self.expression()
        self.expect(")")
        return condition

    def over_window(self) -> OverWindow:
        """An OVER clause in parentheses."""
        at = self.at
        self.expect("(")
        words = ("PARTITION", "ORDER", "ROWS", "RANGE")
        base = None if self.sees(")") or self.token.keyword in words else self.name("the name of a window")
        partition = self.parse_list(self.expression) if self.take("PARTITION", "BY") else ()
        order = self.parse_list(self._sort_key) if self.take("ORDER", "BY") else ()
        frame = self._frame() if self.token.keyword in ("ROWS", "RANGE") else None
        self.expect(")")
        return OverWindow(at, partition, order, base, frame)

    def _frame(self) -> UnboundFrame:
        at = self.at
        rows = self.advance().keyword == "ROWS"
        between = self.take("BETWEEN")
        start = self._frame_bound()
        if not between:
            return UnboundFrame(at, rows, start, FrameBound(start.at, current=True))
        self.expect("AND")
        return UnboundFrame(at, rows, start, self._frame_bound())

    def _frame_bound(self) -> FrameBound:
        at = self.at
        if self.take("CURRENT", "ROW"):
            return FrameBound(at, current=True)
        offset = None if self.take("UNBOUNDED") else self._sum()
        way = self.take_any("PRECEDING", "FOLLOWING")
        if not way:
            raise self.unexpected_token("PRECEDING or FOLLOWING", "such as ROWS BETWEEN 5 PRECEDING AND CURRENT ROW")
        return FrameBound(at, offset, before=way == "PRECEDING")

    def _sort_key(self) -> SortKey:
        expression = self.expression()
        descending = self.take_any("ASC", "DESC") == "DESC"
        nulls_first = not descending
        if self.take("NULLS"):
            found = self.take_any("FIRST", "LAST")
            if not found:
                raise self.unexpected_token("FIRST or LAST")
            nulls_first = found == "FIRST"
        return SortKey(expression, descending, nulls_first)

    def _interval(self) -> Unbound:
        at = self.advance().at
        sign = "-" if self.take_any("-", "+") == "-" else ""
        text = sign + self.string("an interval in quotes, such as INTERVAL '1' DAY").text
        return UnboundLiteral(at, f"INTERVAL {self._interval_units()}", text)

    def cast_type(self) -> DataType:
        """The target of a CAST: the type of a column, or an interval."""
        if not self.take("INTERVAL"):
            return self.data_type()
        return IntervalType(self._interval_units().startswith(("YEAR", "MONTH")))

    def _interval_units(self) -> str:
        unit = self._interval_unit()
        return f"{unit} TO {self._interval_unit()}" if self.take("TO") else unit

    def _interval_unit(self) -> str:
        unit = self.take_any(*_UNITS) or self.take_any(*(unit + "S" for unit in _UNITS)).removesuffix("S")
        if not unit:
            raise self.unexpected_token("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
        if self.sees("("):
            self.parse_enclosed(self.advance)
        return unit

    def _case(self) -> Unbound:
        at = self.advance().at
        subject = None if self.sees("WHEN") else self.expression()
        args: list[Unbound] = []
        while self.take("WHEN"):
            args.append(self.expression() if subject is None else self._parse_when_values(subject))
            self.expect("THEN")
            args.append(self.expression())
        if not args:
            raise self.unexpected_token("WHEN")
        args += [self.expression()] if self.take("ELSE") else []
        self.expect("END")
        return UnboundCall(at, "CASE", tuple(args))

    def _parse_when_values(self, subject: Unbound) -> Unbound:
        """The values between WHEN and THEN as a condition."""
        values = self.parse_list(self.expression)
        same = tuple(UnboundCall(each.at, "=", (subject, each)) for each in values)
        return same[0] if len(same) == 1 else UnboundCall(same[0].at, "OR", same)
