"""The process that runs programs by PyFlink, in a Python of its own. ``streams.py`` starts it.

Its argument is a folder with the programs, whose imports name PyFlink. Tasks, one a line, are
``{"name": ..., "environment": {...}}``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

REPLY = "ANSWER "


def main(folder: Path) -> None:
    """Run one program per line of the standard input."""
    for line in sys.stdin:
        task = json.loads(line)
        os.environ.update(task["environment"])
        sys.modules.pop("tests.streams.ends", None)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                runpy.run_path(str(folder / "tests" / "streams" / f"{task['name']}.py"), run_name="__main__")
            answer = {"printed": printed.getvalue()}
        except Exception:  # noqa: BLE001 - the caller reports it
            answer = {"error": traceback.format_exc()[-3000:]}
        print(REPLY + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
