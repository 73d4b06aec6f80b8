"""Rewrites ``change_data.json`` and ``plain.json``: what Flink makes of a corpus of messages and rows.

    python tests/recorded/record.py ENVIRONMENT

``ENVIRONMENT`` is the virtual environment that :mod:`flink` describes; its Python runs this script. The corpus is the
same every time. Messages that are not UTF-8 are kept with their bytes as lone surrogates (``surrogateescape``).
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flink import Flink, started

HERE = Path(__file__).parent
COLUMNS = (
    "id BIGINT, name STRING, price DECIMAL(10, 2), ok BOOLEAN, at TIMESTAMP(3), tags ARRAY<STRING>, "
    "place ROW<city STRING, zip INT>"
)
SMALL = "id INT, name STRING"
TYPES = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), x STRING, y BYTES, "
    "da DATE, ti TIME, ts TIMESTAMP(3), lz TIMESTAMP_LTZ(3), a ARRAY<INT>, m MAP<STRING, DOUBLE>, "
    "r ROW<p INT, q STRING>"
)
IGNORE = {"ignore-parse-errors": "true"}
METADATA = {
    "debezium-json": [
        "schema",
        "ingestion-timestamp",
        "source.timestamp",
        "source.database",
        "source.schema",
        "source.table",
        "source.properties",
    ],
    "canal-json": ["database", "table", "sql-type", "pk-names", "ingestion-timestamp", "event-timestamp"],
    "maxwell-json": ["database", "table", "primary-key-columns", "ingestion-timestamp"],
    "ogg-json": ["table", "primary-keys", "ingestion-timestamp", "event-timestamp"],
}

#: Images of a row of COLUMNS: whole ones, such as are well formed but odd, and such as do not fit the columns.
GOOD = [
    '{"id":1,"name":"Ann","price":12.50,"ok":true,"at":"2026-01-02 03:04:05.678","tags":["a","b"],'
    '"place":{"city":"Bonn","zip":53111}}',
    '{"id":2,"name":null,"price":null,"ok":null,"at":null,"tags":null,"place":null}',
    '{"id":"3","name":"\\u00e9\\"\\ud83d\\ude00","price":"7.005","ok":"TRUE","tags":[],"place":{"zip":"7"}}',
    '{ "place" : {"zip":1,"other":[{}]}, "extra":{"a":[1,{"b":null}]}, "id" : 4 , "tags":[1,null,true] }',
    "{}",
]
ODD = [
    '{"id":5.9,"name":12,"price":1e3}',
    '{"id":6,"name":1.50,"price":123456789.99}',
    '{"id":7,"name":{"k":[1.50,null]},"price":0.005}',
    '{"id":8,"name":"first","name":"second"}',
    '{"id":-0,"name":-0,"price":-0.0}',
    '{"id":9,"name":1234567890.123456789012345678}',
    '{"id":10,"name":1e22,"price":"1e-3"}',
    '{"id":11,"ok":1,"tags":["x",{"y":1}],"place":{"city":5,"zip":"12"}}',
    '{"ID":12,"Name":"case"}',
]
UNFIT = [
    '{"id":"x"}',
    '{"id":1,"at":"2026-01-02T03:04:05"}',
    '{"id":1,"place":[]}',
    '{"id":1,"tags":"no list"}',
    '{"id":1,"place":{"zip":"many"}}',
    '{"id":99999999999999999999,"name":"far"}',
    '{"id":1,"price":"dear"}',
    '{"id":{"a":1}}',
    '"text"',
    "7",
    "[1]",
]
BROKEN = [
    "",
    " ",
    "null",
    "5",
    '"text"',
    "{",
    "{}",
    "[]",
    "[{}]",
    "[{},{}]",
    "not json",
    '{"a":1}}',
    '{"before":}',
    "\ufeff{}",
    "\udcff",
]


def main() -> int:
    """Ask Flink and write the answers."""
    with started(Path(sys.argv[1])) as flink:
        changes = {
            "metadata": {name: flink.metadata(name) for name in METADATA},
            "options": {name: flink.options(name) for name in METADATA},
            "decoded": [
                *_changes(flink, "debezium-json", list(_debezium())),
                *_changes(flink, "canal-json", list(_canal())),
                *_changes(flink, "maxwell-json", list(_maxwell())),
                *_changes(flink, "ogg-json", list(_ogg())),
                *_special(flink),
            ],
            "encoded": list(_written(flink)),
        }
        _write("change_data.json", changes)
        _write("plain.json", {"decoded": list(_plain(flink)), "encoded": list(_plain_written(flink))})
    return 0


def _write(name: str, found: dict[str, Any]) -> None:
    """One line for each case."""
    parts = []
    for key, value in found.items():
        shown = json.dumps(value) if isinstance(value, dict) else "[\n" + ",\n".join(map(_shown, value)) + "\n]"
        parts.append(f"{json.dumps(key)}: {shown}")
    (HERE / name).write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def _shown(group: dict[str, Any]) -> str:
    head = json.dumps({key: value for key, value in group.items() if key != "cases"})
    return f'{head[:-1]}, "cases": [\n' + ",\n".join(map(json.dumps, group["cases"])) + "\n]}"


def _group(
    flink: Flink,
    name: str,
    columns: str,
    messages: Iterable[str],
    options: Sequence[dict[str, str]] = ({}, IGNORE),
    metadata: Sequence[str] = (),
) -> dict[str, Any]:
    """A group of messages with what Flink makes of each, by each of the sets of options."""
    texts = list(dict.fromkeys(messages))
    data = [each.encode("utf-8", "surrogateescape") for each in texts]
    runs = [flink.decoded(name, each, columns, metadata, data) for each in options]
    return {
        "format": name,
        "columns": columns,
        "metadata": list(metadata),
        "options": list(options),
        "cases": [[text, *answers] for text, *answers in zip(texts, *runs, strict=True)],
    }


def _changes(flink: Flink, name: str, messages: list[str]) -> Iterator[dict[str, Any]]:
    yield _group(flink, name, COLUMNS, [*messages, *BROKEN])
    yield _group(flink, name, COLUMNS, _mutated(messages, name), ({}, IGNORE))


def _mutated(messages: list[str], seed: str) -> Iterator[str]:
    """Messages with a byte changed, removed or added, or cut off."""
    draw = random.Random(seed)
    for _ in range(60):
        data = bytearray(draw.choice(messages[:24]).encode())
        at = draw.randrange(len(data))
        match draw.randrange(4):
            case 0:
                data[at] = draw.choice(b'{}[]",:0n \\\xff')
            case 1:
                del data[at]
            case 2:
                data.insert(at, draw.choice(b'{}[]",:0n \\'))
            case _:
                del data[at:]
        yield data.decode("utf-8", "surrogateescape")


# --- Debezium ------------------------------------------------------------------------------------------------

_SOURCE = (
    '"source":{"version":"2.7","db":"shop","schema":"public","table":"items","ts_ms":1769000000123,"lsn":-5,'
    '"snapshot":"false","gone":null,"ratio":1.50,"list":[1]}'
)


def _debezium() -> Iterator[str]:
    first, second, *_ = GOOD
    for image in GOOD:
        for op in "cr":
            yield f'{{"before":null,"after":{image},"op":"{op}"}}'
        yield f'{{"before":{image},"after":null,"op":"d","ts_ms":5}}'
        yield f'{{"op":"u","before":{first},"after":{image}}}'
    for image in (*ODD, *UNFIT):
        yield f'{{"before":null,"after":{image},"op":"c"}}'
        yield f'{{"before":{image},"after":{second},"op":"u"}}'
    yield from (
        f'{{"before":null,"after":{first},"op":"u"}}',
        f'{{"after":{first},"op":"u"}}',
        f'{{"before":{first},"after":null,"op":"u"}}',
        f'{{"before":{first},"op":"u"}}',
        f'{{"before":null,"after":{first},"op":"d"}}',
        f'{{"before":{first},"after":null,"op":"c"}}',
        f'{{"before":{first},"after":{second},"op":"c"}}',
        f'{{"before":{first},"after":{second},"op":"d"}}',
        f'{{"before":null,"after":{first},"op":"x"}}',
        f'{{"before":null,"after":{first},"op":"C"}}',
        f'{{"before":null,"after":{first},"op":""}}',
        f'{{"before":null,"after":{first},"op":null}}',
        f'{{"before":null,"after":{first},"op":1}}',
        f'{{"before":null,"after":{first},"op":["c"]}}',
        f'{{"before":null,"after":{first}}}',
        f'{{"before":null,"after":{first},"op":"c","op":"d"}}',
        f'{{"before":null,"after":{first},"op":"c","after":{second}}}',
        f'[{{"before":null,"after":{first},"op":"c"}}]',
        f'[{{"before":null,"after":{first},"op":"c"}},{{"before":null,"after":{second},"op":"c"}}]',
        f'{{"schema":{{}},"payload":{{"before":null,"after":{first},"op":"c"}}}}',
        f'{{"before":null,"after":{first},"op":"c"}} trailing',
        '{"before":null,"after":null,"op":"t"}',
        '{"before":null,"after":null,"op":"m"}',
        '{"op":"c"}',
        '{"op":"d"}',
    )


def _debezium_metadata() -> Iterator[str]:
    rest = '"before":null,"after":{"id":1,"name":"a"},"op":"c"'
    yield f'{{{rest},{_SOURCE},"ts_ms":1769000000999}}'
    yield f'{{"before":{{"id":1}},"after":{{"id":2}},"op":"u",{_SOURCE},"ts_ms":"17"}}'
    yield f'{{{rest},"source":null,"ts_ms":null}}'
    yield f"{{{rest}}}"
    yield f'{{{rest},"source":{{}}}}'
    yield f'{{{rest},"source":{{"ts_ms":"x"}}}}'
    yield f'{{{rest},"source":{{"ts_ms":null,"db":null}}}}'
    yield f'{{{rest},"source":{{"ts_ms":" 5"}}}}'
    yield f'{{{rest},"source":{{"ts_ms":"+5"}}}}'
    yield f'{{{rest},"source":{{"ts_ms":1.5}}}}'
    yield f'{{{rest},"source":{{"ts_ms":-5,"db":7,"schema":true,"table":{{"a":1}}}}}}'
    yield f'{{{rest},"source":{{"db":"a","db":"b"}}}}'
    yield f'{{{rest},"source":"text"}}'
    yield f'{{{rest},"ts_ms":"soon"}}'
    yield f'{{{rest},"ts_ms":1.9}}'
    yield f'{{{rest},"schema":"s"}}'
    yield f'{{{rest},"schema":{{"type":"struct","optional":false}}}}'
    yield '{"before":null,"after":{"id":1},"op":"x","source":{"ts_ms":"x"}}'
    yield f'{{"before":null,"after":null,"op":"d",{_SOURCE}}}'


def _debezium_payload() -> Iterator[str]:
    for message in (*_debezium_metadata(), '{"op":"c","after":{"id":3}}', "null", "{}", "[]", "5", '"x"'):
        yield f'{{"schema":{{"type":"struct"}},"payload":{message}}}'
    yield '{"payload":{"op":"c","after":{"id":4}}}'
    yield '{"op":"c","after":{"id":4}}'
    yield '{"schema":{}}'


# --- Canal ---------------------------------------------------------------------------------------------------

_CANAL = '"database":"shop","table":"items","es":1589373515000,"ts":1589373515477,"isDdl":false,"sql":""'
_CANAL_TYPES = '"pkNames":["id"],"sqlType":{"id":-5,"name":12,"price":3}'


def _canal() -> Iterator[str]:
    first, second, third, *_ = GOOD
    for kind in ("INSERT", "DELETE"):
        for image in GOOD:
            yield f'{{"data":[{image}],"old":null,"type":"{kind}",{_CANAL}}}'
        yield f'{{"data":[{first},{second},{third}],"type":"{kind}",{_CANAL}}}'
    for image in GOOD:
        yield f'{{"data":[{first}],"old":[{image}],"type":"UPDATE",{_CANAL}}}'
    for old in (
        '{"name":"old"}',
        '{"name":null}',
        '{"price":"1.00","name":null,"ok":false}',
        '{"place":{"city":null}}',
        '{"place":{"name":"deep"}}',
        '{"other":{"name":1}}',
        '{"n\\u0061me":null}',
        '{"name":1.50}',
        '{"tags":[null]}',
        '{"name":"a","name":null}',
        '{"name":null,"name":"b"}',
    ):
        yield f'{{"data":[{first}],"old":[{old}],"type":"UPDATE",{_CANAL}}}'
    yield from (
        f'{{"data":[{first},{third}],"old":[{{"name":"x"}},{{"price":1}}],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first},{third}],"old":[{{"name":null}},{{"price":1}}],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first},{third}],"old":[{{"name":"x"}}],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first}],"old":[{{"name":"x"}},{{"price":1}}],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first},null],"old":[{{"name":"x"}},{{"price":1}}],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first},{third}],"old":[{{"name":"x"}},null],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first}],"old":null,"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[{first}],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[],"type":"UPDATE",{_CANAL}}}',
        f'{{"data":[],"type":"INSERT",{_CANAL}}}',
        f'{{"data":[{first},null,{second}],"type":"INSERT",{_CANAL}}}',
        f'{{"data":[null],"type":"DELETE",{_CANAL}}}',
        f'{{"data":[{first},5,{second}],"type":"INSERT",{_CANAL}}}',
        f'{{"data":null,"type":"INSERT",{_CANAL}}}',
        f'{{"type":"DELETE",{_CANAL}}}',
        f'{{"data":{first},"type":"INSERT",{_CANAL}}}',
        f'{{"data":null,"type":"CREATE",{_CANAL}}}',
        f'{{"data":[{first}],"type":"CREATE",{_CANAL}}}',
        f'{{"data":null,"type":"ALTER",{_CANAL}}}',
        f'{{"data":null,"type":"QUERY",{_CANAL}}}',
        f'{{"data":null,"type":"TRUNCATE",{_CANAL}}}',
        f'{{"data":[{first}],"type":"insert",{_CANAL}}}',
        f'{{"data":[{first}],"type":null,{_CANAL}}}',
        f'{{"data":[{first}],{_CANAL}}}',
        f'{{"data":[{first}],"type":"INSERT","data":[{second}]}}',
        f'[{{"data":[{first}],"type":"INSERT"}}]',
        f'[{{"data":[{first}],"type":"INSERT"}},{{"data":[{first}],"type":"INSERT"}}]',
    )
    for image in (*ODD, *UNFIT):
        yield f'{{"data":[{first},{image}],"type":"INSERT",{_CANAL}}}'
        yield f'{{"data":[{first}],"old":[{image}],"type":"UPDATE",{_CANAL}}}'


def _canal_metadata() -> Iterator[str]:
    rest = '"data":[{"id":"1","name":"a"},{"id":"2"}],"type":"INSERT"'
    yield f"{{{rest},{_CANAL},{_CANAL_TYPES}}}"
    yield f'{{"data":[{{"id":"1"}}],"old":[{{"id":"2"}}],"type":"UPDATE",{_CANAL},{_CANAL_TYPES}}}'
    yield f"{{{rest}}}"
    yield f'{{{rest},"database":null,"table":7,"es":null,"ts":"5","pkNames":null,"sqlType":null}}'
    yield f'{{{rest},"sqlType":{{"id":"x"}},"pkNames":[null,1]}}'
    yield f'{{{rest},"sqlType":[],"pkNames":"id"}}'
    yield f'{{{rest},"ts":"soon"}}'
    yield f'{{"data":null,"type":"CREATE","ts":"soon",{_CANAL_TYPES}}}'


def _canal_filtered() -> Iterator[str]:
    rest = '"data":[{"id":"1","name":"a"}],"type":"INSERT"'
    for database in ('"shop"', '"shop2"', '"a.shop"', '"other"', "null", "7", '"SHOP"', '""'):
        for table in ('"items"', '"orders"', "null"):
            yield f'{{{rest},"database":{database},"table":{table}}}'
    yield from (
        f"{{{rest}}}",
        f'{{{rest},"database":"shop"}}',
        f'{{{rest},"database":"other"}}',
        f'{{{rest},"table":"items"}}',
        '{"data":[{"id":"x"}],"type":"INSERT","database":"other","table":"items"}',
        '{"data":[{"id":"x"}],"type":"INSERT","database":"shop","table":"items"}',
        '{"data":null,"type":"ALTER","database":"other","table":"items"}',
        '{"data":null,"type":"ALTER","database":"shop","table":"items"}',
        '{"data":[],"database":"other","table":"items"',
        "[]",
        "",
    )


# --- Maxwell and OGG -----------------------------------------------------------------------------------------

_MAXWELL = '"database":"shop","table":"items","ts":1769000000,"xid":1,"commit":true'


def _maxwell() -> Iterator[str]:
    first, second, *_ = GOOD
    for image in GOOD:
        for kind in ("insert", "delete"):
            yield f'{{{_MAXWELL},"type":"{kind}","data":{image}}}'
        yield f'{{{_MAXWELL},"type":"update","data":{first},"old":{image}}}'
    for old in (
        '{"name":"old"}',
        '{"name":null}',
        '{"price":1.00,"name":null,"ok":false}',
        '{"place":{"name":"deep"}}',
        '{"other":{"name":1}}',
        '{"other":{"name":null}}',
        '{"n\\u0061me":null}',
        '{"name":"a","name":null}',
        '{"name":1.50}',
    ):
        yield f'{{{_MAXWELL},"type":"update","data":{first},"old":{old}}}'
    yield from (
        f'{{{_MAXWELL},"type":"update","data":{first}}}',
        f'{{{_MAXWELL},"type":"update","data":{first},"old":null}}',
        f'{{{_MAXWELL},"type":"update","data":null,"old":{first}}}',
        f'{{{_MAXWELL},"type":"update","data":null,"old":{{}}}}',
        f'{{{_MAXWELL},"type":"insert","data":null}}',
        f'{{{_MAXWELL},"type":"insert"}}',
        f'{{{_MAXWELL},"type":"delete","data":null,"old":{first}}}',
        f'{{{_MAXWELL},"type":"insert","data":{first},"old":{second}}}',
        f'{{{_MAXWELL},"type":"INSERT","data":{first}}}',
        f'{{{_MAXWELL},"type":"bootstrap-insert","data":{first}}}',
        f'{{{_MAXWELL},"type":"bootstrap-start","data":{{}}}}',
        f'{{{_MAXWELL},"type":"table-create","def":{{}}}}',
        f'{{{_MAXWELL},"type":null,"data":{first}}}',
        f'{{{_MAXWELL},"data":{first}}}',
        f'[{{"type":"insert","data":{first}}}]',
        f'[{{"type":"insert","data":{first}}},{{"type":"insert","data":{first}}}]',
        f'{{"type":"insert","data":[{first}]}}',
    )
    for image in (*ODD, *UNFIT):
        yield f'{{{_MAXWELL},"type":"insert","data":{image}}}'
        yield f'{{{_MAXWELL},"type":"update","data":{first},"old":{image}}}'


def _maxwell_metadata() -> Iterator[str]:
    rest = '"type":"insert","data":{"id":1}'
    yield f'{{{rest},{_MAXWELL},"primary_key_columns":["id"]}}'
    yield f'{{{rest},"ts":"7","primary_key_columns":[],"database":null,"table":8}}'
    yield f"{{{rest}}}"
    yield f'{{{rest},"ts":"soon"}}'
    yield f'{{{rest},"ts":-1.9,"primary_key_columns":[null,1]}}'
    yield f'{{"type":"update","data":{{"id":1}},"old":{{"id":2}},{_MAXWELL}}}'


def _ogg() -> Iterator[str]:
    first, second, *_ = GOOD
    for image in GOOD:
        yield f'{{"table":"S.T","op_type":"I","after":{image}}}'
        yield f'{{"table":"S.T","op_type":"D","before":{image}}}'
        yield f'{{"table":"S.T","op_type":"U","before":{first},"after":{image}}}'
    for image in (*ODD, *UNFIT):
        yield f'{{"table":"S.T","op_type":"I","after":{image}}}'
    yield from (
        f'{{"op_type":"U","after":{first}}}',
        f'{{"op_type":"U","before":null,"after":{first}}}',
        f'{{"op_type":"U","before":{first}}}',
        f'{{"op_type":"D","after":{first}}}',
        f'{{"op_type":"I","before":{first}}}',
        f'{{"op_type":"T","before":{first},"after":{second}}}',
        '{"op_type":"T"}',
        f'{{"op_type":"i","after":{first}}}',
        f'{{"op_type":null,"after":{first}}}',
        f'{{"after":{first}}}',
        f'[{{"op_type":"I","after":{first}}}]',
        f'[{{"op_type":"I","after":{first}}},{{"op_type":"I","after":{first}}}]',
    )


def _ogg_metadata() -> Iterator[str]:
    rest = '"op_type":"I","after":{"id":1}'
    whole = '"table":"S.T","primary_keys":["id"]'
    yield f'{{{rest},{whole},"current_ts":"2020-05-13T13:39:35.766000","op_ts":"2020-05-13 15:40:06.000000"}}'
    yield f'{{{rest},{whole},"current_ts":"2020-05-13T13:39:35.766123","op_ts":"2020-05-13 15:40:06.123456"}}'
    yield f"{{{rest}}}"
    yield f'{{{rest},"table":null,"primary_keys":null,"current_ts":null,"op_ts":null}}'
    for text in (
        "2020-05-13T13:39:35.766",
        "2020-05-13T13:39:35.766000Z",
        "2020-05-13 13:39:35.766000",
        "2020-05-13 13:39:35",
        "2020-5-3 1:2:3",
        "2020-05-13",
        "2020-5-3",
        "2020-02-30T00:00:00.000000",
        "2020-02-30 00:00:00",
        "2020-05-13T24:00:00.000000",
        "1589377175766",
        "",
        "x",
    ):
        yield f'{{{rest},"current_ts":"{text}"}}'
        yield f'{{{rest},"op_ts":"{text}"}}'


def _special(flink: Flink) -> Iterator[dict[str, Any]]:
    """Metadata, options of one format alone, and timestamps of another standard."""
    corpora = {
        "debezium-json": _debezium_metadata(),
        "canal-json": _canal_metadata(),
        "maxwell-json": _maxwell_metadata(),
        "ogg-json": _ogg_metadata(),
    }
    for name, messages in corpora.items():
        yield _group(flink, name, SMALL, messages, metadata=METADATA[name])
    include = {"schema-include": "true"}
    for metadata in ((), METADATA["debezium-json"]):
        messages = _debezium_payload()
        yield _group(flink, "debezium-json", SMALL, messages, (include, include | IGNORE), metadata)
    filters = (
        {"database.include": "shop\\d?"},
        {"table.include": "items|.*s"},
        {"database.include": "^sho.", "table.include": "it(em)?s", **IGNORE},
        {"database.include": "null|7|"},
    )
    yield _group(flink, "canal-json", SMALL, _canal_filtered(), filters)
    iso = {"timestamp-format.standard": "ISO-8601"}
    moments = ("2026-01-02T03:04:05.678", "2026-01-02 03:04:05.678", "2026-01-02T03:04")
    for name, message in (
        ("debezium-json", '{{"op":"c","after":{}}}'),
        ("canal-json", '{{"type":"INSERT","data":[{}]}}'),
        ("maxwell-json", '{{"type":"insert","data":{}}}'),
        ("ogg-json", '{{"op_type":"I","after":{}}}'),
    ):
        texts = [message.format(f'{{"at":"{each}"}}') for each in moments]
        yield _group(flink, name, "at TIMESTAMP(3)", texts, (iso, iso | IGNORE))
        floats = [
            message.format(f'{{"x":{each}}}') for each in ("1.10", "0.1e1", "1e400", "100", "12345678901234567890")
        ]
        yield _group(flink, name, "x STRING, d DOUBLE", floats)


_WRITING = (
    {},
    {"encode.ignore-null-fields": "true"},
    {"encode.decimal-as-plain-number": "true", "timestamp-format.standard": "ISO-8601"},
)
_KINDS = ("+I", "-U", "+U", "-D")
_TYPED = [
    '{"b":true,"t":-1,"s":2,"i":3,"l":4,"f":1.5,"d":1e10,"n":27000,"x":"a\\"\\n\\u0001\\u00e9","y":"QUJD",'
    '"da":"2026-01-02","ti":"03:04:05","ts":"2026-01-02 03:04:05.600","lz":"2026-01-02 03:04:05Z","a":[1,null],'
    '"m":{"k":0.1,"n":null},"r":{"p":1,"q":null}}',
    "{}",
    '{"r":{},"a":[],"m":{}}',
    '{"d":0.0001,"f":123456789,"n":0.10}',
    '{"x":"\\ud83d\\ude00 and \\u6f22","n":0,"m":{"\\ud83d\\ude00":1.5}}',
]


def _written(flink: Flink) -> Iterator[dict[str, Any]]:
    rows = [(kind, text) for kind in _KINDS for text in _TYPED]
    for name in METADATA:
        for options in _WRITING:
            answers = flink.encoded(name, options, TYPES, rows)
            cases = [[*row, answer] for row, answer in zip(rows, answers, strict=True)]
            yield {"format": name, "columns": TYPES, "options": options, "cases": cases}


# --- json and csv --------------------------------------------------------------------------------------------

_JSON_VALUES = (
    *("true", "false", "null", "1", "0", "-0", "1.5", "112.013", "1e3", "1e400", "127", "128", "-32769", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "0.005", "123456789.999", "16777217", "1e-50"),
    *('"true"', '" TRUE "', '"abc"', '"12"', '" 12 "', '"+5"', '"1.5"', '"NaN"', '"Infinity"', '"0x1p3"', '"1d"', '""'),
    *('"QUJD"', '"QQ="', '"2026-01-02"', '"2026-1-2"', '"2026-02-30"', '"03:04"', '"03:04:05"', '"03:04:05.678"'),
    *('"24:00:00"', '"2026-01-02 03:04:05"', '"2026-01-02 03:04:05.1234567"', '"2026-01-02T03:04:05"'),
    *('"2026-01-02 03:04:05Z"', '"2026-01-02 03:04:05+08:00"', '"2026-02-30 00:00:00"', '"2026-01-02 24:00:00"'),
    *("[]", "[1]", '["1",null]', '["x"]', "{}", '{"k":1}', '{"k":"x"}', '{"p":1}', '{"p":"x","q":2}', "[[1]]"),
)
_ARRAYS = (
    *('[{"v":1},{"v":2}]', '[{"v":1},5,{"v":2}]', '[{"v":1},null,{"v":2}]', '[{"v":1},"x",{"v":2}]', "[1]", "[,]"),
    *('[{"v":1},{"i":"x"},{"v":2}]', '[{"v":1},{"v":', '[{"v":1},{"v":}]', '[{"v":1}}', '[{"v":1} {"v":2}]'),
    *('[{"v":1},]', ' [ {"v":1} ] x', "[]", "[[]]"),
)
_JSON_NUMBERS = (
    *("-0", "-0.0", "-0e5", "0", "1e400", "-1e400", "1e-400", "1e99999999999999999999", "1.00000005960464477540"),
    *("1.10", "16777217", "9007199254740993.0", "123456789012345678.9", "9223372036854775807.5", "[1e400,-0,1.50]"),
)
_MOMENTS = (
    *("2026-01-02T03:04:05", "2026-01-02t03:04:05", "2026-01-02T03:04", "2026-01-02 03:04:05", "2026-02-30T00:00:00"),
    *("2026-01-02T03:04:05Z", "2026-01-02t03:04:05Z", "2026-01-02T03:04:05z", "2026-01-02T24:00", "2026-01-02"),
)
_COMMENTED = (
    *("#c\n1,a", " #c\n1,a", "\t#c\n1,a", "\n#c\r\n\n  # d\n 1,a", "\n\n1,a", " 1,a", ' 1,"a"', ' "1",a', "#c", " \n"),
    *("1,a\n#c", '"#c",a', "#", "1,#c"),
)
_MARKED = (
    *(
        "a,b",
        "a\\,b,c",
        "a\\n,b",
        'a,"b""c"',
        'a,"b\\"c"',
        "a\x01b",
        "a§b",
        '"a§"§b',
        "a,b,",
        "a,b, ",
        "a,b,\t",
        "a,b,c",
    ),
    *("a,b\\", "é,😀", "a\n", "\na,b"),
)
_CSV_CELLS = (
    *(
        "",
        " ",
        "1",
        " 1 ",
        "1.5",
        "true",
        " TRUE",
        "abc",
        "128",
        "2147483648",
        "1e3",
        "NaN",
        "null",
        '""',
        '"a b"',
        '"a""b"',
    ),
    *("2026-01-02", "2026-1-2", "03:04:05", "03:04:05.678", "2026-01-02 03:04:05", "2026-01-02 03:04:05.1234"),
    *("2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "QUJD", "1;2", ";", "a;b", '"1;2"'),
)


def _columns_one_by_one() -> Iterator[str]:
    yield from (
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(10, 2)",
        "STRING",
        "BYTES",
    )
    yield from ("DATE", "TIME", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "ARRAY<INT>")


def _plain(flink: Flink) -> Iterator[dict[str, Any]]:
    tree = {"decode.json-parser.enabled": "false"}
    for kind in (*_columns_one_by_one(), "MAP<STRING, DOUBLE>", "ROW<p INT, q STRING>"):
        messages = [f'{{"v":{each}}}' for each in _JSON_VALUES]
        yield _group(flink, "json", f"v {kind}", messages, ({}, IGNORE, tree))
    yield _group(flink, "json", COLUMNS, [*GOOD, *ODD, *UNFIT, *BROKEN], ({}, IGNORE, tree, tree | IGNORE))
    yield _group(flink, "json", "v STRING, i INT", _ARRAYS, ({}, IGNORE, tree, tree | IGNORE))
    for columns in ("d DOUBLE, f FLOAT, l BIGINT, x STRING", "d DOUBLE, f FLOAT, l BIGINT, x STRING, n DECIMAL(5, 2)"):
        messages = [f'{{"{name}":{number}}}' for name in "dflx" for number in _JSON_NUMBERS]
        yield _group(flink, "json", columns, messages, ({}, tree))
    iso = {"timestamp-format.standard": "ISO-8601"}
    for kind in ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"):
        yield _group(flink, "json", f"v {kind}", [f'{{"v":"{each}"}}' for each in _MOMENTS], (iso,))
    for kind in (*_columns_one_by_one(), "ROW<p INT, q STRING>"):
        yield _group(flink, "csv", f"v {kind}, w INT", [f"{each},7" for each in _CSV_CELLS])
    lines = [
        "1,a",
        "1",
        "1,a,b",
        "1,a,",
        "",
        " ",
        "#1,a",
        '1,"a',
        "1,'a'",
        "1;a",
        "1,a\n",
        "1,a\n2,b",
        "\udcff",
        '"1","a"',
    ]
    options = ({}, IGNORE, {"null-literal": "a"}, {"allow-comments": "true"}, {"quote-character": "'"})
    yield _group(flink, "csv", SMALL, lines, options)
    comments = {"allow-comments": "true"}
    yield _group(flink, "csv", SMALL, _COMMENTED, (comments, comments | IGNORE))
    marks = ({"escape-character": "\\"}, {"field-delimiter": "\\001"}, {"field-delimiter": "§"})
    yield _group(flink, "csv", "s STRING, t STRING", _MARKED, ({}, *marks, {"array-element-delimiter": ","}))
    yield _group(flink, "csv", "r ROW<p INT, q STRING>, s STRING", ["1;a;b,c", "1,c", "1;,c", ",c"], ({}, IGNORE))


def _plain_written(flink: Flink) -> Iterator[dict[str, Any]]:
    rows = [("+I", text) for text in _TYPED]
    for options in _WRITING:
        answers = flink.encoded("json", options, TYPES, rows)
        cases = [[*row, answer] for row, answer in zip(rows, answers, strict=True)]
        yield {"format": "json", "columns": TYPES, "options": options, "cases": cases}
    rows = [("+I", text) for text in _CELLS]
    for options in _CSV_WRITING:
        answers = flink.encoded("csv", options, _CSV_TYPES, rows)
        cases = [[*row, answer] for row, answer in zip(rows, answers, strict=True)]
        yield {"format": "csv", "columns": _CSV_TYPES, "options": options, "cases": cases}


_CSV_TYPES = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10, 2), w DECIMAL(30, 9), "
    "z DECIMAL(9, 0), x STRING, y BYTES, da DATE, ti TIME, ts TIMESTAMP(3), lz TIMESTAMP_LTZ(3), a ARRAY<INT>, "
    "r ROW<p INT, q STRING>, an ARRAY<DECIMAL(10, 2)>"
)
_CSV_WRITING = (
    {},
    {"write-bigdecimal-in-scientific-notation": "false"},
    {"null-literal": "nul"},
    {"quote-character": "'", "field-delimiter": ";", "array-element-delimiter": "|"},
    {"disable-quote-character": "true"},
    {"escape-character": "\\"},
    {"field-delimiter": "§"},
    {"quote-character": "é", "escape-character": "ü"},
)
_CELLS = [
    '{"b":true,"t":-1,"s":2,"i":3,"l":4,"f":1.5,"d":1e10,"n":27000,"w":100000,"z":100000,"x":"abc","y":"QUJD",'
    '"da":"2026-01-02","ti":"03:04:05","ts":"2026-01-02 03:04:05.600","lz":"2026-01-02 03:04:05Z","a":[1,2],'
    '"r":{"p":1,"q":"s"},"an":[1.50,0]}',
    "{}",
    '{"n":0,"w":0,"z":0,"x":"","a":[],"r":{}}',
    '{"n":0.10,"w":0.000000110,"z":-7,"x":"a b","a":[null,1],"r":{"p":null,"q":""}}',
    '{"w":123456789012345678901.5,"x":"a,b;c|d"}',
    *(
        f'{{"x":{text}}}'
        for text in ('"a \\"b\\""', "\"'q'\"", '"\\n"', '"#c"', '"\\\\"', '" x "', '"\\u00e9\\ud83d\\ude00"')
    ),
]


if __name__ == "__main__":
    raise SystemExit(main())
