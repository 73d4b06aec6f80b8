"""What a connector or a format implements, and what it gets. Nothing here names a type of Spark, so that only the
engine and the runtimes of connectors import it."""
