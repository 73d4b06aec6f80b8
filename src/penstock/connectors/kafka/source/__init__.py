"""Reading Kafka tables: start and stop of a scan, the planning of batches, and the work of tasks."""
