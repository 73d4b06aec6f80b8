"""Schemas of tables that change: how types are widened, what changes there are, and what a pipeline does with them."""

from penstock.schemas.behavior import KIND_NAMES, ChangeFilter, SchemaChangeBehavior, derive_changes, describe_change
from penstock.schemas.changes import (
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
    apply_change,
)
from penstock.schemas.found_columns import FoundColumns
from penstock.schemas.versions import Schemas, SchemaVersion, Side
from penstock.schemas.widening import find_changes, widen_schema, widen_type

__all__ = [
    "KIND_NAMES",
    "AddColumns",
    "AlterColumnTypes",
    "AlterTableComment",
    "ChangeFilter",
    "CreateTable",
    "DropColumns",
    "DropTable",
    "FoundColumns",
    "NewColumn",
    "RenameColumns",
    "SchemaChange",
    "SchemaChangeBehavior",
    "SchemaVersion",
    "Schemas",
    "Side",
    "TableSchema",
    "TruncateTable",
    "apply_change",
    "derive_changes",
    "describe_change",
    "find_changes",
    "widen_schema",
    "widen_type",
]
