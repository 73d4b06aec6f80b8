"""Options: declared once, bound from SQL, YAML and Python alike, rendered into the reference."""

from penstock.options.codec import (
    BOOLEAN,
    CHARACTER,
    COMMA_LIST,
    DURATION,
    INTEGER,
    LIST,
    MAP,
    PATTERN,
    TEXT,
    Codec,
    choice,
    number,
    one_of,
    spell,
)
from penstock.options.options import (
    Absent,
    Option,
    OptionSet,
    Origin,
    Properties,
    Property,
    Rule,
    declared_properties,
    opt,
    opt_like,
    opt_without_effect,
    prop,
    read_properties,
    select_properties,
    unknown_keys,
)
from penstock.options.patterns import java_pattern
from penstock.options.secrets import MASK, mask_secrets
