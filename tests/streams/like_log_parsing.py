"""As a job that reads lines of access logs: each becomes a document, and what cannot be read one that says so."""

import json
import re
from datetime import UTC, datetime

from penstock.common import Types
from penstock.datastream import MapFunction, RuntimeContext
from tests.streams.ends import environment, read, write

LINE = r'(?P<host>\S+) \[(?P<time>[^\]]+)\] "(?P<method>\w+) (?P<path>\S+)" (?P<status>\d{3}) (?P<size>\d+|-)'


class Parsed(MapFunction):
    """Compiles the pattern once in each task."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Compile it."""
        self.pattern = re.compile(LINE)

    def map(self, value: str) -> str:
        """The line as a document."""
        match = self.pattern.match(value)
        if match is None:
            return json.dumps({"status": "error", "message": f"unreadable: {value}"}, ensure_ascii=False)
        found = match.groupdict()
        at = datetime.strptime(found["time"], "%d/%b/%Y:%H:%M:%S").replace(tzinfo=UTC)
        size = 0 if found["size"] == "-" else int(found["size"])
        document = {**found, "time": at.isoformat(), "size": size, "status": int(found["status"])}
        return json.dumps(document, ensure_ascii=False)


env = environment()
documents = read(env, "in").map(Parsed(), output_type=Types.STRING())
write(documents, "parsed")
write(documents.filter(lambda text: json.loads(text)["status"] == "error"), "errors")
env.execute("like_log_parsing")
