"""The grammar of queries: SELECT, joins, UNION and WITH."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

from penstock.plan.nodes import JoinKind, SetKind
from penstock.sql.parse.syntax import (
    Hint,
    Name,
    NamedQuery,
    OverWindow,
    SelectItem,
    Star,
    Unbound,
    UnboundCall,
    UnboundDerived,
    UnboundJoin,
    UnboundQuery,
    UnboundSelect,
    UnboundSetOperation,
    UnboundSorted,
    UnboundSource,
    UnboundTable,
    UnboundUnion,
    UnboundUnnest,
    UnboundValues,
    UnboundWindow,
    UnboundWith,
)
from penstock.sql.parse.tokens import Token, TokenType
from penstock.sql.parse.windows import WindowGrammar

#: Words that follow a table or a query in Flink only: the feature, and what to do instead.
_AFTERWARDS = {
    "QUALIFY": ("QUALIFY", "filter the rows of a query in FROM with WHERE"),
    "MATCH_RECOGNIZE": (
        "MATCH_RECOGNIZE",
        "a join of a table with itself finds rows that follow one another, on a key and with times BETWEEN",
    ),
    "FOR": (
        "FOR SYSTEM_TIME AS OF",
        "a plain JOIN changes its rows when one of the two tables changes later, keeps both tables as state, and "
        "needs a sink that takes changes",
    ),
    "TABLESAMPLE": ("TABLESAMPLE", "filter with WHERE"),
}
_SETS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_KINDS = {kind.name: kind for kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)}
#: Words that begin a query.
_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_BEFORE_JOIN = ("JOIN", "NATURAL", "CROSS", *_KINDS)


class QueryGrammar(WindowGrammar):
    """Parses queries. Raises SqlError or UnsupportedError with the place."""

    def query(self) -> UnboundQuery:
        at = self.at
        if not self.take("WITH"):
            return self._parse_sorting(self._union(self._member()))
        if self.sees("RECURSIVE"):
            raise self.unsupported_feature("WITH RECURSIVE", "write out the steps")
        return UnboundWith(at, self.parse_list(self._named_query), self._parse_sorting(self._union(self._member())))

    def _parse_sorting(self, query: UnboundQuery) -> UnboundQuery:
        at, limit, offset = self.at, None, 0
        order = self.parse_list(self._sort_key) if self.take("ORDER", "BY") else ()
        while word := self.take_any("LIMIT", "OFFSET", "FETCH"):
            if word == "OFFSET":
                offset = self._count()
                self.take_any("ROW", "ROWS")
            elif word == "FETCH":
                self.take_any("FIRST", "NEXT")
                limit = self._count()
                self.take_any("ROW", "ROWS")
                self.expect("ONLY")
            elif not self.take("ALL"):
                limit = self._count()
                if self.take(","):
                    offset, limit = limit, self._count()
        if self.at == at:
            return query
        return UnboundSorted(query.at, query, order, limit, offset, at)

    def _count(self) -> int:
        if self.token.type is not TokenType.NUMBER or not self.token.text.isdigit():
            raise self.unexpected_token("a number of rows")
        return int(self.advance().text)

    def _named_query(self) -> NamedQuery:
        name = self.name("a query's name")
        columns = self._columns()
        self.expect("AS", "(")
        query = self.query()
        self.expect(")")
        return NamedQuery(name, columns, query)

    def _union(self, left: UnboundQuery) -> UnboundQuery:
        left = self._intersection(left)
        while word := self.take_any("UNION", "EXCEPT", "MINUS"):
            keeps = self.take_any("ALL", "DISTINCT") == "ALL"
            right = self._intersection(self._member())
            if word == "UNION":
                left = UnboundUnion(left.at, left, right, keeps)
            else:
                kind = SetKind.EXCEPT_ALL if keeps else SetKind.EXCEPT
                left = UnboundSetOperation(left.at, left, right, kind)
        self._refuse_afterwards()
        return left

    def _intersection(self, left: UnboundQuery) -> UnboundQuery:
        while self.take("INTERSECT"):
            keeps = self.take_any("ALL", "DISTINCT") == "ALL"
            kind = SetKind.INTERSECT_ALL if keeps else SetKind.INTERSECT
            left = UnboundSetOperation(left.at, left, self._member(), kind)
        return left

    def _member(self) -> UnboundQuery:
        if self.take("("):
            inner = self.query()
            self.expect(")")
            return inner
        at = self.at
        if self.take("VALUES"):
            return UnboundValues(at, self.parse_list(self._row))
        if self.take("TABLE"):
            table = UnboundTable(self.at, self.table_name(), hints=self.hints())
            return UnboundSelect(at, (SelectItem(Star(table.at), None),), table)
        return self._select()

    def _select(self) -> UnboundSelect:
        at = self.at
        self.expect("SELECT")
        hints = self.hints()
        distinct = self.take_any("DISTINCT", "ALL") == "DISTINCT"
        items = self.items()
        if not self.take("FROM"):
            self._refuse_afterwards()
            return UnboundSelect(at, items, None, distinct=distinct, hints=hints)
        source = self._source()
        condition = self.expression() if self.take("WHERE") else None
        grouping = self._grouping() if self.take("GROUP", "BY") else None
        having = self.expression() if self.take("HAVING") else None
        windows = self._windows() if self.take("WINDOW") else ()
        self._refuse_afterwards()
        return UnboundSelect(at, items, source, condition, grouping, having, distinct, hints, windows)

    def _windows(self) -> tuple[tuple[Name, OverWindow], ...]:
        """The windows that functions are OVER, by their names, of which no two are equal."""
        found: dict[str, tuple[Name, OverWindow]] = {}
        for name, window in self.parse_list(self._named_window):
            if name.text in found:
                raise self.source.error(
                    name.at, f"there are two windows '{name.text}'", "give one of them another name"
                )
            found[name.text] = name, window
        return tuple(found.values())

    def _named_window(self) -> tuple[Name, OverWindow]:
        name = self.name("the name of a window")
        self.expect("AS")
        return name, self.over_window()

    def _row(self) -> tuple[Unbound, ...]:
        self.take("ROW")
        return self.parse_enclosed(self.expression) if self.sees("(") else (self.expression(),)

    def hints(self) -> tuple[Hint, ...]:
        """Hints in ``/*+ .. */``, if they come next."""
        if not self._sees_hint("/*+"):
            return ()
        self.advance()
        found = self.parse_list(self._hint)
        if not self._sees_hint("*/"):
            raise self.unexpected_token("'*/'", "a hint is NAME('key' = 'value')")
        self.advance()
        return found

    def _sees_hint(self, mark: str) -> bool:
        return self.token.type is TokenType.HINT and self.token.text == mark

    def _hint(self) -> Hint:
        name = self.name("a hint's name")
        name = Name(name.text.upper(), name.at)
        given = self.parse_enclosed(self._hint_option) if self.sees("(") else ()
        return Hint(name, tuple(each for each in given if each is not None))

    def _hint_option(self) -> tuple[Token, Token] | None:
        if self.token.type is not TokenType.STRING:
            self.name("a table or an option in quotes")
            return None
        key = self.advance()
        if not self.take("="):
            return None
        return key, self.string("a value in quotes")

    def _refuse_afterwards(self) -> None:
        if self.token.type is TokenType.HINT:
            raise self.unsupported_feature("a hint", "put the options into the table's WITH clause")
        if self.token.keyword in _AFTERWARDS:
            raise self.unsupported_feature(*_AFTERWARDS[self.token.keyword])
        if self.token.keyword in ("PIVOT", "UNPIVOT") and self.peek().keyword == "(":
            hint = "aggregate with FILTER (WHERE ..) for each column, or write UNION ALL of a query for each"
            raise self.unsupported_feature(self.token.keyword, hint)

    def _grouping(self) -> tuple[tuple[Unbound, ...], ...]:
        """The sets of GROUP BY: the cross product of its elements' sets."""
        found: tuple[tuple[Unbound, ...], ...] = ((),)
        for sets in self.parse_list(self._parse_group_by):
            found = tuple((*one, *other) for one in found for other in sets)
        return found

    def _parse_group_by(self) -> tuple[tuple[Unbound, ...], ...]:
        if self.take("(", ")"):
            return ((),)
        if self.take("GROUPING", "SETS"):
            return tuple(each for sets in self.parse_enclosed(self._grouping_set) for each in sets)
        word = self.token.keyword
        if word in ("ROLLUP", "CUBE") and self.peek().keyword == "(":
            self.advance()
            units = self.parse_enclosed(self._grouping_unit)
            if word == "ROLLUP":
                chosen = [units[:count] for count in range(len(units), -1, -1)]
            else:
                sizes = range(len(units), -1, -1)
                chosen = [part for size in sizes for part in itertools.combinations(units, size)]
            return tuple(tuple(each for unit in part for each in unit) for part in chosen)
        return (self._grouping_unit(),)

    def _grouping_set(self) -> tuple[tuple[Unbound, ...], ...]:
        if self.sees("GROUPING") or self.token.keyword in ("ROLLUP", "CUBE"):
            return self._parse_group_by()
        return (self._grouping_unit(),)

    def _grouping_unit(self) -> tuple[Unbound, ...]:
        """One expression, or several in parentheses."""
        if self.take("(", ")"):
            return ()
        opens = self.sees("(")
        found = self.expression()
        several = opens and isinstance(found, UnboundCall) and found.name == "ROW"
        return found.args if several and isinstance(found, UnboundCall) else (found,)

    # --- FROM ---------------------------------------------------------------------------------------------------

    def _source(self) -> UnboundSource:
        left = self._parse_joins()
        while self.sees(","):
            at = self.advance().at
            left = UnboundJoin(at, JoinKind.INNER, left, self._parse_joins())
        self._refuse_afterwards()
        return left

    def _parse_joins(self) -> UnboundSource:
        left = self._table()
        while self.token.keyword in _BEFORE_JOIN:
            left = self._join(left)
        return left

    def _join(self, left: UnboundSource) -> UnboundJoin:
        at = self.at
        if self.take("CROSS"):
            self.expect("JOIN")
            return UnboundJoin(at, JoinKind.INNER, left, self._table())
        natural = self.take("NATURAL")
        kind = _KINDS[self.take_any(*_KINDS) or "INNER"]
        if kind is not JoinKind.INNER:
            self.take("OUTER")
        self.expect("JOIN")
        right = self._table()
        if natural:
            return UnboundJoin(at, kind, left, right, natural=True)
        if self.take("USING"):
            return UnboundJoin(at, kind, left, right, using=self.parse_enclosed(partial(self.name, "a column")))
        if not self.sees("ON"):
            raise self.unexpected_token("ON or USING", "CROSS JOIN has neither")
        self.expect("ON")
        return UnboundJoin(at, kind, left, right, self.expression())

    def _table(self) -> UnboundSource:
        at = self.at
        if self.sees("LATERAL", "(") and self.peek(2).keyword in _QUERIES:
            self.expect("LATERAL", "(")
            derived = UnboundDerived(at, self.query(), lateral=True)
            self.expect(")")
            return self._with_alias(derived)
        if self.sees("LATERAL"):
            raise self.unsupported_feature(
                "LATERAL",
                "CROSS JOIN UNNEST(..) expands the array or map of a row; a query in FROM cannot use columns of the "
                "other table, one in SELECT or WHERE can",
            )
        found: UnboundSource
        if self.take("UNNEST", "("):
            found = self._unnest(at)
        elif self.sees_window_table():
            found = self.window_table(lambda: self._parse_derived_table(at))
        elif self.sees("TABLE", "("):
            raise self.unsupported_feature(f"the table function {self.peek(2).shown}", "name a table")
        elif self.take("("):
            found = self._parse_derived_table(at)
        else:
            found = UnboundTable(at, self.table_name(), hints=self.hints())
        if self.sees("("):
            name = found.table.text if isinstance(found, UnboundTable) else "after a query"
            raise self.unsupported_feature(
                f"the table function {name}",
                "the table functions are UNNEST(..), and TUMBLE, HOP, CUMULATE and SESSION in TABLE(..)",
                at,
            )
        return self._with_alias(found)

    def _with_alias(self, found: UnboundSource) -> UnboundSource:
        """A table with the names that follow it."""
        self._refuse_afterwards()
        if isinstance(found, UnboundJoin):
            return found
        alias = self._alias("a table's alias")
        columns = self._columns() if alias is not None else ()
        self._refuse_afterwards()
        if alias is not None and isinstance(found, UnboundTable | UnboundDerived | UnboundWindow | UnboundUnnest):
            return replace(found, alias=alias, columns=columns)
        return found

    def _unnest(self, at: int) -> UnboundUnnest:
        """UNNEST, after its opening parenthesis."""
        collection = self.expression()
        if self.sees(","):
            raise self.unsupported_feature("UNNEST of several collections", "join with UNNEST for each of them")
        self.expect(")")
        return UnboundUnnest(at, collection, self.take("WITH", "ORDINALITY"))

    def _parse_derived_table(self, at: int) -> UnboundSource:
        """A query or a join, after its opening parenthesis."""
        if self.token.keyword in _QUERIES and not self.sees("TABLE", "("):
            found: UnboundSource = UnboundDerived(at, self.query())
        else:
            found = self._parse_joins()
            if self.token.keyword in _SETS and isinstance(found, UnboundDerived) and found.alias is None:
                found = UnboundDerived(at, self._union(found.query))
        self.expect(")")
        return found

    def _columns(self) -> tuple[Name, ...]:
        """New names of columns, in parentheses."""
        return self.parse_enclosed(partial(self.name, "a column")) if self.sees("(") else ()
