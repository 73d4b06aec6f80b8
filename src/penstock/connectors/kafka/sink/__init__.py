"""Writing Kafka tables: the work of tasks, and the commit of a batch."""
