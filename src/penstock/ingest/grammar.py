"""The keys of a pipeline that are neither options nor fields of its definition."""

from __future__ import annotations

#: The key of a transform for the text between its options of tables.
DELIMITER = "table-options.delimiter"
#: The key below ``pipeline`` of what keeps records that are left out.
COLLECTOR = "dirty-data.collector"
#: The key below ``pipeline`` of the list of functions.
FUNCTIONS = "user-defined-function"
#: The keys of the sink that are lists of kinds of changes.
INCLUDE, EXCLUDE = "include.schema.changes", "exclude.schema.changes"
#: The option of the sink that is also read where the source has it.
MAPPING = "sink.tableId-to-topic.mapping"
#: Settings that have a shorter key below ``pipeline``.
SHORT_SETTINGS = {
    "name": "pipeline.name",
    "parallelism": "parallelism.default",
    "local-time-zone": "table.local-time-zone",
}
