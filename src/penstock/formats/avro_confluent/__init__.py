"""The ``avro-confluent`` format: Avro data behind the id of its schema, which a registry keeps."""
