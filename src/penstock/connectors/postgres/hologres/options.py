"""The options of the ``hologres`` connector, with the names of Realtime Compute."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from penstock.connectors.postgres.address import Address, parse_address
from penstock.connectors.postgres.options import PostgresSinkOptions, check_guarantee
from penstock.errors import Problem
from penstock.options import TEXT, OptionSet, Rule, choice, opt, opt_like
from penstock.spi import Guarantee


class TypeStrategy(enum.Enum):
    """The types of the columns of new tables."""

    STANDARD = "STANDARD"
    BROADEN = "BROADEN"
    ONLY_BIGINT_OR_TEXT = "ONLY_BIGINT_OR_TEXT"


def _check_endpoint(options: HologresSinkOptions) -> Iterator[Problem]:
    host, colon, port = options.endpoint.strip().rpartition(":")
    if not host or not colon or not port.isdecimal() or set(options.endpoint) & set("/@?#"):
        hint = "for example 'instance-cn-hangzhou.hologres.aliyuncs.com:80'"
        yield Problem("expected host:port", "endpoint", hint=hint)
        return
    try:
        options.address  # noqa: B018 - it is computed
    except ValueError as error:
        yield Problem(str(error), "endpoint")


def _check_strategy(options: HologresSinkOptions) -> Iterator[Problem]:
    if options.strategy is TypeStrategy.ONLY_BIGINT_OR_TEXT:
        hint = "write BROADEN, and have a rule of 'transform' CAST columns to STRING"
        yield Problem("ONLY_BIGINT_OR_TEXT is not supported", "sink.type-normalize-strategy", hint=hint)


@dataclass(frozen=True, kw_only=True)
class HologresSinkOptions(OptionSet):
    """Options of writing."""

    endpoint: str = opt(
        "endpoint",
        TEXT,
        doc="Host and port of the instance.",
        example="instance-cn-hangzhou.hologres.aliyuncs.com:80",
    )
    dbname: str = opt("dbname", TEXT, doc="The database.", example="shop")
    table_name: str = opt(
        "tablename",
        TEXT,
        doc=(
            "The table to write, which must exist; the schema may precede the name. In pipelines it may be left out: "
            "then it is the last part of the table's id, and the part before that is the schema."
        ),
        example="shop.orders",
    )
    username: str = opt("username", TEXT, doc="The user who connects.", example="penstock")
    password: str = opt("password", TEXT, doc="The user's password.", example="...", secret=True)
    strategy: TypeStrategy = opt(
        "sink.type-normalize-strategy",
        choice(TypeStrategy),
        default=TypeStrategy.STANDARD,
        doc=(
            "The types of columns that a pipeline makes. STANDARD: those of the pipeline. BROADEN: integers are "
            "bigint, FLOAT and DOUBLE are double precision, texts are text, so that the columns hold more types later: "
            "types of columns are not changed. ONLY_BIGINT_OR_TEXT is refused."
        ),
        example="BROADEN",
    )
    guarantee: Guarantee = opt_like(PostgresSinkOptions, "guarantee")

    rules: ClassVar[tuple[Rule, ...]] = (_check_endpoint, _check_strategy, check_guarantee)

    @property
    def address(self) -> Address:
        """Where the database is, with its credentials. Raises ValueError."""
        url = f"postgresql://{self.endpoint.strip()}/{quote(self.dbname.strip(), safe='')}"
        return parse_address(url, self.username, self.password)
