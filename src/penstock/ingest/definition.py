"""The definition of a pipeline: plain values, before names are resolved."""

from __future__ import annotations

import enum
from dataclasses import MISSING, dataclass, field, fields
from datetime import timedelta
from typing import Any

from penstock.options import BOOLEAN, DURATION, TEXT, OptionSet, Origin, choice, one_of, opt
from penstock.settings import Settings

#: The only converter of rows.
SOFT_DELETE = "SOFT_DELETE"
_PATTERNS = (
    "Patterns of ids of tables, separated by commas. A dot separates the parts of an id, `\\.` is any character."
)


class RouteMode(enum.Enum):
    """Whether a table takes every route that matches it, or only the first."""

    ALL_MATCH = "ALL_MATCH"
    FIRST_MATCH = "FIRST_MATCH"


@dataclass(frozen=True, kw_only=True)
class PipelineOptions(OptionSet):
    """The options below ``pipeline``."""

    route_mode: RouteMode = opt(
        "route-mode",
        choice(RouteMode),
        default=RouteMode.ALL_MATCH,
        doc="Whether a table takes every route that matches it, or only the first.",
        example="FIRST_MATCH",
    )
    schema_change_behavior: str = opt(
        "schema.change.behavior",
        one_of("EXCEPTION", "EVOLVE", "TRY_EVOLVE", "LENIENT", "IGNORE", fold=str.upper),
        default="LENIENT",
        doc="What happens to the sink's tables when those of the source change. EVOLVE: they change too, and the job "
        "ends if the sink cannot; TRY_EVOLVE: it goes on; LENIENT: it goes on, and no column is lost; IGNORE: they "
        "stay as they are; EXCEPTION: the job ends.",
        example="EVOLVE",
    )
    trims_keys: bool = opt(
        "transform.allow.trimming.pk-columns",
        BOOLEAN,
        default=False,
        doc="Whether a transform may leave out columns of the primary key.",
        example="true",
    )
    decimal_mode: str = opt(
        "transform.decimal.precision.mode",
        one_of("UP_TO_19", "UP_TO_38", fold=str.upper),
        default="UP_TO_19",
        doc="How many digits a DECIMAL that a transform computes has at most. A value with more becomes NULL.",
        example="UP_TO_38",
    )
    operator_uid_prefix: str | None = opt(
        "operator.uid.prefix",
        TEXT,
        default=None,
        doc="Accepted without effect: a job finds its checkpoint by its name.",
        example="p",
    )
    rpc_timeout: timedelta | None = opt(
        "schema-operator.rpc-timeout",
        DURATION,
        default=None,
        doc="Accepted without effect: there is no schema operator.",
        example="3 min",
    )

    #: The job's name, and its settings, which are declared for all front ends (:mod:`penstock.settings.given`).
    name: str = ""
    settings: Settings = field(default_factory=Settings)


def _key(doc: str, default: Any = MISSING, *, values: tuple[str, ...] = (), shown: bool = True) -> Any:
    """Declare a field that is a key of an item, with its meaning and, if there are only a few, its ``values``. Without
    a ``default`` it is required. Only what is ``shown`` may be printed."""
    return field(default=default, metadata={"doc": doc, "values": values}, repr=shown)


@dataclass(frozen=True)
class ItemKey:
    """A key of the items of a list: its meaning, its values if there are only a few, and whether it is required."""

    name: str
    doc: str
    values: tuple[str, ...]
    required: bool


def keys_of(item: type[RouteDef | TransformDef | FunctionDef]) -> tuple[ItemKey, ...]:
    """The keys of the items of a list."""
    return tuple(
        ItemKey(each.name.replace("_", "-"), **each.metadata, required=each.default is MISSING)
        for each in fields(item)
        if each.metadata
    )


@dataclass(frozen=True)
class ConnectorDef:
    """A connector with its options. ``options`` are sorted pairs of text, ``origin`` has the place of each. ``written``
    is the text in the file of options with variables. Errors quote it, since a variable may be a secret."""

    type: str
    name: str
    options: tuple[tuple[str, str], ...] = field(repr=False)  # may hold passwords
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class SourceDef(ConnectorDef):
    """``source``."""


@dataclass(frozen=True)
class SinkDef(ConnectorDef):
    """``sink``. ``include`` and ``exclude`` are the lists of kinds of schema changes; None where one is not given."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RouteDef:
    """One item of ``route``."""

    source_table: str = _key(_PATTERNS)
    sink_table: str = _key("The table of the sink. `$1` is the first group of the pattern.")
    replace_symbol: str = _key("A text in 'sink-table' that the name of the source's table replaces.", "")
    description: str = _key("For people.", "")
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)


@dataclass(frozen=True)
class TransformDef:
    """One item of ``transform``."""

    source_table: str = _key(_PATTERNS)
    projection: str = _key("The columns, separated by commas; `\\*` are all of the source.", "")
    filter: str = _key("The condition of the rows that are kept.", "")
    primary_keys: tuple[str, ...] = _key("The columns of the primary key, separated by commas.", ())
    description: str = _key("For people.", "")
    partition_keys: tuple[str, ...] = _key("The columns that the sink's table is divided by, separated by commas.", ())
    table_options: tuple[tuple[str, str], ...] = _key(
        "Options of the sink's table: pairs `key=value`, separated by commas.", (), shown=False
    )  # may hold passwords
    converter_after_transform: str = _key("SOFT_DELETE: a deletion becomes an insertion.", "", values=("", SOFT_DELETE))
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)


@dataclass(frozen=True)
class FunctionDef:
    """One item of ``user-defined-function``: the name that SQL calls, and Python with one function ``eval``."""

    name: str = _key("The name in expressions.")
    python_code: str = _key("Python with one function `eval`, whose hints say its types.")
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)


@dataclass(frozen=True)
class CollectorDef:
    """``dirty-data.collector``: what keeps records that are left out. ``options`` are sorted pairs of text."""

    type: str
    options: tuple[tuple[str, str], ...] = ()
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)


@dataclass(frozen=True)
class PipelineDef:
    """A whole pipeline. ``warnings`` are about settings without effect, and entries that are read in another place."""

    source: SourceDef
    sink: SinkDef
    routes: tuple[RouteDef, ...] = ()
    transforms: tuple[TransformDef, ...] = ()
    pipeline: PipelineOptions = PipelineOptions()
    warnings: tuple[str, ...] = field(default=(), compare=False)
    functions: tuple[FunctionDef, ...] = ()
    collector: CollectorDef | None = None
