"""What the engine and the runtimes of connectors share to implement that: rows on their way through Spark, files of
tasks, the documents of sources."""
