"""The grammar of expressions and of SELECT, by recursive descent; precedence as in Flink's parser (Calcite)."""

from __future__ import annotations

from penstock.sql.parse.cursor import Cursor
from penstock.sql.parse.syntax import (
    Call,
    Case,
    Cast,
    Element,
    Extract,
    Interval,
    Literal,
    Member,
    Name,
    Query,
    Reference,
    SelectItem,
    Star,
    TableName,
    Tree,
)
from penstock.sql.parse.tokens import Kind
from penstock.sql.parse.vocabulary import RESERVED

_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
#: Reserved where a table or select list ends; elsewhere a column may bear the name.
_COLUMNS_TOO = frozenset({"OFFSET"})
_BARE_FUNCTIONS = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})
_PARTS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK", "HOUR", "MINUTE", "SECOND"}
)
_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})

#: What may follow FROM table [WHERE condition] in Flink, and what to do instead here.
_AFTER_TABLE = {
    "GROUP": ("GROUP BY", "aggregate after reading the sink's topic"),
    "HAVING": ("HAVING", "filter with WHERE"),
    "ORDER": ("ORDER BY", "leave it out: a stream has no end to sort at"),
    "LIMIT": ("LIMIT", "bound the source with 'scan.bounded.mode'"),
    "OFFSET": ("OFFSET", "set where reading starts with 'scan.startup.mode'"),
    "FETCH": ("FETCH", "bound the source with 'scan.bounded.mode'"),
    "WINDOW": ("WINDOW", "compute windows after reading the sink's topic"),
    "UNION": ("UNION", "write one INSERT INTO for each query, in one statement set"),
    "INTERSECT": ("INTERSECT", "filter with WHERE"),
    "EXCEPT": ("EXCEPT", "filter with WHERE"),
    "MINUS": ("EXCEPT", "filter with WHERE"),
    "MATCH_RECOGNIZE": ("MATCH_RECOGNIZE", "detect patterns after reading the sink's topic"),
    "FOR": ("FOR SYSTEM_TIME AS OF", "join after reading the sink's topic"),
    "TABLESAMPLE": ("TABLESAMPLE", "filter with WHERE"),
    **dict.fromkeys(
        ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", ","),
        ("JOIN", "write each table to a topic with its own INSERT INTO and join after reading them"),
    ),
}


def table_id(cursor: Cursor) -> tuple[Name, ...]:
    """The parts of a table's name: catalog and database, or fewer, and the table itself."""
    parts = [cursor.name("a table's name")]
    while cursor.take("."):
        parts.append(cursor.name("a table's name"))
    return tuple(parts)


def table_name(cursor: Cursor) -> TableName:
    """A table's name. The default catalog and database may precede it; there are no others."""
    parts = table_id(cursor)
    spaces = tuple(part.text for part in parts[:-1])
    if spaces not in ((), ("default_database",), ("default_catalog", "default_database")):
        raise cursor.unsupported(
            f"catalog or database '{'.'.join(spaces)}'",
            "declare the table with CREATE TABLE and its bare name",
            parts[0].at,
        )
    return TableName(parts[-1].text, parts[0].at)


class Grammar:
    """Parses expressions from a cursor. Raises SqlError or UnsupportedError with the place."""

    def __init__(self, cursor: Cursor):
        self._cursor = cursor

    def query(self) -> Query:
        """A SELECT, up to the end of the statement."""
        cursor = self._cursor
        cursor.expect("SELECT")
        if cursor.sees("DISTINCT"):
            raise cursor.unsupported("SELECT DISTINCT", "remove duplicates after reading the sink's topic")
        cursor.take("ALL")
        items = self.items()
        if not cursor.sees("FROM"):
            self._after_table()
            raise cursor.unexpected("FROM")
        cursor.expect("FROM")
        table = self._table()
        alias = self._alias("a table's alias")
        if alias is not None and cursor.sees("("):
            raise cursor.unsupported("renaming columns in FROM", "rename them in SELECT with AS")
        self._after_table()
        condition = self.expression() if cursor.take("WHERE") else None
        self._after_table()
        cursor.expect_end()
        return Query(items, table, alias, condition)

    def items(self) -> tuple[SelectItem, ...]:
        """A select list."""
        return self._cursor.listed(self._item)

    def _table(self) -> TableName:
        cursor = self._cursor
        if cursor.sees("(") or cursor.sees("LATERAL"):
            raise cursor.unsupported("a query in FROM", "write the inner query to a table of its own, or merge the two")
        if cursor.sees("TABLE", "(") or cursor.sees("UNNEST", "("):
            raise cursor.unsupported("a table function in FROM", "name a table")
        found = table_name(cursor)
        if cursor.sees("("):
            raise cursor.unsupported("a table function in FROM", "name a table", found.at)
        if cursor.token.kind is Kind.HINT:
            raise cursor.unsupported("a hint", "put the options into the table's WITH clause")
        return found

    def _after_table(self) -> None:
        cursor = self._cursor
        if cursor.token.kind is Kind.HINT:
            raise cursor.unsupported("a hint", "put the options into the table's WITH clause")
        if cursor.token.keyword in _AFTER_TABLE:
            what, hint = _AFTER_TABLE[cursor.token.keyword]
            raise cursor.unsupported(what, hint)

    def _alias(self, what: str) -> Name | None:
        cursor = self._cursor
        if cursor.take("AS"):
            return cursor.name(what)
        if cursor.token.kind is Kind.QUOTED or (
            cursor.token.kind is Kind.WORD and cursor.token.keyword not in RESERVED | _AFTER_TABLE.keys()
        ):
            return cursor.name(what)
        return None

    def _item(self) -> SelectItem:
        cursor = self._cursor
        if cursor.token.kind is Kind.HINT:
            raise cursor.unsupported("a hint", "leave it out")
        if cursor.sees("*"):
            return SelectItem(Star(cursor.advance().at, None), None)
        if cursor.ahead(1).keyword == "." and cursor.ahead(2).keyword == "*":
            name = cursor.name("a table's name or alias")
            cursor.expect(".", "*")
            return SelectItem(Star(name.at, name), None)
        return SelectItem(self.expression(), self._alias("a column's alias"))

    def expression(self) -> Tree:
        """A whole expression."""
        terms = [self._conjunction()]
        while self._cursor.take("OR"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else Call(terms[0].at, "OR", tuple(terms))

    def _conjunction(self) -> Tree:
        terms = [self._negation()]
        while self._cursor.take("AND"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else Call(terms[0].at, "AND", tuple(terms))

    def _negation(self) -> Tree:
        at = self._cursor.at
        return Call(at, "NOT", (self._negation(),)) if self._cursor.take("NOT") else self._predicate()

    def _predicate(self) -> Tree:
        cursor = self._cursor
        left = self._sum()
        while True:
            sign = _COMPARISONS.get(cursor.token.keyword, "")
            if sign:
                cursor.advance()
                if cursor.token.keyword in ("ANY", "SOME", "ALL") and cursor.ahead().keyword == "(":
                    raise cursor.unsupported("a query in an expression", "use IN with a list of values")
                left = Call(left.at, sign, (left, self._sum()))
            elif cursor.take("IS"):
                left = self._test(left)
            elif cursor.token.keyword in ("BETWEEN", "IN", "LIKE", "SIMILAR") or (
                cursor.sees("NOT") and cursor.ahead().keyword in ("BETWEEN", "IN", "LIKE", "SIMILAR")
            ):
                left = self._membership(left, cursor.take("NOT"))
            else:
                return left

    def _test(self, left: Tree) -> Tree:
        cursor = self._cursor
        negated = cursor.take("NOT")
        if cursor.take("DISTINCT"):
            cursor.expect("FROM")
            return Call(left.at, "IS DISTINCT FROM", (left, self._sum()), negated)
        what = cursor.take_any("NULL", "TRUE", "FALSE", "UNKNOWN")
        if not what:
            raise cursor.unexpected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return Call(left.at, f"IS {what}", (left,), negated)

    def _membership(self, left: Tree, negated: bool) -> Tree:
        cursor = self._cursor
        match cursor.advance().keyword:
            case "BETWEEN":
                cursor.take_any("ASYMMETRIC")
                if cursor.sees("SYMMETRIC"):
                    raise cursor.unsupported("BETWEEN SYMMETRIC", "write the smaller bound first")
                low = self._sum()
                cursor.expect("AND")
                return Call(left.at, "BETWEEN", (left, low, self._sum()), negated)
            case "IN":
                if cursor.sees("(", "SELECT"):
                    raise cursor.unsupported("a query in an expression", "use IN with a list of values")
                return Call(left.at, "IN", (left, *cursor.enclosed(self.expression)), negated)
            case "LIKE":
                pattern = self._sum()
                escape = (self._sum(),) if cursor.take("ESCAPE") else ()
                return Call(left.at, "LIKE", (left, pattern, *escape), negated)
        raise cursor.unsupported("SIMILAR TO", "use LIKE, or REGEXP(string, pattern)", left.at)

    def _sum(self) -> Tree:
        left = self._product()
        while sign := self._cursor.take_any("+", "-"):
            left = Call(left.at, sign, (left, self._product()))
        return left

    def _product(self) -> Tree:
        left = self._sign()
        while sign := self._cursor.take_any("*", "/", "%", "||"):
            right = self._sign()
            if sign == "||":
                terms = left.args if isinstance(left, Call) and left.name == "||" else (left,)
                left = Call(left.at, "||", (*terms, right))
            else:
                left = Call(left.at, "MOD" if sign == "%" else sign, (left, right))
        return left

    def _sign(self) -> Tree:
        cursor = self._cursor
        at = cursor.at
        if cursor.take("+"):
            return Call(at, "+x", (self._sign(),))
        if cursor.take("-"):
            if cursor.token.kind is Kind.NUMBER:
                return self._postfix(Literal(at, "NUMBER", "-" + cursor.advance().text))
            return Call(at, "-x", (self._sign(),))
        return self._postfix(self._primary())

    def _postfix(self, tree: Tree) -> Tree:
        cursor = self._cursor
        while True:
            if cursor.take("["):
                index = self.expression()
                cursor.expect("]")
                tree = Element(tree.at, tree, index)
            elif cursor.sees(".") and not isinstance(tree, Literal):
                cursor.advance()
                if cursor.sees("*"):
                    raise cursor.unsupported("'*' of a row", "name its fields")
                name = cursor.name("a field's name")
                tree = (
                    Reference(tree.at, (*tree.parts, name))
                    if isinstance(tree, Reference)
                    else Member(tree.at, tree, name)
                )
            else:
                return tree

    def _primary(self) -> Tree:
        cursor = self._cursor
        token = cursor.token
        match token.kind:
            case Kind.NUMBER:
                return Literal(cursor.advance().at, "NUMBER", token.text)
            case Kind.STRING:
                return Literal(cursor.advance().at, "STRING", token.text)
            case Kind.BYTES:
                return Literal(cursor.advance().at, "BYTES", token.text)
            case Kind.QUOTED:
                return self._named()
            case Kind.WORD:
                return self._word()
        if cursor.sees("(", "SELECT") or cursor.sees("(", "VALUES"):
            raise cursor.unsupported("a query in an expression", "write its result to a table of its own")
        if cursor.take("("):
            inner = self.expression()
            if cursor.sees(","):
                raise cursor.unsupported("a row in parentheses", "compare its fields one by one", token.at)
            cursor.expect(")")
            return inner
        if token.keyword == '"':
            raise cursor.unexpected("an expression", "put strings in single quotes and names in backquotes")
        raise cursor.unexpected("an expression")

    def _word(self) -> Tree:
        cursor = self._cursor
        token, word, after = cursor.token, cursor.token.keyword, cursor.ahead()
        opens = after.keyword == "("
        if word in ("TRUE", "FALSE"):
            return Literal(cursor.advance().at, "BOOLEAN", word)
        if word == "NULL":
            return Literal(cursor.advance().at, "NULL", word)
        if word in ("DATE", "TIME", "TIMESTAMP") and after.kind is Kind.STRING:
            cursor.advance()
            return Literal(token.at, word, cursor.advance().text)
        if word == "INTERVAL" and (
            after.kind is Kind.STRING or after.keyword in ("-", "+") or after.kind is Kind.NUMBER
        ):
            return self._interval()
        if word == "CASE":
            return self._case()
        if word == "EXISTS" and opens:
            raise cursor.unsupported("EXISTS", "filter with a condition on the row's own columns")
        if word in ("ARRAY", "MAP") and after.keyword == "[":
            cursor.advance()
            return self._constructor(token.at, word)
        if opens and word in _SPECIAL:
            cursor.advance()
            return _SPECIAL[word](self, token.at, word)
        if word in _BARE_FUNCTIONS and not opens and after.keyword != ".":
            return Call(cursor.advance().at, word, ())
        if opens and (word not in RESERVED or word in ("LEFT", "RIGHT")):
            return self._call()
        if word in RESERVED - _COLUMNS_TOO:
            raise cursor.unexpected("an expression", f"quote it as `{token.shown}` if it is a column")
        return self._named()

    def _named(self) -> Tree:
        name = self._cursor.name("a column")
        if self._cursor.sees("("):
            raise self._cursor.unexpected("a column, not a function", "a function's name is not quoted")
        return Reference(name.at, (name,))

    def _call(self) -> Tree:
        cursor = self._cursor
        token = cursor.advance()
        name = token.keyword
        cursor.expect("(")
        if cursor.sees("*") or cursor.sees("DISTINCT"):
            raise cursor.unsupported(f"aggregate {name}", "aggregate after reading the sink's topic", token.at)
        args = self._arguments()
        if cursor.sees("OVER") or cursor.sees("FILTER") or cursor.sees("WITHIN"):
            raise cursor.unsupported(
                f"{name} with {cursor.token.keyword}", "compute it after reading the sink's topic", token.at
            )
        if name in _PARTS and len(args) == 1:
            return Extract(token.at, _UNIT_NAMES.get(name, name), args[0])
        return Call(token.at, name, args)

    def _arguments(self) -> tuple[Tree, ...]:
        """The arguments of a call, its opening parenthesis consumed, up to and with the closing one."""
        if self._cursor.take(")"):
            return ()
        args = self._cursor.listed(self.expression)
        self._cursor.expect(")")
        return args

    def _interval(self) -> Tree:
        cursor = self._cursor
        at = cursor.advance().at
        sign = "-" if cursor.take_any("-", "+") == "-" else ""
        text = sign + cursor.string("an interval in quotes, such as INTERVAL '1' DAY").text
        unit = self._interval_unit()
        if cursor.take("TO"):
            unit += " TO " + self._interval_unit()
        return Interval(at, text, unit)

    def _interval_unit(self) -> str:
        cursor = self._cursor
        unit = cursor.take_any(*_UNITS) or cursor.take_any(*(unit + "S" for unit in _UNITS)).removesuffix("S")
        if not unit:
            raise cursor.unexpected("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
        if cursor.sees("("):
            cursor.enclosed(cursor.advance)
        return unit

    def _case(self) -> Tree:
        cursor = self._cursor
        at = cursor.advance().at
        subject = None if cursor.sees("WHEN") else self.expression()
        branches = []
        while cursor.take("WHEN"):
            condition = self.expression()
            cursor.expect("THEN")
            branches.append((condition, self.expression()))
        if not branches:
            raise cursor.unexpected("WHEN")
        otherwise = self.expression() if cursor.take("ELSE") else None
        cursor.expect("END")
        return Case(at, subject, tuple(branches), otherwise)

    def _constructor(self, at: int, word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("[")
        args = () if cursor.sees("]") else cursor.listed(self.expression)
        cursor.expect("]")
        return Call(at, f"{word}[]", args)

    # --- functions with a grammar of their own; the name is consumed ----------------------------------------

    def _cast(self, at: int, word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        operand = self.expression()
        cursor.expect("AS")
        target = cursor.data_type()
        cursor.expect(")")
        return Cast(at, operand, target, word == "TRY_CAST")

    def _extract(self, at: int, _word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        unit = cursor.name("a unit such as YEAR").text.upper()
        cursor.expect("FROM")
        operand = self.expression()
        cursor.expect(")")
        return Extract(at, unit, operand)

    def _trim(self, at: int, _word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        side = cursor.take_any("BOTH", "LEADING", "TRAILING") if cursor.ahead().keyword not in (")", ",") else ""
        characters: tuple[Tree, ...] = ()
        if side and cursor.take("FROM"):
            operand = self.expression()
        else:
            operand = self.expression()
            if cursor.take("FROM"):
                characters, operand = (operand,), self.expression()
            elif side:
                raise cursor.unexpected("FROM")
        cursor.expect(")")
        return Call(at, {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side, "BTRIM"), (operand, *characters))

    def _substring(self, at: int, word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        text = self.expression()
        if cursor.take("FROM"):
            start = self.expression()
            length = (self.expression(),) if cursor.take("FOR") else ()
            cursor.expect(")")
            return Call(at, "SUBSTRING", (text, start, *length))
        rest = self._arguments() if cursor.take(",") else ()
        if not rest:
            cursor.expect(")")
        return Call(at, "SUBSTRING", (text, *rest))

    def _position(self, at: int, _word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        wanted = self._sum()
        cursor.expect("IN")
        text = self._sum()
        cursor.expect(")")
        return Call(at, "LOCATE", (wanted, text))

    def _rounding(self, at: int, word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        operand = self.expression()
        if cursor.sees("TO"):
            raise cursor.unsupported(f"{word}(.. TO ..)", "use DATE_FORMAT, or CAST to DATE", at)
        cursor.expect(")")
        return Call(at, word, (operand,))

    def _timestamp_arithmetic(self, at: int, word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        unit_at = cursor.at
        unit = cursor.name("a unit such as DAY").text.upper()
        cursor.expect(",")
        return Call(at, word, (Literal(unit_at, "STRING", unit), *self._arguments()))

    def _json_value(self, at: int, _word: str) -> Tree:
        cursor = self._cursor
        cursor.expect("(")
        document = self.expression()
        cursor.expect(",")
        call: Tree = Call(at, "JSON_VALUE", (document, self.expression()))
        if cursor.take("RETURNING"):
            call = Cast(at, call, cursor.data_type(nullability=False), safe=True)
        while cursor.token.keyword in ("NULL", "ERROR", "DEFAULT"):
            if not (cursor.take("NULL", "ON", "EMPTY") or cursor.take("NULL", "ON", "ERROR")):
                raise cursor.unsupported(
                    f"{cursor.token.keyword} ON EMPTY or ON ERROR", "use COALESCE(JSON_VALUE(..), default)"
                )
        cursor.expect(")")
        return call


_UNIT_NAMES = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY", "DAYOFWEEK": "DOW"}
_SPECIAL = {
    "CAST": Grammar._cast,
    "TRY_CAST": Grammar._cast,
    "EXTRACT": Grammar._extract,
    "TRIM": Grammar._trim,
    "SUBSTRING": Grammar._substring,
    "SUBSTR": Grammar._substring,
    "POSITION": Grammar._position,
    "CEIL": Grammar._rounding,
    "CEILING": Grammar._rounding,
    "FLOOR": Grammar._rounding,
    "TIMESTAMPADD": Grammar._timestamp_arithmetic,
    "TIMESTAMPDIFF": Grammar._timestamp_arithmetic,
    "JSON_VALUE": Grammar._json_value,
}
