"""Writing Kafka tables: what writing tasks do, and how a batch is committed."""
