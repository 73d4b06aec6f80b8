"""Reading Kafka tables: where a scan starts, how far each batch goes, and what its tasks do."""
