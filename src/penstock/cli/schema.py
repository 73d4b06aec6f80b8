"""``penstock schema``: the grammar of pipelines, for editors."""

from __future__ import annotations

import argparse
import json

from penstock.cli.display import describe_command


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers ``schema``."""
    text = "print a JSON Schema of YAML pipelines, by which editors check and complete them"
    parser = subparsers.add_parser("schema", help=text, description=describe_command(text))
    parser.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> int:
    from penstock.ingest.json_schema import build_schema
    from penstock.kafka.properties import ACTS

    print(json.dumps(build_schema(ACTS), indent=1, ensure_ascii=False))
    return 0
