"""Options: declared once, bound from SQL, YAML and Python alike, rendered into the reference."""

from penstock.options.codec import (
    BOOLEAN,
    CHARACTER,
    DURATION,
    INTEGER,
    LIST,
    MAP,
    MEMORY,
    PATTERN,
    TEXT,
    Codec,
    choice,
)
from penstock.options.options import (
    Option,
    OptionSet,
    Origin,
    Properties,
    Rule,
    nearest,
    opt,
    properties_of,
    unknown_keys,
)
from penstock.options.patterns import java_pattern

__all__ = [
    "BOOLEAN",
    "CHARACTER",
    "DURATION",
    "INTEGER",
    "LIST",
    "MAP",
    "MEMORY",
    "PATTERN",
    "TEXT",
    "Codec",
    "Option",
    "OptionSet",
    "Origin",
    "Properties",
    "Rule",
    "choice",
    "java_pattern",
    "nearest",
    "opt",
    "properties_of",
    "unknown_keys",
]
