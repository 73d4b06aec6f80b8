"""ALTER TABLE: the CREATE TABLE statement after a change."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import SqlError
from penstock.plan.expressions import columns_of
from penstock.sql.bind.tables.definitions import ComputedColumn, DeclaredTable
from penstock.sql.parse.source import SourceText, suggest_name
from penstock.sql.parse.statements import (
    Change,
    ColumnDeclaration,
    CreateTable,
    DropColumns,
    DropKey,
    DropWatermark,
    PlacedColumn,
    PutColumns,
    RenameColumn,
    ResetOptions,
    SetOptions,
)
from penstock.sql.parse.syntax import Name


@dataclass(frozen=True)
class Alteration:
    """Changes of the table that ``statement`` declares, and that is ``found`` so far."""

    statement: CreateTable
    found: DeclaredTable
    source: SourceText

    def apply(self, change: Change) -> CreateTable:
        """The statement after a change. Raises SqlError for one that does not fit the table."""
        match change:
            case SetOptions(options=options):
                new = {key.text for key, _ in options}
                kept = (each for each in self.statement.options if each[0].text not in new)
                return replace(self.statement, options=(*kept, *options))
            case ResetOptions():
                return self._reset_options(change)
            case RenameColumn():
                return self._rename_column(change)
            case PutColumns():
                return self._put_columns(change)
            case DropColumns(columns=columns):
                return self._drop_columns(columns)
            case DropKey():
                return self._drop_key(change)
            case DropWatermark(at=at):
                if self.statement.watermark is None:
                    raise self.source.error(at, "the table has no watermark", "leave it out")
                return replace(self.statement, watermark=None)
        raise TypeError(f"unknown change {type(change).__name__}")

    def _reset_options(self, change: ResetOptions) -> CreateTable:
        keys = {key.text for key in change.keys}
        if "connector" in keys:
            at = next(key.at for key in change.keys if key.text == "connector")
            raise self.source.error(at, "'connector' cannot be reset", "set another one")
        kept = tuple(each for each in self.statement.options if each[0].text not in keys)
        return replace(self.statement, options=kept)

    # --- columns ----------------------------------------------------------------------------------------------

    def _rename_column(self, change: RenameColumn) -> CreateTable:
        old, new = change.column, change.to
        self._check_known(old)
        self._check_new(new)
        self._check_unused(old, in_key=False)

        def now(name: Name) -> Name:
            return new if name.text == old.text else name

        statement = self.statement
        columns = tuple(replace(each, name=now(each.name)) for each in statement.columns)
        key = statement.primary_key
        if key is not None:
            key = replace(key, columns=tuple(map(now, key.columns)))
        return replace(statement, columns=columns, primary_key=key)

    def _put_columns(self, change: PutColumns) -> CreateTable:
        columns = list(self.statement.columns)
        for each in change.columns:
            self._place_column(columns, each, change.modify)
        key, watermark = self.statement.primary_key, self.statement.watermark
        if change.primary_key is not None:
            self._check_part(change.primary_key.at, "primary key", key is not None, change.modify)
            key = change.primary_key
        if change.watermark is not None:
            self._check_part(change.watermark[0].at, "watermark", watermark is not None, change.modify)
            watermark = change.watermark
        return replace(self.statement, columns=tuple(columns), primary_key=key, watermark=watermark)

    def _place_column(self, columns: list[ColumnDeclaration], placed: PlacedColumn, modify: bool) -> None:
        column = placed.column
        names = [each.name.text for each in columns]
        if modify:
            self._check_known(column.name)
            at = names.index(column.name.text)
            del columns[at], names[at]
        elif column.name.text in names:
            raise self._exists_error(column.name)
        else:
            at = len(columns)
        if placed.after is not None:
            if placed.after.text not in names:
                raise self._unknown_error(placed.after)
            at = names.index(placed.after.text) + 1
        columns.insert(0 if placed.first else at, column)

    def _drop_columns(self, dropped: tuple[Name, ...]) -> CreateTable:
        for each in dropped:
            self._check_known(each)
            self._check_unused(each, in_key=True, beside={other.text for other in dropped})
        names = {each.text for each in dropped}
        columns = tuple(each for each in self.statement.columns if each.name.text not in names)
        if not columns:
            raise self.source.error(dropped[0].at, "a table needs at least one column", "DROP TABLE it")
        return replace(self.statement, columns=columns)

    def _drop_key(self, change: DropKey) -> CreateTable:
        key = self.statement.primary_key
        if key is None:
            raise self.source.error(change.at, "the table has no PRIMARY KEY", "leave it out")
        if change.name is not None and change.name.text != key_name(self.statement):
            reason = f"the table has no constraint '{change.name.text}'"
            raise self.source.error(change.name.at, reason, f"its key is called '{key_name(self.statement)}'")
        return replace(self.statement, primary_key=None)

    # --- checks -----------------------------------------------------------------------------------------------

    def _check_known(self, name: Name) -> None:
        if name.text not in {each.name.text for each in self.statement.columns}:
            raise self._unknown_error(name)

    def _check_new(self, name: Name) -> None:
        if name.text in {each.name.text for each in self.statement.columns}:
            raise self._exists_error(name)

    def _check_part(self, at: int, part: str, there: bool, modify: bool) -> None:
        if there and not modify:
            raise self.source.error(at, f"the table already has a {part}", "write MODIFY, or DROP it first")
        if modify and not there:
            raise self.source.error(at, f"the table has no {part} that could be modified", "write ADD")

    def _check_unused(self, name: Name, *, in_key: bool, beside: set[str] | None = None) -> None:
        """Raises SqlError for a column that other parts of the table need, except computed columns ``beside`` it."""
        for column in self.found.definition.columns:
            if column.name in (beside or ()):
                continue
            if isinstance(column, ComputedColumn) and name.text in columns_of(column.expression):
                raise self._in_use_error(name, f"by computed column '{column.name}'")
        key, watermark = self.statement.primary_key, self.found.watermark
        if in_key and key is not None and name.text in {each.text for each in key.columns}:
            raise self._in_use_error(name, "as a part of the PRIMARY KEY")
        if name.text in {each.text for each in self.statement.partitioned_by}:
            raise self._in_use_error(name, "by PARTITIONED BY")
        if watermark is not None and (name.text == self.found.event_time or name.text in columns_of(watermark)):
            raise self._in_use_error(name, "by the watermark")

    def _in_use_error(self, name: Name, by: str) -> SqlError:
        return self.source.error(name.at, f"column '{name.text}' is used {by}", "change that first")

    def _exists_error(self, name: Name) -> SqlError:
        return self.source.error(name.at, f"column '{name.text}' already exists", "use another name, or MODIFY it")

    def _unknown_error(self, name: Name) -> SqlError:
        hint = suggest_name(name.text, (each.name.text for each in self.statement.columns))
        return self.source.error(name.at, f"there is no column '{name.text}'", hint)


def key_name(statement: CreateTable) -> str:
    """The name of a table's primary key, by default Flink's."""
    key = statement.primary_key
    if key is None:
        return ""
    return key.name or "PK_" + "_".join(each.text for each in key.columns)
