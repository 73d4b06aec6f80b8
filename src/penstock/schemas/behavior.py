"""What a pipeline does with the changes of a schema: ``schema.change.behavior``, ``include.schema.changes`` and
``exclude.schema.changes``, as in Flink CDC (``SchemaDerivator``, ``ChangeEventUtils``)."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from penstock.errors import Problem, SchemaError, nearest
from penstock.schemas.changes import (
    KINDS,
    AddColumns,
    AlterColumnTypes,
    AlterTableComment,
    CreateTable,
    DropColumns,
    DropTable,
    NewColumn,
    RenameColumns,
    SchemaChange,
    TableSchema,
    TruncateTable,
    allow_null,
    apply_change,
)
from penstock.types import DataType


class SchemaChangeBehavior(enum.Enum):
    """How changes of a schema are applied to the sink."""

    EXCEPTION = "EXCEPTION"
    EVOLVE = "EVOLVE"
    TRY_EVOLVE = "TRY_EVOLVE"
    LENIENT = "LENIENT"
    IGNORE = "IGNORE"


#: The changes that lenient pipelines leave out unless ``exclude.schema.changes`` is given.
_LEFT_OUT = (DropTable.kind, TruncateTable.kind)
_GROUPS = tuple(sorted({part for kind in KINDS for part in kind.split(".")[:2]}))
#: All names that stand for kinds of changes.
KIND_NAMES = ("all", *_GROUPS, *KINDS)


@dataclass(frozen=True)
class ChangeFilter:
    """The kinds of changes that reach a sink. A new table does unless it is excluded by name."""

    kinds: frozenset[str]

    @classmethod
    def from_options(
        cls, include: Collection[str] | None, exclude: Collection[str] | None, behavior: SchemaChangeBehavior
    ) -> ChangeFilter:
        """By the lists of the options; None where an option is not given. Items are those of :func:`find_kinds`.

        Raises SchemaError for an item that names no change.
        """
        included = {kind for item in include or () for kind in find_kinds(item)} if include else set(KINDS)
        if exclude is None:
            excluded = set(_LEFT_OUT) if behavior is SchemaChangeBehavior.LENIENT else set()
        else:
            excluded = {kind for item in exclude for kind in find_kinds(item)}
        return cls(frozenset((included | {CreateTable.kind}) - excluded))

    def select(self, changes: Iterable[SchemaChange]) -> tuple[SchemaChange, ...]:
        """The changes that reach the sink."""
        return tuple(each for each in changes if each.kind in self.kinds)


def find_kinds(name: str) -> frozenset[str]:
    """The kinds of changes that ``name`` stands for: one by its whole name, those with one verb (``drop``) or of one
    thing (``column``), or ``all``. Raises SchemaError if there are none."""
    text = name.strip().lower()
    found = frozenset(kind for kind in KINDS if text in ("all", kind, *kind.split(".")[:2]))
    if not found:
        known = f"write 'all', one of {', '.join(_GROUPS)}, or one of {', '.join(KINDS)}"
        hint = nearest(text, (*KINDS, *_GROUPS)) or known
        raise SchemaError((Problem(f"there is no change of a schema '{name}'", hint=hint),))
    return found


def derive_changes(
    changes: Iterable[SchemaChange], schema: TableSchema | None, behavior: SchemaChangeBehavior
) -> tuple[SchemaChange, ...]:
    """The changes of the sink's table that follow from changes of its source's. ``schema`` is that of the sink's table
    before them, None if it does not exist.

    Raises SchemaError under EXCEPTION for every change but a new table.
    """
    derived: list[SchemaChange] = []
    for change in changes:
        for each in _derive(change, schema, behavior):
            schema = apply_change(schema, each)
            derived.append(each)
    return tuple(derived)


def _derive(change: SchemaChange, schema: TableSchema | None, behavior: SchemaChangeBehavior) -> Iterator[SchemaChange]:
    if isinstance(change, CreateTable):
        yield change
    elif behavior is SchemaChangeBehavior.EXCEPTION:
        reason = (
            f"the schema of '{change.table}' changes ({describe_change(change)}), and this pipeline allows no change"
        )
        hint = "change the tables by hand, or set 'schema.change.behavior' to 'lenient' or 'evolve'"
        raise SchemaError((Problem(reason, "schema.change.behavior", hint=hint),))
    elif behavior is SchemaChangeBehavior.LENIENT:
        yield from _make_lenient(change, schema)
    elif behavior is not SchemaChangeBehavior.IGNORE:
        yield change


def _make_lenient(change: SchemaChange, schema: TableSchema | None) -> Iterator[SchemaChange]:
    """A change that keeps all columns, and leaves former rows valid."""
    match change:
        case AddColumns(columns=columns):
            yield AddColumns(change.table, tuple(NewColumn(allow_null(each.field)) for each in columns))
        case DropColumns(names=names):
            yield from _allow_nulls(change.table, names, schema)
        case RenameColumns(names=pairs) if schema is not None:
            fields = {each.name: each for each in schema.row.fields}
            renamed = (replace(allow_null(fields[old]), name=new) for old, new in pairs if old in fields)
            yield AddColumns(change.table, tuple(map(NewColumn, renamed)))
            yield from _allow_nulls(change.table, [old for old, _ in pairs], schema)
        case _:
            yield change


def _allow_nulls(table: str, names: Iterable[str], schema: TableSchema | None) -> Iterator[SchemaChange]:
    """The change that makes these columns nullable, if one of them is not."""
    fields = {each.name: each for each in schema.row.fields} if schema is not None else {}
    types: list[tuple[str, DataType]] = [
        (name, allow_null(fields[name]).type) for name in names if name in fields and not fields[name].type.nullable
    ]
    if types:
        yield AlterColumnTypes(table, tuple(types))


def describe_change(change: SchemaChange) -> str:
    """A human-readable description of a change, one line."""
    match change:
        case CreateTable(schema=schema):
            return f"new table with {', '.join(map(str, schema.row.fields))}"
        case AddColumns(columns=columns):
            return f"new columns {', '.join(str(each.field) for each in columns)}"
        case AlterColumnTypes(types=types):
            return f"other types: {', '.join(f'`{name}` {each}' for name, each in types)}"
        case RenameColumns(names=pairs):
            return f"renamed columns {', '.join(f'`{old}` to `{new}`' for old, new in pairs)}"
        case DropColumns(names=names):
            return f"dropped columns {', '.join(f'`{name}`' for name in names)}"
        case AlterTableComment(comment=comment):
            return f"the table's comment is '{comment}'"
        case DropTable():
            return "the table is dropped"
    return "the table is truncated"
