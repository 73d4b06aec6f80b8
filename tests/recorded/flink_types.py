"""Rewrites ``types.json``: the bytes that Flink's TypeInformationSerializationSchema makes of values.

    python tests/recorded/flink_types.py

runs in a Python with ``apache-flink`` 2.2, which has nothing of this project.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "types.json"
_HOW = "Made by `python tests/recorded/flink_types.py`. Do not edit it."
_LARGE = 5_000_000_000
#: Types, each a name with those of its parts, and their values. Rows are lists that begin with their kind.
CASES: list[tuple[list[Any], list[Any]]] = [
    (["BOOLEAN"], [True, False]),
    (["BYTE"], [0, 127, -128]),
    (["SHORT"], [0, 32767, -32768, 258]),
    (["INT"], [0, 1, -1, 2**31 - 1, -(2**31)]),
    (["LONG"], [0, 1, -1, 2**63 - 1, -(2**63)]),
    (["FLOAT"], [0.0, -1.5, 3.25]),
    (["DOUBLE"], [0.0, 0.1, -1e300]),
    (
        ["STRING"],
        ["", "a", "größe", "\U0001f600", "\u0080\u3fff\u4000\uffff", "x" * 126, "x" * 127, "y" * 300, None],
    ),
    (["BYTES"], ["", "00ff7f80"]),
    (["LIST", ["INT"]], [[], [1, -2, 3]]),
    (["LIST", ["STRING"]], [["a", "", "ü"]]),
    (["MAP", ["STRING"], ["LONG"]], [{}, {"a": _LARGE}, {"b": None}]),
    (["ROW", ["INT"], ["STRING"]], [[0, 1, "a"], [0, None, None], [1, 7, None], [2, None, "b"], [3, 1, ""]]),
    (["ROW", *[["BOOLEAN"]] * 9], [[0, *[True] * 9], [3, *[None] * 8, False]]),
    (
        ["ROW", ["ROW", ["LONG"], ["LIST", ["DOUBLE"]]], ["MAP", ["STRING"], ["STRING"]]],
        [[0, [0, _LARGE, [0.5]], {"k": "v"}]],
    ),
]
_BOXES = {"BYTE": "Byte", "SHORT": "Short", "INT": "Integer", "LONG": "Long", "FLOAT": "Float", "DOUBLE": "Double"}


def main() -> None:
    """Ask Flink, and write its answers."""
    from pyflink.common import Types  # type: ignore[import-not-found]
    from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found]

    gateway = get_gateway()
    jvm = gateway.jvm

    def info(kind: list[Any]) -> Any:
        name, *parts = kind
        if name == "BYTES":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        if name == "ROW":
            return Types.ROW([info(each) for each in parts])
        return getattr(Types, name)(*map(info, parts))

    def value_of(kind: list[Any], value: Any) -> Any:
        """A value of Java's."""
        name, *parts = kind
        if value is None or not (parts or name == "BYTES"):
            return value
        if name == "BYTES":
            return bytes.fromhex(value)
        if name == "LIST":
            return list_of(parts[0], value)
        if name == "MAP":
            found = jvm.java.util.HashMap()
            for key, each in value.items():
                found.put(key, value_of(parts[1], each))
            return found
        row = jvm.org.apache.flink.types.Row(len(parts))
        row.setKind(jvm.org.apache.flink.types.RowKind.values()[value[0]])
        for place, (part, each) in enumerate(zip(parts, value[1:], strict=True)):
            row.setField(place, value_of(part, each))
        return row

    def list_of(kind: list[Any], values: list[Any]) -> Any:
        """A list of Java's. An array gives numbers the class that py4j would choose by their size."""
        box = getattr(jvm.java.lang, _BOXES.get(kind[0], "Object"))
        array = gateway.new_array(box, len(values))
        for place, each in enumerate(values):
            array[place] = value_of(kind, each)
        objects = gateway.new_array(jvm.java.lang.Object, len(values))
        jvm.java.lang.System.arraycopy(array, 0, objects, 0, len(values))
        return jvm.java.util.Arrays.asList(objects)

    def written(kind: list[Any], value: Any) -> str:
        """The bytes: those of a list of one value, without the length of the list."""
        java = info(["LIST", kind]).get_java_type_info()
        config = jvm.org.apache.flink.api.common.ExecutionConfig()
        schema = jvm.org.apache.flink.api.common.serialization.TypeInformationSerializationSchema(java, config)
        return bytes(schema.serialize(list_of(kind, [value])))[4:].hex()

    found = [
        {"type": kind, "values": [{"value": each, "bytes": written(kind, each)} for each in values]}
        for kind, values in CASES
    ]
    RECORDED.write_text(json.dumps({"how": _HOW, "types": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
