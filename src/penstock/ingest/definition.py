"""A pipeline as it was written: plain values, before names are resolved."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta

from penstock.options import DURATION, TEXT, OptionSet, Origin, choice, opt
from penstock.settings import Settings


class RouteMode(enum.Enum):
    """Whether a table takes every route that matches it, or only the first."""

    ALL_MATCH = "ALL_MATCH"
    FIRST_MATCH = "FIRST_MATCH"


class RuntimeMode(enum.Enum):
    """Flink's modes of execution."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"


class SchemaChangeBehavior(enum.Enum):
    """How a change of a source's schema is applied to the sink."""

    EXCEPTION = "EXCEPTION"
    EVOLVE = "EVOLVE"
    TRY_EVOLVE = "TRY_EVOLVE"
    LENIENT = "LENIENT"
    IGNORE = "IGNORE"


@dataclass(frozen=True, kw_only=True)
class PipelineOptions(OptionSet):
    """The options below ``pipeline``."""

    runtime_mode: RuntimeMode = opt(
        "execution.runtime-mode",
        choice(RuntimeMode),
        default=RuntimeMode.STREAMING,
        doc="Only STREAMING is supported. A job whose source has an end stops there.",
        example="STREAMING",
    )
    route_mode: RouteMode = opt(
        "route-mode",
        choice(RouteMode),
        default=RouteMode.ALL_MATCH,
        doc="Whether a table takes every route that matches it, or only the first.",
        example="FIRST_MATCH",
    )
    schema_change_behavior: SchemaChangeBehavior = opt(
        "schema.change.behavior",
        choice(SchemaChangeBehavior),
        default=SchemaChangeBehavior.LENIENT,
        doc="How changes of a schema are applied. Schemas are static so far, so it has no effect.",
        example="EVOLVE",
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

    #: The job's name, and its settings, which are declared for all front ends (:mod:`penstock.settings.declared`).
    name: str = ""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class SourceDef:
    """``source``. ``options`` are sorted pairs of text, ``origin`` has the place of each. ``written`` is the text in
    the file of options with variables. Errors quote it, since a variable may be a secret."""

    type: str
    name: str
    options: tuple[tuple[str, str], ...] = field(repr=False)  # may hold passwords
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class SinkDef:
    """``sink``; as :class:`SourceDef`."""

    type: str
    name: str
    options: tuple[tuple[str, str], ...] = field(repr=False)
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class RouteDef:
    """One item of ``route``."""

    source_table: str
    sink_table: str
    replace_symbol: str = ""
    description: str = ""
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)


@dataclass(frozen=True)
class TransformDef:
    """One item of ``transform``."""

    source_table: str
    projection: str = ""
    filter: str = ""
    primary_keys: tuple[str, ...] = ()
    description: str = ""
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)


@dataclass(frozen=True)
class PipelineDef:
    """A whole pipeline. ``warnings`` are about text that is not read as it was written."""

    source: SourceDef
    sink: SinkDef
    routes: tuple[RouteDef, ...] = ()
    transforms: tuple[TransformDef, ...] = ()
    pipeline: PipelineOptions = PipelineOptions()
    warnings: tuple[str, ...] = field(default=(), compare=False)
