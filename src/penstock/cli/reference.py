"""``penstock reference``: the reference of all options, rendered from their declarations."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from penstock.cli.display import describe_command
from penstock.common.calls import CALLS
from penstock.connectors.kafka.table.metadata import READABLE, WRITABLE
from penstock.datastream.refusals import ABSENT, STREAM_MODULES
from penstock.errors import DefinitionError, Problem
from penstock.ingest import PipelineOptions
from penstock.ingest.kafka_options import KafkaIngestSinkOptions, KafkaIngestSourceOptions
from penstock.kafka.idle_properties import REFUSED, WITHOUT_MEANING
from penstock.kafka.properties import ACTS
from penstock.options import Option
from penstock.plan.scalar_functions import Entry, Missing, catalogue
from penstock.settings.given import OPTIONS
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.kerberos import KAFKA_CONTEXT, KERBEROS_PREFIX, KerberosSettings
from penstock.settings.refused import REFUSED as REFUSED_SETTINGS
from penstock.settings.restart import DEFAULT_WITH_CHECKPOINTS, PREFIX, STRATEGIES, TYPE_KEYS
from penstock.spi import ChangeFormat, Connector, Format, InferringFormat, WatermarkOptions, connectors, formats

_NOTE = "<!-- Rendered from the code by `penstock reference docs/reference`. Change the declarations, not this. -->"
#: Connectors with their own page; all others share one.
_OWN_PAGE = "kafka"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``reference``."""
    text = "write the reference of all options as Markdown"
    parser = subparsers.add_parser("reference", help=text, description=describe_command(text))
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file differs")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the files")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    if not folder.is_dir():
        raise DefinitionError((Problem("no such folder", where=str(folder), hint="create it first"),))
    differing = {folder / name: text for name, text in render_pages().items() if _read(folder / name) != text}
    for path, text in differing.items():
        if arguments.check:
            print(f"{path} differs from what the code declares; run: penstock reference {folder}", file=sys.stderr)
        else:
            path.write_text(text, "utf-8")
            print(f"wrote {path}")
    return 1 if arguments.check and differing else 0


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""


# --- pages ---------------------------------------------------------------------------------------------------


def render_pages() -> dict[str, str]:
    """File names and their Markdown, for penstock's own connectors and formats. Plug-ins document themselves."""
    own = [connectors.get(name) for name, _ in connectors.built_in]
    kafka = next(each for each in own if each.identifier == _OWN_PAGE)
    return {
        "kafka.md": _render_page(_render_kafka(kafka)),
        "connectors.md": _render_page(_render_connectors([each for each in own if each is not kafka])),
        "formats.md": _render_page(_render_formats([formats.get(name) for name, _ in formats.built_in])),
        "pipeline.md": _render_page(_render_pipeline()),
        "settings.md": _render_page(_render_settings()),
        "datastream.md": _render_page(_render_datastream()),
        "functions.md": _render_page(_render_functions()),
    }


def _render_page(lines: Iterable[str]) -> str:
    return "\n".join((_NOTE, "", *lines)).rstrip() + "\n"


def _render_kafka(connector: Connector) -> Iterator[str]:
    yield from ("# Connector `kafka`", "", _docstring(connector), "")
    yield "In SQL these options go in a table's WITH clause, in YAML under `source` or `sink`. Python builders have"
    yield "methods for them. Options of the formats: [formats.md](formats.md)."
    yield ""
    yield from _render_option_sets(connector)
    yield from ("## Event time", "", _docstring(WatermarkOptions), "")
    yield from _render_options(WatermarkOptions.declared_options().values())
    yield from ("## Metadata columns", "")
    yield "Declare them as `name TYPE METADATA FROM 'key'`, with any type that the type below can be cast to."
    yield ""
    rows = [(_quote_code(key), _quote_code(kind), "yes" if key in WRITABLE else "no") for key, kind in READABLE.items()]
    yield from _render_table(("Key", "Type", "Can be written"), rows)
    yield "A VIRTUAL column is written only if INSERT names it. `__raw_key__` and `__raw_value__` are the bytes of a"
    yield "message's key and value. Written, they replace what the formats make of the physical columns, NULL included."
    yield ""
    yield from ("## In YAML only", "", "### Source", "")
    yield from _render_options(KafkaIngestSourceOptions.declared_options().values())
    yield "How the columns of tables are inferred, is in the options of the [formats](formats.md)."
    yield ""
    yield from ("### Sink", "")
    yield from _render_options(KafkaIngestSinkOptions.declared_options().values())
    yield from _render_client_properties()


def _render_client_properties() -> Iterator[str]:
    yield from ("## Client properties", "")
    yield "Set them as `properties.<name>`, by the names of Kafka's Java client. A misspelled name is an error; any"
    yield "other has no effect. `penstock check` and the start of a job note those that were given and have none."
    yield from ("", "### With an effect", "", "Values marked *secret* are masked wherever they are shown.", "")
    acts = [(_quote_code(name), each.doc + (" *secret*" if each.secret else "")) for name, each in sorted(ACTS.items())]
    yield from _render_table(("Property", "Meaning"), acts)
    yield from ("### Refused", "", "Unless the value is empty or Java's own default, where that changes nothing.", "")
    yield from _render_table(
        ("Property", "Because"), [(_quote_code(name), why) for name, why in sorted(REFUSED.items())]
    )
    yield from ("### Accepted without effect", "")
    by_reason = sorted((why, name) for name, why in WITHOUT_MEANING.items())
    grouped = [
        (", ".join(_quote_code(name) for _, name in members), why)
        for why, members in groupby(by_reason, key=lambda pair: pair[0])
    ]
    yield from _render_table(("Properties", "Because"), grouped)


def _render_functions() -> Iterator[str]:
    yield from ("# Functions", "")
    yield "The built-in functions of Flink 2.2: what is here, and why the rest is not. Windows, and more on aggregates:"
    yield "[queries](../sql.md)."
    yield ""
    for group, functions in catalogue().items():
        yield from (f"## {group}", "")
        yield from _render_table(
            ("Function", "Here"),
            [(_quote_code(each.syntax), _describe_support(each)) for each in functions if each.syntax],
        )


def _describe_support(entry: Entry) -> str:
    if isinstance(entry, Missing):
        return f"refused: {entry.reason}"
    return f"yes; {entry.note}" if entry.note else "yes"


def _render_connectors(found: Sequence[Connector]) -> Iterator[str]:
    yield from ("# Other connectors", "", "For the connector `kafka` see [kafka.md](kafka.md).", "")
    yield "In SQL every table takes the [options about event time](kafka.md#event-time)."
    yield ""
    for connector in found:
        yield from (f"## `{connector.identifier}`", "", _docstring(connector), "")
        yield from _render_option_sets(connector, level="###")


def _render_formats(found: Sequence[Format]) -> Iterator[str]:
    yield from ("# Formats", "")
    yield "The name of the format comes before an option: `json.ignore-parse-errors` with `'format' = 'json'`,"
    yield "`value.json.ignore-parse-errors` with `'value.format'`, `key.json.ignore-parse-errors` with `'key.format'`."
    yield "In YAML `value.` may be left out. Differences from Flink: [decision 0011](../decisions/0011-formats.md)."
    yield "Guides: [Avro with a schema registry](../schema-registry.md), [Protobuf](../protobuf.md),"
    yield "[change data](../change-data.md)."
    yield ""
    for each in found:
        how = "by name" if each.by_name else "by position: a table declares all of them in the order of the message"
        yield from (f"## `{each.identifier}`", "", _docstring(each), "", f"Columns are found {how}.", "")
        yield from _render_options(each.options.declared_options().values(), prefix=f"{each.identifier}.")
        if isinstance(each, InferringFormat):
            yield from ("In pipelines, how tables and their columns are found:", "")
            yield from _render_options(each.inference.declared_options().values(), prefix=f"{each.identifier}.")
        if isinstance(each, ChangeFormat) and each.metadata:
            yield from ("Columns declared as `name TYPE METADATA FROM 'value.key'`:", "")
            yield from _render_table(
                ("Key", "Type"),
                [(_quote_code(f"value.{key}"), _quote_code(kind)) for key, kind in each.metadata.items()],
            )


def _render_pipeline() -> Iterator[str]:
    yield from ("# The block `pipeline` of a YAML file", "")
    yield "Options of the source and the sink: [kafka.md](kafka.md), [connectors.md](connectors.md)."
    yield ""
    yield from _render_options(PipelineOptions.declared_options().values())
    yield "The job's settings go here too, with the keys of [settings.md](settings.md). `name`, `parallelism` and"
    yield "`local-time-zone` are short for `pipeline.name`, `parallelism.default` and `table.local-time-zone`."


def _render_settings() -> Iterator[str]:
    yield from ("# Settings of a job", "")
    yield "The keys are Flink's, with the same values in SQL (`SET 'key' = 'value';`), in YAML (under `pipeline`) and"
    yield "in a `Configuration` in Python."
    yield ""
    yield from _render_options(OPTIONS.values())
    yield from ("## Restart strategies", "")
    yield f"`{TYPE_KEYS[0]}`, formerly `{TYPE_KEYS[1]}`, chooses when a failed job restarts from its checkpoint:"
    yield f"{', '.join(map(_quote_code, STRATEGIES))}, or `none`, `off` or `disable` for never. The default is"
    yield f"{_quote_code(DEFAULT_WITH_CHECKPOINTS)} for a job with an interval of checkpoints, else `none`."
    yield "Which failures are followed by a restart: [decision 0013](../decisions/0013-restart-strategies.md) and"
    yield "[decision 0033](../decisions/0033-restarts-with-checkpoints.md)."
    yield ""
    for name, options in STRATEGIES.items():
        yield from (f"### `{name}`", "", _docstring(options), "")
        yield from _render_options(options.declared_options().values(), prefix=f"{PREFIX}{name}.")
    yield from ("## Kerberos", "", _docstring(KerberosSettings), "")
    yield f"These keys have no effect unless `{KERBEROS_PREFIX}contexts` names {KAFKA_CONTEXT}. More about logins:"
    yield "[security](../security.md)."
    yield ""
    yield from _render_options(KerberosSettings.declared_options().values(), prefix=KERBEROS_PREFIX)
    yield from ("## Accepted without effect", "")
    yield "These keys of Flink are checked, and a warning names each that is set. A star means the rest of a key."
    yield ""
    yield from _render_table(
        ("Key", "In Flink", "Default in Flink", "Here"),
        [
            (_quote_code(key), each.meaning, _quote_code(each.default), each.here)
            for key, each in WITHOUT_EFFECT.items()
        ],
    )
    yield from ("## Refused", "")
    yield "Of these keys only one value is taken: another would change what a table holds."
    yield ""
    yield from _render_table(
        ("Key", "Only", "Because"),
        [
            (_quote_code(key), _quote_code(each.default or "(empty)"), each.reason)
            for key, each in REFUSED_SETTINGS.items()
        ],
    )


def _render_datastream() -> Iterator[str]:
    yield from ("# Settings of PyFlink programs", "")
    yield "What the methods that set something do in Flink, and here. One that has no effect here is warned of once,"
    yield "unless it asks for what applies anyway. Those with a key do what `SET` does with it"
    yield "([settings.md](settings.md))."
    yield ""
    for owner, members in groupby(CALLS.items(), key=lambda pair: pair[0].partition(".")[0]):
        yield from (f"## `{owner}`", "")
        rows = [
            (
                _quote_code(call.partition(".")[2]),
                _quote_code(each.key) if each.key else "",
                each.flink,
                each.here if each.acts else f"No effect. {each.here}",
            )
            for call, each in sorted(members)
        ]
        yield from _render_table(("Method", "Key", "In Flink", "Here"), rows)
    yield from ("## Classes of `pyflink.datastream` 2.2", "")
    yield "By the modules that have them. What is refused raises an error that names the alternative."
    yield ""
    rows = []
    for module in STREAM_MODULES:
        absent = [each for each in ABSENT if each.module == module]
        refused = [f"{', '.join(map(_quote_code, each.names))}: {each.hint}" for each in absent if not each.later]
        later = [f"{', '.join(map(_quote_code, each.names))}: until then {each.hint}" for each in absent if each.later]
        rows.append((_quote_code(module), _render_classes(module), "; ".join(refused), "; ".join(later)))
    yield from _render_table(("Module", "There", "Refused", "Later"), rows)


def _render_classes(module: str) -> str:
    """The public classes of a module of streams."""
    found = importlib.import_module(f"penstock.datastream.{module}")
    exported = getattr(found, "__all__", ())
    names = [
        name
        for name, each in vars(found).items()
        if isinstance(each, type)
        and not name.startswith("_")
        and (name in exported or each.__module__ == found.__name__)
    ]
    return ", ".join(map(_quote_code, sorted({*names, *exported})))


# --- options -------------------------------------------------------------------------------------------------


def _render_option_sets(connector: Connector, level: str = "##") -> Iterator[str]:
    """A table of the options that the connector's option sets share, and one of the other options of each."""
    declared = {title: tuple(options.declared_options().values()) for title, options in connector.options.items()}
    shared = _find_shared(declared)
    if shared:
        yield from (f"{level} {' and '.join(declared).capitalize()}", "")
        yield from _render_options(shared)
    for title, options in declared.items():
        own = [each for each in options if each not in shared]
        if own or not shared:
            yield from (f"{level} {title}", "")
            yield from _render_options(own) if own else ("No options.", "")


def _find_shared(declared: Mapping[str, Sequence[Option]]) -> list[Option]:
    if len(declared) < 2:
        return []
    first, *others = declared.values()
    return [each for each in first if all(each in other for other in others)]


def _render_options(options: Iterable[Option], prefix: str = "") -> Iterator[str]:
    rows = [
        (
            _quote_code(prefix + each.key),
            _quote_code(each.codec.name),
            _describe_default(each),
            _describe_option(each, prefix),
        )
        for each in options
    ]
    yield from _render_table(("Option", "Type", "Default", "Meaning"), rows)


def _describe_default(option: Option) -> str:
    if option.required:
        return "**required**"
    return _escape_tags(option.shown_default) if option.default_text else _quote_code(option.shown_default)


def _describe_option(option: Option, prefix: str) -> str:
    parts = [_escape_tags(option.doc)]
    if option.codec.values and option.codec.values != ("true", "false"):
        parts.append(f"One of {', '.join(map(_quote_code, option.codec.values))}.")
    if option.example:
        parts.append(f"For example {_quote_code(option.example)}.")
    if option.aliases:
        parts.append(f"Also written {', '.join(_quote_code(prefix + alias) for alias in option.aliases)}.")
    if option.secret:
        parts.append("*secret*")
    return " ".join(parts)


# --- Markdown ------------------------------------------------------------------------------------------------


def _docstring(of: object) -> str:
    """The docstring of a class, or of an object or its class, in one line."""
    return " ".join((of.__doc__ or "").split())


def _escape_tags(text: str) -> str:
    """Text in which ``<table>`` is not a tag, unless it is in backticks."""
    return re.sub(r"`[^`]*`|<", lambda found: "\\<" if found[0] == "<" else found[0], text)


def _quote_code(value: object) -> str:
    text = str(value)
    if text in ("", "(none)"):
        return text or "(empty)"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _render_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'|'.join(' --- ' for _ in titles)}|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""
