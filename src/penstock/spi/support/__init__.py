"""What the engine and the runtimes of connectors share in carrying that out: rows on their way through Spark, files of
tasks, the documents of sources."""
