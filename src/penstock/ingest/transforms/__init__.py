"""The rules of ``transform``, bound to one table, and computed on its rows."""

from penstock.ingest.transforms.binding import DecimalPrecisionMode, TransformBinder
from penstock.ingest.transforms.derived_columns import METADATA, DerivedColumns
from penstock.ingest.transforms.rules import choose_rule, split_table_options, unescape_stars
from penstock.ingest.transforms.table_transform import BoundRule, TableTransform

__all__ = [
    "METADATA",
    "BoundRule",
    "DecimalPrecisionMode",
    "DerivedColumns",
    "TableTransform",
    "TransformBinder",
    "choose_rule",
    "split_table_options",
    "unescape_stars",
]
