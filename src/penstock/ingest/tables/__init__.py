"""The work of pipelines on many tables: from messages to rows of the sink's tables, whose schemas change."""
