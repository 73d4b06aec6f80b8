"""CREATE TABLE .. LIKE: a statement that includes the parts of another table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.errors import SqlError
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.statements import ColumnDeclaration, CreateTable, GivenOption, LikeRule, PrimaryKey
from penstock.sql.parse.syntax import Name, Unbound

_T = TypeVar("_T")


def apply_like(statement: CreateTable, base: CreateTable, source: SourceText) -> CreateTable:
    """``statement`` with the parts of ``base`` that its LIKE clause asks for. Raises SqlError for parts that both have,
    unless they are excluded or overwritten."""
    like = statement.like
    assert like is not None  # noqa: S101 - only such statements are merged
    merge = _Merge(with_key(statement), base, source, _read_rules(like.rules, source))
    return replace(
        statement,
        columns=merge.columns(),
        primary_key=merge.primary_key(),
        watermark=merge.watermark(),
        partitioned_by=merge.partitions(),
        options=merge.options(),
        comment=statement.comment or base.comment,
        like=None,
    )


def with_key(statement: CreateTable) -> CreateTable:
    """The statement, with the key of a column that is marked as PRIMARY KEY as that of the table."""
    marked = [each.name for each in statement.columns if each.primary_key]
    if len(marked) != 1 or statement.primary_key is not None:
        return statement
    columns = tuple(replace(each, primary_key=False) for each in statement.columns)
    return replace(statement, columns=columns, primary_key=PrimaryKey(tuple(marked), "", marked[0].at))


def _read_rules(given: Sequence[LikeRule], source: SourceText) -> dict[str, str]:
    """The rule of each feature."""
    found: dict[str, str] = {}
    for each in given:
        if each.feature in found:
            raise source.error(each.at, f"{each.feature} is named twice in LIKE", "name it once")
        found[each.feature] = each.merging
    general = found.pop("ALL", "")
    features = ("CONSTRAINTS", "PARTITIONS", "GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
    rules = {each: general or ("OVERWRITING" if each == "OPTIONS" else "INCLUDING") for each in features}
    return rules | found


@dataclass(frozen=True)
class _Merge:
    statement: CreateTable
    base: CreateTable
    source: SourceText
    rules: dict[str, str]

    def columns(self) -> tuple[ColumnDeclaration, ...]:
        """The columns of the other table, without those that are left out or replaced, then the own ones."""
        own = {each.name.text: each for each in self.statement.columns}
        kept = []
        for each in self.base.columns:
            rule = "INCLUDING" if each.physical else self.rules["GENERATED" if each.expression else "METADATA"]
            again = own.get(each.name.text)
            if rule == "EXCLUDING":
                continue
            if again is None:
                kept.append(each)
                continue
            if rule == "OVERWRITING" and _classify(again) == _classify(each):
                kept.append(own.pop(each.name.text))
                continue
            reason = f"column '{each.name.text}' is also in table '{self.base.table.text}'"
            hint = "leave it out"
            if not each.physical and _classify(again) == _classify(each):
                feature = "GENERATED" if each.expression else "METADATA"
                hint = f"write EXCLUDING {feature} or OVERWRITING {feature}"
            raise self.source.error(again.name.at, reason, hint)
        return (*kept, *own.values())

    def primary_key(self) -> PrimaryKey | None:
        """The primary key of one of the two."""
        own, other = self.statement.primary_key, self._take_base("CONSTRAINTS", self.base.primary_key)
        if own is not None and other is not None:
            raise self._twice_error(own.at, "a PRIMARY KEY", "write EXCLUDING CONSTRAINTS")
        return own or other

    def partitions(self) -> tuple[Name, ...]:
        """The columns of PARTITIONED BY of one of the two."""
        own, other = self.statement.partitioned_by, self._take_base("PARTITIONS", self.base.partitioned_by)
        if own and other:
            raise self._twice_error(own[0].at, "PARTITIONED BY", "write EXCLUDING PARTITIONS")
        return own or other or ()

    def watermark(self) -> tuple[Name, Unbound] | None:
        """The watermark of one of the two."""
        own, other = self.statement.watermark, self._take_base("WATERMARKS", self.base.watermark)
        if own is not None and other is not None and self.rules["WATERMARKS"] != "OVERWRITING":
            raise self._twice_error(own[0].at, "a watermark", "write EXCLUDING WATERMARKS or OVERWRITING WATERMARKS")
        return own or other

    def options(self) -> tuple[GivenOption, ...]:
        """The options of both."""
        own = {key.text for key, _ in self.statement.options}
        others = self._take_base("OPTIONS", self.base.options) or ()
        twice = next((key for key, _ in others if key.text in own), None)
        if twice is not None and self.rules["OPTIONS"] != "OVERWRITING":
            at = next(key.at for key, _ in self.statement.options if key.text == twice.text)
            raise self._twice_error(at, f"option '{twice.text}'", "write EXCLUDING OPTIONS or OVERWRITING OPTIONS")
        return (*(each for each in others if each[0].text not in own), *self.statement.options)

    def _take_base(self, feature: str, part: _T | None) -> _T | None:
        return None if self.rules[feature] == "EXCLUDING" else part

    def _twice_error(self, at: int, part: str, hint: str) -> SqlError:
        return self.source.error(at, f"table '{self.base.table.text}' also has {part}", hint)


def _classify(column: ColumnDeclaration) -> tuple[bool, bool]:
    return column.physical, column.expression is not None
