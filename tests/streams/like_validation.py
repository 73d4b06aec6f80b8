"""As a job that checks measurements: documents that are whole go on, the others go aside with the reason."""

import json

from penstock.common import Types
from penstock.datastream import OutputTag, ProcessFunction
from tests.streams.ends import environment, read, write

INVALID = OutputTag("invalid-records", Types.STRING())
REQUIRED = ("plant", "metric", "value")


def problem(text: str) -> str | None:
    """What is wrong with a measurement."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        return f"no JSON: {error.msg}"
    if not isinstance(found, dict):
        return "no object"
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        return f"lacks {', '.join(missing)}"
    return None if isinstance(found["value"], int | float) else "the value is no number"


class Checked(ProcessFunction):
    """Parses what is valid."""

    def process_element(self, value: str, ctx: ProcessFunction.Context):
        """The measurement, or aside what is wrong with it."""
        reason = problem(value)
        if reason is None:
            yield json.loads(value)
        else:
            yield INVALID, json.dumps({"reason": reason, "raw": value})


env = environment()
checked = read(env, "in").process(Checked()).name("check")
write(checked.map(lambda one: f"{one['plant']}/{one['metric']}={float(one['value'])}", Types.STRING()), "valid")
write(checked.get_side_output(INVALID), "invalid")
env.execute("like_validation")
